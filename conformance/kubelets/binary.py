"""A kubelet's binary: whether it is one, its version, its digest."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Final

from conformance.kubelets.releases import Version
from conformance.subject import SubjectSetupError, SubjectUsageError

_ANSWER: Final = re.compile(r"Kubernetes (v(\d+)\.(\d+)\.(\d+)\S*)\s*", re.ASCII)
#: Wrappers may have to start an interpreter first.
_VERSION_PATIENCE: Final = 20.0


def program_at(target: str) -> Path:
    """The executable file at a path; raises :class:`SubjectUsageError` for what is none."""
    path = Path(target).expanduser().absolute()
    try:
        if path.is_dir():
            raise SubjectUsageError(f"{path} is a folder, not a kubelet")
        if not path.exists():
            raise SubjectUsageError(f"{path}: neither a file nor a release such as 1.36")
    except OSError as error:
        raise SubjectUsageError(f"{path}: {error.strerror}") from error
    if not os.access(path, os.X_OK):
        raise SubjectUsageError(f"{path} is not executable")
    return path


def version_of(path: Path) -> tuple[Version, str]:
    """What a kubelet answers to ``--version``, parsed and as it stands; raises
    :class:`SubjectUsageError` for a program that is no kubelet."""
    answer = _run_for_version(path)
    match = _ANSWER.fullmatch(answer)
    if match is None:
        shown = answer.strip().splitlines()[:1]
        said = f"answered {shown[0][:80]!r}" if shown else "said nothing"
        raise SubjectUsageError(
            f"{path} is not a kubelet: asked for --version it {said}, not `Kubernetes vX.Y.Z`"
        )
    return Version(*map(int, match.group(2, 3, 4))), match[1]


def _run_for_version(path: Path) -> str:
    """What it says to ``--version``. It gets a session of its own, so that whatever a wrapper
    started can be ended with it."""
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise SubjectUsageError(f"{path} cannot be executed: {error.strerror}") from error
    with process:
        try:
            output, _ = process.communicate(timeout=_VERSION_PATIENCE)
        except subprocess.TimeoutExpired:
            raise SubjectUsageError(
                f"{path} is not a kubelet: no answer to --version in {_VERSION_PATIENCE:g} s"
            ) from None
        finally:
            _kill_session(process.pid)
    return output[:4096].decode(errors="replace")


def _kill_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def digest_of(path: Path) -> str:
    """The sha256 of a file, as reports have it; raises :class:`SubjectSetupError`."""
    try:
        with path.open("rb") as stream:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError as error:
        raise SubjectSetupError(f"{path} cannot be read: {error.strerror}") from error
