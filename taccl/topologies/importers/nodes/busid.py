"""Bus ids as all formats are brought to: `dddd:bb:dd.f`, lower case."""

from __future__ import annotations

import re

_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?", re.IGNORECASE)


def normal_busid(text: str) -> str | None:
    """The bus id in a text such as `00000000:17:00.0`, `0000:17:00.0` or `17:00.0`; None if it is none.

    Domains of more than four digits that begin with zeros lose them: NVML and sysfs write them apart.
    """
    match = _BUS_ID.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.group(1, 2, 3))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{(match[4] or '0').lower()}"
