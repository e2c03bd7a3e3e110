"""What a machine may lack that tests need: found, skipped for, and named at the end of a run.

    pytestmark = pytest.mark.needs("sshd", "ssh-keygen")      # a module, or a test
    lacking.skip("sandbox", str(error))                       # where only trying shows it
    python3 tests/support/lacking.py --packages             # Debian's packages for all tests

A test that needs what is not there skips with ``NOT TESTED without sshd: …``. The run ends with one
block: how many tests were not run for want of what, and what installs it. Without options, this
needs nothing but Python, because ``.ci/run`` asks before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

_SAID: Final = re.compile(r"(?:Skipped: )?NOT TESTED without (?P<part>[^:]+)(?:: |$)")
#: Where programs are that an ordinary user's ``PATH`` lacks.
_SBIN: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
#: How other distributions call a program.
_ALSO: Final = {"chromium": "chromium-browser"}


@dataclass(frozen=True, slots=True)
class Part:
    """What a test may need. ``name`` is how a person calls it. It comes with Debian's ``package``,
    or by ``command``; a right comes by neither, and ``command`` is then what to do. ``there`` finds
    out; ``None``: only trying shows it."""

    name: str
    package: str = ""
    command: str = ""
    there: Callable[[], bool] | None = None


def which(program: str) -> str | None:
    """The path of a program, also of one that only root's ``PATH`` has."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_SBIN])
    return shutil.which(program, path=path) or shutil.which(_ALSO.get(program, ""), path=path)


def _program(program: str, package: str) -> Part:
    return Part(program, package, there=lambda: which(program) is not None)


@cache
def _sandbox() -> bool:
    from conformance.subject import SubjectSetupError
    from conformance.subjects.kubelet.sandbox import can_be_made

    try:
        can_be_made()
    except SubjectSetupError:
        return False
    return True


def _shared_memory() -> bool:
    return os.access("/dev/shm", os.W_OK)


def _ptys() -> bool:
    try:
        ends = os.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


def _asked(*variables: str) -> bool:
    return any(map(os.environ.get, variables))


_PROGRAMS: Final = {
    "bash": "bash", "busybox": "busybox", "chromium": "chromium", "dash": "dash",
    "etcd": "etcd-server", "fish": "fish", "gawk": "gawk", "git": "git",
    "hwloc-gather-topology": "hwloc-nox", "ksh": "ksh",
    "kubectl": "kubernetes-client", "lscpu": "util-linux",
    "lstopo-no-graphics": "hwloc-nox", "mawk": "mawk", "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap", "npm": "npm", "openssl": "openssl",
    "perl": "perl-base", "ps": "procps",
    "python3": "python3",
    "qemu-img": "qemu-utils", "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux", "socat": "socat", "ssh": "openssh-client",
    "ssh-keygen": "openssh-client", "sshd": "openssh-server", "sudo": "sudo",
    "systemd-analyze": "systemd", "tcsh": "tcsh", "unshare": "util-linux", "zsh": "zsh",
}  # fmt: skip

