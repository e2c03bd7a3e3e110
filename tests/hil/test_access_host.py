"""A shell on the host of a container: here the container is a mount namespace of its own, and the
process of the tests is the host's first."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hil.shell import NodeUsageError
from hil.transport.host import HostShell
from tests.support import lacking
from tests.support.until import content, until

#: The container asks the host.
_ASKS: Final = """
import sys
from contextlib import closing
from hil.transport.host import HostShell
with closing(HostShell("node7", int(sys.argv[1]))) as shell:
    sys.stdout.write(shell.run(sys.argv[2], stdin=b"sent\\n").text)
"""
#: The container sees folder $1 empty.
_HIDES: Final = 'mount -t tmpfs none "$1" && shift && exec "$@"'


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    """A folder of the host that the container sees empty."""
    lacking.need("root", "unshare")
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "file").write_text("of the host\n")
    return folder


def container(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    enter = ["unshare", "--mount", "sh", "-c", _HIDES, "sh", str(folder)]
    return subprocess.run([*enter, *words], capture_output=True, text=True, timeout=60)


def asked(folder: Path, script: str, *before: str) -> subprocess.CompletedProcess[str]:
    """What the host answers to a script of the container."""
    return container(folder, *before, sys.executable, "-c", _ASKS, str(os.getpid()), script)


def test_a_script_reads_and_writes_the_files_of_the_host(hidden: Path) -> None:
    assert container(hidden, "ls", str(hidden)).stdout == ""
    done = asked(hidden, f"cat {hidden}/file; cat >{hidden}/new")
    assert (done.returncode, done.stdout) == (0, "of the host\n"), done.stderr
    assert (hidden / "new").read_text() == "sent\n"


def test_what_a_script_leaves_running_is_ended(hidden: Path) -> None:
    done = asked(hidden, f"sleep 61 & echo $! >{hidden}/left")
    assert done.returncode == 0, done.stderr
    left = Path(f"/proc/{int((hidden / 'left').read_text())}/cmdline")
    assert until(lambda: not content(left), 5)  # it has ended; a zombie has no words


@contextlib.contextmanager
def own_cgroup() -> Iterator[Path]:
    """A new cgroup of version 2."""
    lacking.need("root")
    mounts = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
    mount = next((one for one in mounts if (one / "cgroup.procs").exists()), None)
    if mount is None:
        lacking.skip("cgroups")
    folder = mount / f"pinproof-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        lacking.skip("cgroups", error)
    try:
        yield folder
    finally:
        folder.rmdir()


def test_a_script_leaves_the_cgroup_of_the_container(hidden: Path) -> None:
    """Processes in a pod's cgroup end with the pod, and so would the dead-man timer."""
    with own_cgroup() as folder:
        into = ["sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh"]
        assert folder.name in container(hidden, *into, "cat", "/proc/self/cgroup").stdout
        done = asked(hidden, "cat /proc/$$/cgroup", *into)
    assert done.stdout == Path("/proc/self/cgroup").read_text(), done.stderr


def test_a_container_that_is_not_privileged_is_told_what_it_lacks(hidden: Path) -> None:
    lacking.need("setpriv")
    done = asked(hidden, "true", "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    last = done.stderr.splitlines()[-1]
    assert "NodeUnfit: node7: the host is not entered, which takes a privileged container" in last
    assert "nsenter" in last.rpartition("hostPID: ")[2]


def test_outside_of_a_container_it_is_refused() -> None:
    with pytest.raises(NodeUsageError, match="outside of a container use local:") as caught:
        HostShell("node7", os.getpid())
    assert "\n" not in str(caught.value)
