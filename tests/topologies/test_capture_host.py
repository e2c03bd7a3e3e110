"""Hosts and folders, read by the script: by every shell and awk that is here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

import topologies
from tests.support import lacking
from topologies.capturing import BadTarget, CaptureError, capture_host
from topologies.capturing.scope import is_file, is_link
from topologies.capturing.script import script
from topologies.capturing.stream import read_stream

CPU = "sys/devices/system/cpu"
SPEC = "2s-2n-6c-smt2-mem1-off3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A machine's tree on disk; blanks and shell signs in its path change nothing."""
    place = tmp_path / "a $(touch pwned) `b` 'c"
    topologies.write(topologies.load(SPEC), place)
    return place


#: What a capture holds of the described tree.
WANTED = {
    path: text for path, text in topologies.load(SPEC).items() if is_file(path) or is_link(path)
}


def ran(folder: Path, *shell: str, path: str = os.environ["PATH"], check: bool = True) -> bytes:
    """What the script prints of a folder, run by this shell."""
    done = subprocess.run(
        [*(shell or ["/bin/sh"]), "-s", str(folder)],
        input=script().encode(),
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=check,
    )
    assert done.stderr == b""
    return done.stdout


def test_this_host_is_a_machine() -> None:
    if not Path("/", CPU, "online").exists():
        lacking.skip("sysfs")
    made = capture_host()
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    assert f"{CPU}/online" in made.tree
    assert made.tree["proc/cpuinfo"].count("processor") >= cpus
    assert made.kernel == os.uname().release
    assert os.uname().nodename not in made.source
    whole = topologies.load("/")
    assert {path for path in whole if is_file(path) and whole[path]} <= set(made.tree)
    for name in ("online", "cpu0/topology/core_id", "cpu0/topology/thread_siblings_list"):
        assert made.tree[f"{CPU}/{name}"] == whole[f"{CPU}/{name}"]


def test_nothing_tells_this_host_from_its_twins() -> None:
    """Neither names nor addresses nor serial numbers, wherever the kernel shows them."""
    secrets = {os.uname().nodename}
    for pattern in (
        "sys/class/net/*/address", "etc/machine-id", "etc/hostname",
        "proc/sys/kernel/random/boot_id", "sys/class/dmi/id/*serial", "sys/class/dmi/id/*uuid",
        f"{CPU}/cpu*/topology/ppin",
    ):  # fmt: skip
        for path in Path("/").glob(pattern):
            with contextlib.suppress(OSError):
                secrets.add(path.read_text("utf-8", "replace").strip())
    telling = {one for one in secrets if len(one) > 5 and set(one) - set("0:-. ")}
    assert telling, "a host without any would prove nothing"
    text = "\n".join(capture_host().tree.values())
    assert [one for one in telling if one in text] == []


def test_a_folder_is_captured_to_the_byte(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    made = capture_host(folder)
    assert sorted(folder.rglob("*")) == before
    assert dict(made.tree) == WANTED
    assert (made.warnings, made.kernel) == ((), "unknown")
    assert made.left_out == ()
    assert not Path("pwned").exists()
    assert str(folder) not in made.source


@pytest.mark.parametrize(
    ("shell", "awk"),
    [("dash", "mawk"), ("bash", "gawk"), ("bash --posix", "mawk"), ("busybox sh", "busybox")],
)
def test_every_shell_and_every_awk_print_the_same(
    shell: str, awk: str, folder: Path, tmp_path: Path
) -> None:
    lacking.program(shell.split()[0])
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "awk").symlink_to(lacking.program(awk))
    printed = ran(folder, *shell.split(), path=f"{programs}:{os.environ['PATH']}")
    assert read_stream(printed).entries == WANTED


def test_a_node_without_awk_is_told_from_one_without_cpus(folder: Path, tmp_path: Path) -> None:
    assert b"E it has no awk" in ran(folder, path=str(tmp_path), check=False)


def test_what_may_not_be_read_is_named(open_folder: Path) -> None:
    as_user = []
    if os.geteuid() == 0:
        drop = lacking.program("setpriv")
        as_user = [drop, "--reuid=65534", "--regid=65534", "--clear-groups"]
    place = open_folder / "root"
    topologies.write(topologies.load("1s-1n-2c-smt1"), place)
    (place / CPU / "possible").chmod(0)
    received = read_stream(ran(place, *as_user, "/bin/sh"))
    assert received.unreadable == [f"{CPU}/possible"]
    assert f"{CPU}/present" in received.entries


def test_files_that_never_end_or_block_are_not_read(folder: Path) -> None:
    online = folder / CPU / "cpu1/topology/core_id"
    online.unlink()
    os.mkfifo(online)
    (folder / CPU / "present").unlink()
    (folder / CPU / "present").symlink_to("/dev/zero")
    made = capture_host(folder, deadline=20)
    assert f"{CPU}/present" not in made.tree
    assert f"{CPU}/cpu1/topology/core_id" not in made.tree
    assert any("cpu1/topology/core_id: missing" in one for one in made.warnings)


def test_a_deadline_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topologies.capturing.local.script", lambda: "exec sleep 600")
    before = time.monotonic()
    with pytest.raises(CaptureError, match=r"it was not read within 0\.3 s"):
        capture_host(folder, deadline=0.3)
    assert time.monotonic() - before < 60


def test_no_machine_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"incomplete capture: .*cpu/online is missing or empty"):
        capture_host(tmp_path)
    with pytest.raises(BadTarget, match="there is no such file or folder"):
        capture_host(tmp_path / "nothing")
