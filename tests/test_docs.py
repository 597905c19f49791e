"""Every example of the README and docs/ is run, in the order of the page, in one folder per page.

- ```console : lines after `$ ` are taccl commands; each must succeed, and what the page shows of its output
  must be there (`...` stands for anything). Numbers count where they do not depend on the computer. After
  `; echo $?`, the last line is the exit code.
- ```python : run as it stands, or as doctests where it has `>>>`.
- ```yaml whose first line is `# NAME.yaml`, ```xml with `<!-- NAME.xml -->`, ```text with `# NAME.txt` and
  ```csv with `# NAME.csv`: written to that file, for the commands that follow.
Other blocks are not run.
"""

import doctest
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import PAGES, RESULTS, ROOT, name_of

from taccl.cli.main import main

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ECHO_CODE = "; echo $?"
#: The first line of a block that is a file.
_FILES = {
    "yaml": r"# (\S+\.ya?ml)\b",
    "xml": r"<!-- (\S+\.xml) -->",
    "text": r"# (\S+\.txt)\n",
    "csv": r"# (\S+\.csv)\n",
}
#: What of the project a page names in code, files and modules; words in capitals stand for any name.
_FILE = re.compile(r"`((?:taccl|benchmarks|tests|docs)(?:/[a-z_0-9.-]+)+/?)`")
_MODULE = re.compile(r"(?:python -m (?=benchmarks|tests)|`(?=taccl\.encoding))([a-z_0-9.]*[a-z_0-9])")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines of output that the page shows."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*", part)
        assert command is not None
        yield command[0], [line for line in part[command.end() :].splitlines() if line.strip()]


def has_its_numbers(words: list[str]) -> bool:
    """Whether a command prints the same numbers on every computer: it counts work, or does not search."""
    return "--effort" in words or words[0] in ("simulate", "verify")


def pattern(line: str, *, numbers: bool = False) -> re.Pattern[str]:
    """A shown line as a pattern: blanks and `...` stand for any, and numbers unless they count."""

    def is_any(word: str) -> bool:
        return not numbers and re.fullmatch(r"[\d.]+", word) is not None

    words = re.split(r"(\.\.\.|\d+(?:\.\d+)?|\s+)", line.strip())
    translate = {"...": ".*"}
    return re.compile(
        "".join(
            translate.get(word)
            or (r"\s+" if word.isspace() else r"[\d.]+" if is_any(word) else re.escape(word))
            for word in words
            if word
        )
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader has at the start: the sketches, what benchmarks printed, and plans."""
    shutil.copytree(ROOT / "sketches", tmp_path / "sketches")
    shutil.copytree(ROOT / "tests" / "data" / "measurements", tmp_path / "measured")
    shutil.copytree(ROOT / "tests" / "data" / "mscclpp", tmp_path / "plans")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, folder: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(page):
        place = f"{name_of(page)}:{block.line}"
        if block.language == "console":
            for command, shown in commands(block):
                run_command(command, shown, place)
        elif block.language == "python" and ">>>" in block.text:
            run_doctest(block.text, names, place)
        elif block.language == "python":
            exec(compile(block.text, place, "exec"), names)
        elif block.language in _FILES and (name := re.match(_FILES[block.language], block.text)):
            (folder / name[1]).write_text(block.text)


def test_the_examples_of_modules_run() -> None:
    sources = [path for path in sorted((ROOT / "taccl").rglob("*.py")) if ">>> " in path.read_text()]
    assert sources
    for source in sources:
        module = import_module(".".join(source.relative_to(ROOT).with_suffix("").parts))
        assert not doctest.testmod(module).failed, source


def run_command(command: str, shown: list[str], place: str) -> None:
    code = 0
    if command.endswith(_ECHO_CODE):
        command, code, shown = command.removesuffix(_ECHO_CODE), int(shown[-1]), shown[:-1]
    program, *words = shlex.split(command.replace("\\\n", " "))
    assert program == "taccl", f"{place}: only taccl is run here, not {program}"
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, f"{place}: {command}\n{done.output}"
    for line in shown:
        shown_as = pattern(line, numbers=has_its_numbers(words))
        assert shown_as.search(done.output), f"{place}: {command}\nno line like {line!r}:\n{done.output}"


def run_doctest(text: str, names: dict[str, object], place: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, place, place, 0)
    complaints: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = runner.run(test, out=complaints.append, clear_globs=False).failed
    names.update(test.globs)
    assert not failed, "".join(complaints)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=name_of)
def test_what_a_page_names_of_the_project_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    modules = [ROOT / module.replace(".", "/") for module in _MODULE.findall(text)]
    missing = [file for file in _FILE.findall(text) if not (ROOT / file).exists()]
    missing += [place for place in modules if not place.is_dir() and not place.with_suffix(".py").exists()]
    assert not missing


def test_a_shown_line_matches_whatever_its_numbers() -> None:
    line = pattern("gap  14.78%  (...)")
    assert line.search("gap          0.00%  (optimal)")
    assert not line.search("gap          0.00%  optimal")


def test_numbers_count_where_every_computer_prints_the_same() -> None:
    assert has_its_numbers(["synthesize", "--effort", "100"])
    assert not has_its_numbers(["synthesize", "--time-limit", "3"])
    line = pattern("gap  14.78%  (...)", numbers=True)
    assert line.search("gap          14.78%  (optimal)")
    assert not line.search("gap          14.79%  (optimal)")
