"""What tests of captures, of archives, and of what other programs say of a machine share."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import lacking
from topologies import Link

#: Of an archive: name, content or target, type.
Member = tuple[str, bytes | str, bytes]


def tar(*members: Member, fmt: int = tarfile.GNU_FORMAT) -> bytes:
    """An archive of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as made:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            data = content
            if isinstance(data, str):
                data = data.encode("utf-8", "surrogateescape")
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = str(content)
            elif kind == tarfile.REGTYPE:
                info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return out.getvalue()


def members_of(tree: Mapping[str, str], above: str = "") -> list[Member]:
    """Every file and link of a machine, in a folder of the archive."""
    return [
        (above + path, str(text), tarfile.SYMTYPE if isinstance(text, Link) else tarfile.REGTYPE)
        for path, text in sorted(tree.items())
    ]


def printed_by(program: str, *words: str | Path) -> str:
    """What a program prints in plain English that finds nothing to complain of. Where there is no
    such program, the test skips."""
    command = [lacking.program(program), *map(str, words)]
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every user may read. pytest's own are closed to other users, and each
    pytest that starts beside this one closes their parent again."""
    with tempfile.TemporaryDirectory(prefix="pinproof-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
