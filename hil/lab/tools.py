"""Programs of the host that the lab runs: found, or named with their package, and bounded.

What belongs here: which program comes in which Debian package, and one way to run a helper that
ends with this process. What never does: QEMU itself, which outlives it (:mod:`hil.lab.process`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, Final

from hil.lab.errors import LabError, LabToolMissing

QEMU: Final = "qemu-system-x86_64"
QEMU_IMG: Final = "qemu-img"
MMDEBSTRAP: Final = "mmdebstrap"
MKE2FS: Final = "mke2fs"
APT_GET: Final = "apt-get"
APT_CACHE: Final = "apt-cache"
SSH: Final = "ssh"
SSH_KEYGEN: Final = "ssh-keygen"

_PACKAGE: Final = {
    QEMU: "qemu-system-x86",
    QEMU_IMG: "qemu-utils",
    MMDEBSTRAP: "mmdebstrap",
    MKE2FS: "e2fsprogs",
    APT_GET: "apt",
    APT_CACHE: "apt",
    SSH: "openssh-client",
    SSH_KEYGEN: "openssh-client",
}
#: Where root's programs are, when an ordinary user's PATH does not say so.
_BESIDE: Final = ("/usr/sbin", "/sbin")


def need(*programs: str) -> None:
    """Raise :class:`LabToolMissing` for the first of ``programs`` that is not installed."""
    for program in programs:
        found(program)


def found(program: str) -> str:
    """The path of ``program``; raises :class:`LabToolMissing`."""
    path = os.environ.get("PATH", os.defpath)
    place = shutil.which(program, path=os.pathsep.join([path, *_BESIDE]))
    if place is None:
        raise LabToolMissing(program, _PACKAGE[program])
    return place


def run(
    command: Sequence[str],
    *,
    deadline: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    heard: Callable[[str], None] = lambda _line: None,
) -> str:
    """What ``command`` writes to stdout; each line that it writes to stderr is passed on to
    ``heard`` as it comes, by another thread. Its whole process group ends with this call, however
    the call ends. Raises :class:`LabError` with one line of its stderr, and all of that as
    evidence."""
    argv = [found(command[0]), *command[1:]]
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    complaint: list[str] = []
    assert process.stderr is not None
    reader = Thread(target=_collect, args=(process.stderr, complaint, heard), daemon=True)
    process.stderr = None  # Only the reader reads it, not communicate().
    reader.start()
    try:
        said, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        raise LabError(f"{command[0]} took more than {deadline:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        reader.join()
    if process.returncode:
        text = "".join(complaint)
        raise LabError(f"{command[0]} failed: {_reason(text)}", evidence=text)
    return said.decode("utf-8", "replace")


def _collect(stream: IO[bytes], complaint: list[str], heard: Callable[[str], None]) -> None:
    with stream:
        for line in stream:
            complaint.append(line.decode("utf-8", "replace"))
            heard(complaint[-1].strip())


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    # After their first error, apt and mmdebstrap only say that they failed.
    said = errors[0] if errors else (lines or ["it said nothing"])[-1]
    return said[:300]
