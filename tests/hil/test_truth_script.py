"""The script of a look, run by this host's own shell: on real processes, in real cgroups.

The runtime's folder, the state file and the kubelet's list of pods are made up; what the kernel
says is not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from hil.observation import Observation, Places, Process, look, marker, read_observation
from tests.hil.test_api_server import saying, serving
from tests.support import lacking

UID: Final = "a160faa7-14ad-54c3-ae98-386533a8703a"
PODS: Final = {
    "kind": "PodList",
    "items": [{"metadata": {"uid": UID}, "status": {"phase": "Failed"}}],
}
#: Spins as long as nobody takes it away.
SPINNER: Final = """
import signal, time
def spin(*_):
    while True: pass
signal.signal(signal.SIGUSR1, spin)
print("ready", flush=True)
time.sleep(600)
"""
SHELL: Final = shutil.which("dash") or "/bin/sh"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """The first process of a container."""
    with subprocess.Popen(
        [sys.executable, "-c", SPINNER], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
        running.kill()


@pytest.fixture
def url() -> Iterator[str]:
    """Where a kubelet lists its pods."""
    body = json.dumps(PODS, separators=(",", ":")).encode()
    with serving(saying(200, body)) as place:
        yield f"{place}/pods"


@pytest.fixture
def places(tmp_path: Path, process: subprocess.Popen[str], url: str) -> Places:
    """A node with one container of ours, and one of somebody else."""
    for name, owner, pid in (
        ("ours", "pinproof-a-lab", process.pid),
        ("web", "web-lab", os.getpid()),
    ):
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        annotations = {
            "io.kubernetes.cri.container-name": "c",
            "io.kubernetes.cri.sandbox-name": owner,
            "io.kubernetes.cri.sandbox-uid": UID if name == "ours" else "another",
        }
        text = json.dumps({"annotations": annotations}, separators=(",", ":"))
        (folder / "config.json").write_text(text)
        (folder / "init.pid").write_text(str(pid))
    unified = not Path("/sys/fs/cgroup/cpuset").is_dir()
    return Places(
        unit="no-such-kubelet.service",
        state_file=str(tmp_path / "state"),
        root_dir=str(tmp_path),
        manifests=str(tmp_path),
        cgroup=2 if unified else 1,
        mount="/sys/fs/cgroup" if unified else "/sys/fs/cgroup/cpuset",
        cpu_mount="/sys/fs/cgroup" if unified else "/sys/fs/cgroup/cpu",
        runtime_dirs=(f"{tmp_path}/tasks/*", f"{tmp_path}/none/*/userdata"),
        pods_url=url,
    )


def run(places: Places, *, path: str = "", **options: object) -> Observation:
    mark = marker()
    script = look(places, mark, **options)  # type: ignore[arg-type]
    done = subprocess.run(
        [SHELL, "-s"],
        input=script.encode(),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
        env={**os.environ, **({"PATH": path} if path else {})},
    )
    return read_observation(done.stdout.decode(errors="surrogateescape"), mark)


def test_a_look_at_what_runs_here(places: Places, process: subprocess.Popen[str]) -> None:
    seen = run(places)
    (ours,) = seen.containers
    assert (ours.id, ours.pid, ours.uid, ours.name) == ("ours", process.pid, UID, "c")
    assert set(ours.allowed) == os.sched_getaffinity(process.pid)
    assert process.pid in ours.tasks
    assert ours.levels[-1].path == "/"
    assert seen.pods is not None
    assert json.loads(seen.pods) == PODS
    assert seen.state_file is None
    assert not seen.service.running


def test_pods_are_listed_without_curl(places: Places, tmp_path: Path) -> None:
    """A node has bash, and little else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "cat", "grep", "sed", "sha256sum", "sleep", "tr"):
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    seen = run(places, path=str(folder))
    assert seen.pods is not None
    assert json.loads(seen.pods) == PODS


def test_a_narrowed_process_shows(places: Places, process: subprocess.Popen[str]) -> None:
    lowest = min(os.sched_getaffinity(process.pid))
    os.sched_setaffinity(process.pid, {lowest})
    (ours,) = run(places, spin=True).containers
    assert set(ours.tasks[process.pid]) == {lowest}
    assert set(ours.ran_on) == {lowest}


#: A service manager that counts how often it is asked, and tells of one process.
_SYSTEMCTL: Final = """#!/bin/sh
echo "$*" >>{calls}
printf 'ActiveState=active\\nMainPID={pid}\\nNRestarts=%s\\n' "$(wc -l <{calls})"
"""


@pytest.fixture
def in_unit(places: Places, process: subprocess.Popen[str]) -> Iterator[None]:
    """The process is in the cgroup of the unit."""
    for folder in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        own = Path(folder) / f"pinproof-{os.getpid()}" / places.unit
        try:
            own.mkdir(parents=True)
            (own / "cgroup.procs").write_text(str(process.pid))
            break
        except OSError:
            continue
    else:
        lacking.skip("cgroups", "a process in its unit's cgroup")
    yield
    process.kill()
    process.wait()
    own.rmdir()
    own.parent.rmdir()


