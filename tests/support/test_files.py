import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taccl.errors import FileError
from taccl.support.files import ensure_writable, write_atomically, write_pieces


def test_text_replaces_the_file_that_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.xml"
    target.write_text("old")
    write_atomically(target, "new\n")
    assert target.read_text() == "new\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_half_way_keeps_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.xml"
    target.write_text("old")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(FileError, match="No space left"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_pieces_that_cannot_all_be_made_leave_nothing(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"begun"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_pieces(tmp_path / "out.json", pieces())
    assert not list(tmp_path.iterdir())
    write_pieces(tmp_path / "out.json", iter([b"one", b" after another"]))
    assert (tmp_path / "out.json").read_text() == "one after another"


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.xml", tmp_path / "link.xml"
    real.write_text("old")
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_the_permissions_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.xml"
    target.write_text("old")
    target.chmod(0o640)
    write_atomically(target, "new")
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ensure_writable(pipe)
        write_atomically(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "folder, not a file"),
        ("missing/out.xml", "does not exist"),
        ("text/out.xml", "text is a file, not a folder"),
        ("x" * 300, "cannot be written"),
        ("loop", "cannot be written"),
    ],
)
def test_an_unwritable_path_is_refused_with_its_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "text").touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileError, match=why):
        ensure_writable(tmp_path / name)
    with pytest.raises(FileError, match=why):
        write_atomically(tmp_path / name, "text")
    assert sorted(tmp_path.iterdir()) == before


def test_asking_whether_a_path_is_writable_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.xml"
    ensure_writable(target)
    assert not list(tmp_path.iterdir())
    target.write_text("old")
    ensure_writable(target)
    assert target.read_text() == "old"
