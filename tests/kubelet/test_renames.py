"""A kubelet is killed at the rename of its state file that was asked for, and at no other call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.inside import STATE_FILE, calls
from conformance.subjects.kubelet.process import Patience
from conformance.subjects.kubelet.sandbox import Sandbox
from reference import CPUSet
from reference.steps import Apply, Container, KillAtRename, KubeletConfig, Pod, Start
from tests.conformance.judging import judged
from tests.kubelet.conftest import CACHED, Open, Script, do
from tests.support import lacking

#: Writes version 1 to 3 of a state file, as a kubelet does, and other files between them.
WRITER = (
    "import os\n"
    "for number in range(1, 4):\n"
    "    for name in ('other', 'cpu_manager_state'):\n"
    "        open(f'/var/lib/kubelet/.{name}', 'w').write(str(number))\n"
    "        os.rename(f'/var/lib/kubelet/.{name}', f'/var/lib/kubelet/{name}')\n"
    "    print('wrote', number, flush=True)\n"
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    lacking.need("sandbox")
    if not calls.can_be_heard():
        lacking.skip("seccomp")
    made = Sandbox(Bell())
    made.await_birth()
    yield made
    made.close()


def _run(sandbox: Sandbox, program: Path) -> list[str]:
    sandbox.start([str(program)], os.environ)
    assert sandbox.bell.until(lambda: not sandbox.running, 30)
    assert sandbox.log is not None
    return sandbox.log.excerpt(tail=10).splitlines()


@pytest.mark.parametrize(
    ("number", "after", "said", "kept"),
    [
        (1, False, 0, []),
        (1, True, 0, ["1"]),
        (2, False, 1, ["1"]),
        (2, True, 1, ["1", "2"]),
        (3, True, 2, ["1", "2", "3"]),
    ],
)
def test_it_is_killed_there(
    sandbox: Sandbox, script: Script, number: int, after: bool, said: int, kept: list[str]
) -> None:
    """Before the rename the file is the version before, after it the version itself."""
    sandbox.kill_at_rename(number, after=after)
    assert len(_run(sandbox, script(WRITER))) == said
    assert sandbox.exit_status == -9
    assert sandbox.killed_at_rename
    assert sandbox.versions() == kept
    state = sandbox.path(STATE_FILE)
    assert (state.read_text() if state.exists() else None) == (kept[-1] if kept else None)


def test_renames_fail_until_another_program_starts(sandbox: Sandbox, script: Script) -> None:
    """Those of the state file alone. It goes on with the next one that does not fail."""
    waits = (
        "import os, time\n"
        "while not os.path.exists('/var/lib/kubelet/go'):\n"
        "    time.sleep(0.01)\n"
        "plainly = os.rename\n"
        "def rename(old, new):\n"
        "    try:\n"
        "        plainly(old, new)\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
        "os.rename = rename\n"
    )
    program = script(waits + WRITER)
    sandbox.start([str(program)], os.environ)
    sandbox.fail_renames(2)
    go = sandbox.path("/var/lib/kubelet/go")
    go.touch()
    assert sandbox.bell.until(lambda: not sandbox.running, 30)
    assert sandbox.log is not None
    full = [line for line in sandbox.log.excerpt(tail=10).splitlines() if "space" in line]
    assert full == ["No space left on device"] * 2
    assert sandbox.versions() == ["3"]
    assert sandbox.path("/var/lib/kubelet/other").read_text() == "3"
    sandbox.fail_renames(9)
    _run(sandbox, program)
    assert sandbox.versions(1) == ["1", "2", "3"]


def test_nobody_waits_for_a_rename_that_never_comes(sandbox: Sandbox, script: Script) -> None:
    """The program ends by itself, and the next one is not killed."""
    sandbox.kill_at_rename(4, after=False)
    for before in (0, 3):
        assert len(_run(sandbox, script(WRITER))) == 3
        assert sandbox.exit_status == 0
        assert not sandbox.killed_at_rename
        assert sandbox.versions(before) == ["1", "2", "3"]


@pytest.mark.parametrize("path", CACHED[:1])
def test_a_kubelet_that_does_not_write_so_often_runs_on(path: str, open_kubelet: Open) -> None:
    """The step returns, and the view says that it runs."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    node = open_kubelet(path).node(topologies.machine("1s-1n-4c-smt2"), config)
    do(node, Start(), KillAtRename(9), Apply(Pod("a", (Container("c"),))))
    seen = node.settle(lambda view: bool(view.cpusets))
    assert (seen.running, seen.versions) == (True, ())


@pytest.mark.parametrize("path", CACHED[:1])
def test_a_scenario_fails_where_nothing_is_written(
    path: str, open_kubelet: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict says that the kubelet runs where it should have been killed."""
    subject = open_kubelet(path, patience=Patience(effect=4.0))
    monkeypatch.setattr(Sandbox, "kill_at_rename", lambda *_, **__: None)
    scenario, release = "crash/before-a-pod-takes-cpus", subject.info.release
    result = judged(scenario, "1s-1n-4c-smt2", subject, release=release)
    assert result.verdict == "fail", result.explanation
    assert result.failure is not None
    first = result.failure.differences[0]
    assert (first.what, first.expected, first.seen) == ("kubelet", "down", "runs")


def test_the_renames_of_all_files_may_count(sandbox: Sandbox, script: Script) -> None:
    """The other file's are the first and the third."""
    sandbox.kill_at_rename(3, after=True, any_file=True)
    assert len(_run(sandbox, script(WRITER))) == 1
    assert sandbox.killed_at_rename == "/var/lib/kubelet/other"
    assert sandbox.path("/var/lib/kubelet/other").read_text() == "2"
    assert sandbox.versions() == ["1"]