def _manager(folder: Path, pid: int) -> tuple[str, Path]:
    """What PATH has to begin with, and what it was asked."""
    calls, program = folder / "calls", folder / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(_SYSTEMCTL.format(calls=calls, pid=pid))
    program.chmod(0o755)
    calls.touch()
    return f"{program.parent}:{os.environ['PATH']}", calls


def test_a_service_manager_is_asked_once_a_process(
    places: Places, process: subprocess.Popen[str], in_unit: None, tmp_path: Path
) -> None:
    """And what it told stands, to the byte, until that process is no more."""
    path, calls = _manager(tmp_path, process.pid)
    first = run(places, path=path)
    assert first.process is not None
    assert (first.process.pid, first.service.restarts) == (process.pid, 1)
    again = run(places, path=path, known=first.process)
    assert (again.service, again.process) == (first.service, first.process)
    assert len(calls.read_text().splitlines()) == 1
    earlier = replace(first.process, born="1")  # another one had its number before
    assert run(places, path=path, known=earlier).service.restarts == 2
    process.kill()
    process.wait()
    after = run(places, path=path, known=first.process)
    assert (after.service.restarts, after.process) == (3, None)


def test_a_process_of_another_unit_vouches_for_nothing(
    places: Places, process: subprocess.Popen[str], tmp_path: Path
) -> None:
    path, calls = _manager(tmp_path, process.pid)
    first = run(places, path=path)
    assert (first.process, first.service.pid) == (None, process.pid)
    born = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()[19]
    run(places, path=path, known=Process(process.pid, born, "MainPID=1"))
    assert len(calls.read_text().splitlines()) == 2


def test_a_wait_looks_again_as_soon_as_a_task_comes(places: Places, tmp_path: Path) -> None:
    """At every third pause otherwise, as looking runs programs."""
    checks, task = tmp_path / "checks", tmp_path / "tasks" / "second"
    shutil.copytree(tmp_path / "tasks" / "ours", task)
    (task / "init.pid").rename(task / "later")
    before = f"""
n=0
sleep() {{ n=$((n + 1)); [ $n != 5 ] || mv {task}/later {task}/init.pid; }}
pin_checked() {{ echo $n >>{checks}; pin_running {UID} 2; }}"""
    assert run(places, before=before, goal="pin_until 30 pin_checked").reached
    assert checks.read_text().split() == ["0", "3", "5"]


def test_a_wait_looks_again_as_soon_as_a_start_shows(places: Places, tmp_path: Path) -> None:
    checks, socket = tmp_path / "checks", tmp_path / "kubelet.sock"
    before = f"""
n=0; pin_awaited={socket}
sleep() {{ n=$((n + 1)); [ $n != 4 ] || touch {socket}; }}
pin_checked() {{ echo $n >>{checks}; [ -e {socket} ]; }}"""
    assert run(places, before=before, goal="pin_until 30 pin_checked").reached
    assert checks.read_text().split() == ["0", "3", "4"]


def test_the_print_tells_a_change(places: Places) -> None:
    """And nothing else; tasks of this host's own cgroup come and go, so without containers."""
    alone = replace(places, runtime_dirs=("/nowhere/*",))
    first = run(alone)
    assert run(alone).print == first.print
    assert not run(alone, goal=f"pin_until 1 pin_changed '{first.print}'").reached
    Path(places.state_file).write_text("{}")
    assert run(alone, goal=f"pin_until 1 pin_changed '{first.print}'").reached
    assert run(alone).print != first.print


def test_the_state_file_comes_as_it_is(places: Places) -> None:
    for text in (b"", b"{}", b'{"a":"b"}\n', b"\n\n", b"\xff\xfe", b"$(reboot) `x` '"):
        Path(places.state_file).write_bytes(text)
        seen = run(places).state_file
        assert seen is not None, text
        assert seen.encode(errors="surrogateescape") == text


def test_goals(places: Places) -> None:
    """They are waited for, within bounds, and told when they do not come."""
    assert run(places, goal=f"pin_until 5 pin_started {UID} 9").reached  # it was refused
    assert run(places, goal=f"pin_until 5 pin_running {UID} 1").reached
    assert not run(places, goal=f"pin_until 1 pin_running {UID} 2").reached
    assert not run(places, goal=f"pin_until 1 pin_gone {UID}").reached


def test_what_ran_before(places: Places) -> None:
    seen = run(places, before="cat\necho said >&2\nreturn 3")
    assert seen.notes["before"] == "said"
    assert seen.notes["status"] == "3"


def test_the_functions_are_plain_shell(places: Places) -> None:
    script = look(places, marker())
    assert not re.search(r"\[\[|\blocal\b|<<<|\bfunction\b", script)
    subprocess.run([SHELL, "-n", "-s"], input=script.encode(), check=True)