#: By the name that a test uses.
PARTS: Final[Mapping[str, Part]] = {
    **{program: _program(program, package) for program, package in _PROGRAMS.items()},
    "api server": Part(
        "an API server", package="etcd-server", command="pinproof build apiserver 1.36"
    ),
    "board": Part("QEMU of another architecture", command="apt-cache search qemu-system"),
    "booted node": Part(
        "a booted lab node",
        command="PINPROOF_LAB=1 tox -e hil",
        there=lambda: _asked("PINPROOF_LAB", "PINPROOF_LAB_NODE"),
    ),
    "built site": Part(
        "the built site", command="tox -e docs", there=lambda: _asked("PINPROOF_SITE")
    ),
    "cgroups": Part("a cgroup of its own", command="run the tests as root, on cgroup v2"),
    "cosign": Part("cosign", command="install cosign 3", there=lambda: which("cosign") is not None),
    "driver": Part("a driver of the kubelet's code", command="pinproof build driver 1.36"),
    "go": Part("Go", command="pip install 'pinproof[kubelet]'"),
    "index": Part(
        "an index of Python's packages", command="let the tests reach an index of Python's packages"
    ),
    "controller manager": Part(
        "a controller manager", command="pinproof build controller-manager 1.36"
    ),
    "kubelet": Part("a real kubelet", command="pinproof build kubelet 1.36"),
    "kernel": Part("a kernel to boot", command="let the tests reach Debian's packages"),
    "patched kubelet": Part(
        "a kubelet of our own patches",
        command="pinproof build kubelet 1.36 --patches tests/kubelet/patches/"
        "platform-pods-on-reserved-cpus",
    ),
    "kubelet 1.37": Part("a kubelet 1.37", command="pinproof build kubelet 1.37"),
    "lab": Part(
        "lab nodes to boot",
        command="PINPROOF_LAB=1 tox -e hil",
        there=lambda: _asked("PINPROOF_LAB"),
    ),
    "ordinary user": Part(
        "an ordinary user", command="run the tests as one", there=lambda: os.geteuid() != 0
    ),
    "overlay": Part("an overlay of file systems", command="run the tests as root"),
    "pyodide": Part("Pyodide", command="let the tests reach npm's registry"),
    "packages": Part("packages of Python", command="pip install --group test"),
    "ptys": Part("pseudo-terminals", command="mount devpts on /dev/pts", there=_ptys),
    "scheduler": Part("a scheduler", command="pinproof build scheduler 1.36"),
    "root": Part("root", command="run the tests as root", there=lambda: os.geteuid() == 0),
    "sandbox": Part(
        "a sandbox for a kubelet", command="allow user namespaces, or be root", there=_sandbox
    ),
    "seccomp": Part("seccomp's notifier", command="Linux 5.5 on x86_64 or aarch64"),
    "shm": Part("a writable /dev/shm", command="mount tmpfs on /dev/shm", there=_shared_memory),
    "small file system": Part("a file system to fill", command="run the tests as root"),
    "sonobuoy": Part("Sonobuoy's own code", command="python -m tests.support.sonobuoy"),
    "sudo login": Part("a login with sudo", command="run the tests as root"),
    "sysfs": Part("sysfs", command="mount sysfs on /sys", there=Path("/sys/devices").exists),
}  # fmt: skip
_BY_WORDS: Final = {part.name: part for part in PARTS.values()}


def reason(part: str, detail: str = "") -> str:
    """Why a test skips. ``part`` is a key of :data:`PARTS`; ``detail`` is one line."""
    return ": ".join(filter(None, [f"NOT TESTED without {PARTS[part].name}", detail]))


def skip(part: str, detail: object = "") -> NoReturn:
    """Skip the test that runs, or in a module the module."""
    import pytest

    __tracebackhide__ = True  # the place of a skip is who asked for the part
    pytest.skip(reason(part, str(detail)), allow_module_level=True)


def need(*parts: str) -> None:
    """Without one of these, as far as that can be found out, the test skips."""
    __tracebackhide__ = True
    for part in parts:
        there = PARTS[part].there
        if there is not None and not there():
            skip(part)


def module(name: str) -> Any:
    """A module of a package of Python; without it, the test skips."""
    import pytest

    return pytest.importorskip(name, reason=reason("packages", name))


def program(name: str) -> str:
    """The path of a program of :data:`PARTS`; without it, the test skips."""
    __tracebackhide__ = True
    assert name in PARTS, name  # where the program is there, too
    return which(name) or skip(name)


def block(reasons: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What a run ends with, line by line, of each skipped test's file and reason. Nothing, where
    none was skipped for want of something."""
    tests: dict[str, list[str]] = {}
    for file, why in reasons:
        if (said := _SAID.match(why)) and said["part"] in _BY_WORDS:
            tests.setdefault(said["part"], []).append(file)
    for part, files in sorted(tests.items(), key=lambda one: -len(one[1])):
        names = [*dict.fromkeys(files)]
        rest = len(names) - 3
        more = f" and {rest} file{'s' if rest > 1 else ''} more" if rest > 0 else ""
        count = f"{len(files)} test{'s' if len(files) > 1 else ''}"
        yield f"{count} without {part}: {', '.join(names[:3])}{more}"
    lacking = [_BY_WORDS[part] for part in tests]
    if packages := sorted({part.package for part in lacking if part.package}):
        yield f"to test them: apt-get install {' '.join(packages)}"
    for command in sorted({part.command for part in lacking if part.command}):
        yield f"to test them: {command}"


def write_block(terminal: Any) -> None:
    """The block of a run, on pytest's terminal reporter."""
    skipped = terminal.stats.get("skipped", [])
    lines = [*block((one.nodeid.partition("::")[0], one.longrepr[2]) for one in skipped)]
    if lines:
        terminal.section("NOT TESTED", red=True, bold=True)
        for line in lines:
            terminal.line(line)


def _packages() -> list[str]:
    """Of programs that this machine lacks."""
    lacks = {package for name, package in _PROGRAMS.items() if which(name) is None}
    return sorted(lacks)


if __name__ == "__main__":
    if sys.argv[1:] != ["--packages"]:
        raise SystemExit("lacking: expected --packages")
    print(*_packages())
