"""A kernel and a busybox to boot: Debian's packages, unpacked into a cache, never installed.

``apt-get download`` fetches them (no root; apt checks the signature), ``dpkg-deb`` unpacks them.
What the cache holds is used without asking apt.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topologies.capturing.boards import X86, Board
from topologies.capturing.errors import CaptureError
from topologies.user_cache import cache_folder

_IMAGE: Final = re.compile(r"Depends: (linux-image-[0-9][a-z0-9.+~-]+)")
_DEADLINE: Final = 300.0
_WHERE: Final = "with QEMU"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a guest is made of: a kernel, and a static busybox."""

    kernel: Path
    busybox: Path


def parts(say: Callable[[str], None] = lambda _: None, board: Board = X86) -> Parts:
    """The newest kernel of the cache with its busybox, else freshly downloaded ones; raises
    :class:`CaptureError` where neither can be had."""
    found = sorted(_cache(board).glob("linux-image-*"), key=_version)
    for place in reversed(found):
        if (place / "vmlinuz").is_file() and (place / "busybox").is_file():
            return Parts(place / "vmlinuz", place / "busybox")
    return _download(say, board)


def _cache(board: Board) -> Path:
    kernels = cache_folder("kernels")
    return kernels if board is X86 else kernels / board.debian


def _version(place: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", place.name))


def _download(say: Callable[[str], None], board: Board) -> Parts:
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise CaptureError(_WHERE, f"the kernel is a Debian package, and there is no {tool}")
    cache = _cache(board)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        apt = () if board is X86 else _apt_of(board, cache, say)
        package = _newest(apt, board)
        say(f"fetching {package}")
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=cache) as draft:
            return _unpack(apt, Path(draft), package, cache / package)
    except OSError as error:
        raise CaptureError(_WHERE, f"the kernel cannot be kept: {error}") from error


#: Options of apt: none for the host's architecture, else those of an apt for another one alone.
_Apt = tuple[str, ...]


def _apt_of(board: Board, cache: Path, say: Callable[[str], None]) -> _Apt:
    """Options of an apt with its own state: the host's knows no packages of that architecture."""
    state = cache / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": board.debian,
        "APT::Architectures": board.debian,
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
    }
    apt = tuple(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))
    say(f"asking for the packages of {board.debian}")
    # This may fail for a source of the host without this architecture: the others still count.
    _run(["apt-get", *apt, "-q", "update"], cache, fail=False)
    return apt


def _newest(apt: _Apt, board: Board) -> str:
    for meta in board.kernels:
        depends = _run(["apt-cache", *apt, "depends", meta], Path("/"), fail=False)
        if found := _IMAGE.search(depends):
            return found[1]
    meta = board.kernels[0]
    raise CaptureError(_WHERE, f"apt knows no kernel package ({meta}): run apt-get update")


def _unpack(apt: _Apt, draft: Path, package: str, place: Path) -> Parts:
    _run(["apt-get", *apt, "-q", "download", package, "busybox-static"], draft)
    for archive in sorted(draft.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(archive), "tree"], draft)
    ready = draft / "ready"
    ready.mkdir()
    for name, pattern in (
        ("vmlinuz", "tree/boot/vmlinu[xz]-*"),
        ("busybox", "tree/**/bin/busybox"),
    ):
        found = sorted(draft.glob(pattern))
        if not found:
            raise CaptureError(_WHERE, f"{package} or busybox-static holds no {pattern}")
        shutil.copy(found[0], ready / name)
    shutil.rmtree(place, ignore_errors=True)
    ready.rename(place)
    return Parts(place / "vmlinuz", place / "busybox")


def _run(command: list[str], folder: Path, *, fail: bool = True) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=_DEADLINE,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CaptureError(_WHERE, f"{command[0]} took more than {_DEADLINE:g} s") from None
    if done.returncode and fail:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in said if line.startswith("E:")] or said or ["failed"]
        raise CaptureError(_WHERE, f"{' '.join(command[:3])}: {errors[-1]}")
    return done.stdout.decode("utf-8", "replace")
