"""A kubelet's binary: whether it is one, its version, its digest."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Final

from conformance.kubelets.releases import Version
from conformance.subject import SubjectSetupError, SubjectUsageError, usable

_ANSWER: Final = re.compile(r"Kubernetes (v(\d+)\.(\d+)\.(\d+)\S*)\s*", re.ASCII)
#: In seconds. A wrapper may have to start an interpreter first.
_VERSION_PATIENCE: Final = 20.0
#: How many bytes of an answer are read; a version is one line.
_LONGEST_ANSWER: Final = 4096
#: Architectures as ELF headers number them, by the names that kernels have for them.
_ELF_MACHINES: Final = {
    3: "i386", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64",
}  # fmt: skip


def program_at(target: str) -> Path:
    """The executable file at a path; raises :class:`SubjectUsageError` for anything else."""
    path = Path(target).expanduser().absolute()
    with usable(path):
        if path.is_dir():
            raise SubjectUsageError(f"{path} is a folder, not a kubelet")
        if not path.exists():
            raise SubjectUsageError(f"{path}: neither a file nor a release such as 1.36")
    if not os.access(path, os.X_OK):
        raise SubjectUsageError(f"{path} is not executable")
    return path


def version_of(path: Path) -> tuple[Version, str]:
    """What a kubelet answers to ``--version``, parsed and verbatim; raises
    :class:`SubjectUsageError` for a program that is not a kubelet."""
    return version_in(_run_for_version(path), path)


def version_in(answer: str, path: Path) -> tuple[Version, str]:
    """The version in what the program at ``path`` answered to ``--version``; raises as
    :func:`version_of`."""
    match = _ANSWER.fullmatch(answer)
    if match is None:
        shown = answer.strip().splitlines()[:1]
        said = f"answered {shown[0][:80]!r}" if shown else "said nothing"
        raise SubjectUsageError(
            f"{path} is not a kubelet: asked for --version it {said}, not `Kubernetes vX.Y.Z`"
        )
    return Version(*map(int, match.group(2, 3, 4))), match[1]


def _run_for_version(path: Path) -> str:
    """The program's answer to ``--version``. It runs in a session of its own, so that every process
    that a wrapper started can be ended with it."""
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        why = _other_architecture(path) if error.errno == errno.ENOEXEC else ""
        raise SubjectUsageError(f"{path} cannot be executed: {why or error.strerror}") from error
    with process:
        try:
            assert process.stdout is not None
            return _first_of(process.stdout, path)
        finally:
            _kill_session(process.pid)


def _first_of(stream: IO[bytes], path: Path) -> str:
    """What the program says until it ends, up to ``_LONGEST_ANSWER`` bytes."""
    text, deadline = b"", time.monotonic() + _VERSION_PATIENCE
    while len(text) < _LONGEST_ANSWER:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise SubjectUsageError(
                f"{path} is not a kubelet: no answer to --version in {_VERSION_PATIENCE:g} s"
            )
        piece = os.read(stream.fileno(), _LONGEST_ANSWER)
        if not piece:
            break
        text += piece
    return text[:_LONGEST_ANSWER].decode(errors="replace")


def _other_architecture(path: Path) -> str:
    """Why this host cannot execute a program of another architecture; ``""`` if the file does not
    say."""
    built_for = architecture_of_program(path)
    if built_for in ("", platform.machine()):
        return ""
    return f"it is built for {built_for}, and this host is {platform.machine()}"


def architecture_of_program(path: Path) -> str:
    """The architecture that a program was built for, as ``uname -m`` names it; ``""`` if the file
    does not say."""
    with path.open("rb") as stream:
        head = stream.read(20)
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return ""
    number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
    return _ELF_MACHINES.get(number, f"machine {number}")


def _kill_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def digest_of(path: Path) -> str:
    """The sha256 of a file, as in reports; raises :class:`SubjectSetupError`."""
    try:
        with path.open("rb") as stream:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError as error:
        raise SubjectSetupError(f"{path} cannot be read: {error.strerror}") from error
