"""What becomes of errors that no room of taccl raises by itself."""

import click
import pytest

from taccl.cli.failures import in_one_line

NO_ROOM = "libsolver.so.2: failed to map segment from shared object"


def reported(
    failure: Exception, context: Exception | None, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code and the first line, of a failure that came of another one."""
    failure.__context__ = context
    with pytest.raises(click.exceptions.Exit) as end, in_one_line():
        raise failure
    return end.value.exit_code, capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("failure", "context"),
    [
        (MemoryError(), None),
        (ImportError(NO_ROOM), None),
        (OSError("could not load a library"), OSError(NO_ROOM)),
        (OSError(12, "Cannot allocate memory"), None),
    ],
    ids=["array", "solver", "compiler", "system"],
)
def test_memory_that_runs_out_while_a_library_is_loaded_is_no_bug_and_no_full_disk(
    failure: Exception, context: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reported(failure, context, capsys) == (2, "error: out of memory")


def test_a_library_that_may_not_be_run_is_not_taken_for_too_large(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = reported(ImportError(f"{NO_ROOM}: Operation not permitted"), None, capsys)
    assert code == 1
    assert "internal error (ImportError: libsolver.so.2" in line
