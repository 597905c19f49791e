"""No value of an option ends in a traceback; each is taken, or refused in a sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from taccl.cli.main import main

Taccl = Callable[..., Result]

VALUES = (
    *("0", "-1", "7", "nan", "inf", "-inf", "1e400", "1e308", "1e-308", "2147483648", "9" * 30, "9" * 5000),
    *("", "x", "0x10", "1e3", "٣", " 1", "-0.0", "1048577TB", "1e30GB", "0.5B", "\0"),
)
SEARCH = ("--topology", "ring:3", "--size", "3MB", "--time-limit", "1", "-q")
DGX = ("--topology", "dgx-h100", "--nodes", "1")
COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("synthesize", *SEARCH, "--engine", "greedy", "--gap", "0.9"): (
        *("--nodes", "--chunks", "--root", "--time-limit", "--gap", "--slack", "--seed", "--instances"),
        *("--size", "--min-size", "--max-size", "--topology", "--sketch", "--profile", "--collective"),
        *("--engine", "--solver", "-o", "--schedule"),
    ),
    ("bound", "--topology", "ring:3", "--size", "3MB"): ("--nodes", "--chunks", "--root", "--size"),
    ("baseline", "nccl", *DGX, "--size", "3MB", "--time-limit", "0.2"): (
        *("--nodes", "--size", "--topology", "--collective", "--gpu", "--nic-latency", "--release"),
    ),
    ("baseline", "nccl", "--topology", "ring:4", "--size", "3MB"): ("--time-limit",),
    ("explain", *SEARCH[:-1]): ("--target-time", "--max-hops", "--time-limit", "--chunks"),
    ("pareto", *SEARCH): ("--max-steps", "--max-chunks", "--time-limit", "--size", "--point"),
    ("simulate", "a.xml", "--topology", "ring:3", "--size", "3MB"): (
        *("--size", "--root", "--slots", "--copy-cost", "--nodes"),
    ),
    ("run", "a.xml", "--timeout", "2"): ("--size", "--root", "--slots", "--seed", "--timeout"),
    ("run", "a.xml", "--timeout", "0.5"): ("--piece",),  # pieces of seven bytes take longer
    ("show", "a.xml"): ("--rank",),
    ("verify", "a.xml"): ("--root", "--collective"),
    ("topology", "show", "ndv2"): ("--nodes", "--profile"),
    ("sketch", "check", "ndv2-sk-1"): ("--nodes", "--topology"),
    ("sketch", "init", "ndv2"): ("--nodes",),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file that the commands which take one are called with."""
    path = tmp_path_factory.mktemp("program") / "a.xml"
    words = ("synthesize", *SEARCH, "--engine", "greedy", "-o", str(path))
    assert CliRunner().invoke(main, words).exit_code == 0
    return path.read_bytes()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        pytest.param(words, option, id=f"{words[0]} {option}")
        for words, options in COMMANDS.items()
        for option in options
    ],
)
def test_absurd_values_are_refused_in_a_sentence_or_taken(
    taccl: Taccl, program: bytes, words: tuple[str, ...], option: str
) -> None:
    Path("a.xml").write_bytes(program)
    taken_for_minutes = {"2147483648"} if (words[0], option) == ("run", "--size") else set()
    for value in VALUES:
        if value in taken_for_minutes:  # two GB, which are no slip of the pen: they are moved
            continue
        done = taccl(*words, option, value)
        assert done.exit_code in (0, 2, 3, 4), (value[:40], done.stderr)
        assert "internal error" not in done.stderr
        assert len(done.stderr) < 8000 or len(value) > 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("synthesize", *SEARCH, "--seed", "-1"), "a seed must be a whole number"),
        (("synthesize", *SEARCH, "--instances", "1000000"), "instances must be a whole number from 1 to 32"),
        (("synthesize", *SEARCH, "--chunks", "1000000"), "--chunks 466033 or fewer"),
        (("synthesize", *SEARCH, "--time-limit", "inf"), "30 days"),
        (("synthesize", "--topology", "full:1000", "--size", "1000MB"), "full:512 or smaller"),
        (("topology", "show", "switch:4096"), "512 that all reach each other"),
        (("sketch", "init", "dgx2", "--nodes", "256"), "512 that all reach each other"),
        (("run", "a.xml", "--timeout", "nan"), "--timeout must be positive"),
    ],
)
def test_absurd_numbers_are_refused_in_the_words_of_the_option(
    taccl: Taccl, words: tuple[str, ...], said: str
) -> None:
    done = taccl(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert not list(Path().iterdir())
