"""Ctrl-C while a file is made: it is made all the same."""

from __future__ import annotations

import pytest

from taccl import synthesize
from taccl.synthesis import emit


@pytest.mark.parametrize("is_hidden", [False, True])
def test_ctrl_c_once_while_the_file_is_made_does_not_lose_it(
    monkeypatch: pytest.MonkeyPatch, is_hidden: bool
) -> None:
    """Hidden: as a SystemError, which machine code makes of it."""
    make, pressed = emit.files_of, []

    def once(*words: object) -> object:
        if not pressed:
            pressed.append(True)
            if is_hidden:
                raise SystemError from KeyboardInterrupt()
            raise KeyboardInterrupt
        return make(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(emit, "files_of", once)
    result = synthesize("allgather", topology="ring:3", size="3KB", chunks=1, effort=10)
    assert pressed
    assert result.verified
