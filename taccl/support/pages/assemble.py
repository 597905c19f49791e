"""One HTML page that needs nothing else: no network, no other file.

It is put together from files next to the modules that know what is shown, and from `page.html`, `page.css`
and `base.js`, which are the same in all pages. What is to be shown goes into it as JSON.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files

#: The package, and the name of a file in it.
Part = tuple[str, str]


def text_of(part: Part) -> str:
    """What stands in a file of a package."""
    package, name = part
    return files(package).joinpath(name).read_text(encoding="utf-8")


def assemble(title: str, body: str, scripts: Sequence[str], data: object, styles: Sequence[str] = ()) -> str:
    """The whole page as text.

    Parameters
    ----------
    body : markup below the title.
    scripts : texts, run one after the other in one function, after `base.js`.
    data : plain values; the scripts find them as `pageData`.
    styles : texts, after `page.css`.
    """
    base = text_of((__package__, "base.js"))
    parts = {
        "TITLE": html.escape(title),
        "STYLE": "\n".join([text_of((__package__, "page.css")), *styles]),
        "BODY": body,
        "SCRIPT": "\n".join([base, *scripts]),
        "DATA": _escaped(json.dumps(data, separators=(",", ":"), allow_nan=False)),
    }
    # All at once, so that nothing that was put in is taken for a placeholder.
    return re.sub("@([A-Z]+)@", lambda place: parts[place[1]], text_of((__package__, "page.html")))


def _escaped(text: str) -> str:
    """JSON that cannot end the script element that it stands in, nor be read as markup."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
