"""A report's file is whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reports.files import write_atomically


def test_a_file_is_written_as_utf_8_with_the_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_atomically(path, "été\n")
    assert path.read_bytes() == "été\n".encode()
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode & 0o777 == plain.stat().st_mode & 0o777 & 0o644


def test_a_failed_write_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "x" * 100_000 + "\ud800")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_a_pipe_is_written_into(tmp_path: Path) -> None:
    """So is a device, which would be gone otherwise."""
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "text")
    assert os.read(reader, 100) == b"text"
    assert pipe.is_fifo()
    os.close(reader)
