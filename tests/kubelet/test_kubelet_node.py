"""Every step and every part of a view, with a real kubelet."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import topologies
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.inside import OWN_CGROUPS
from conformance.subjects.kubelet.node import BACK_OFF, KubeletNode
from conformance.subjects.kubelet.process import Patience
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History
from hunting.scope import Task
from reference.cpuset import CPUSet
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Delete,
    KillContainer,
    Kind,
    KubeletConfig,
    Reboot,
    RemoveState,
    RestartPolicy,
    RestartRuntime,
    Start,
    Step,
    Stop,
    Tamper,
    WriteState,
)
from reference.view import Phase, View
from tests.kubelet.conftest import (
    CONFIG,
    MACHINE,
    NodeMaker,
    Open,
    Script,
    applied,
    do,
    running,
)
from tests.support import lacking

#: For a machine of 8 cores.
ONE_RESERVED = KubeletConfig(system_reserved="1")


def settled(node: KubeletNode, satisfied: Callable[[View], bool]) -> View:
    view = node.settle(satisfied)
    assert satisfied(view), node.evidence()
    return view


@pytest.fixture
def node(make_node: NodeMaker) -> KubeletNode:
    """On which the kubelet runs."""
    made = make_node()
    made.do(Start())
    return made


@pytest.fixture
def small(open_kubelet: Open) -> NodeMaker:
    """Opens a kubelet, and starts it on a node of 8 cores."""

    def started(path: object, **how: object) -> KubeletNode:
        made = open_kubelet(path, **how).node(topologies.machine("1s-1n-8c-smt1"), ONE_RESERVED)
        made.do(Start())
        return made

    return started


def test_a_forced_deletion_takes_containers_once_the_kubelet_has_seen_the_manifest_go(
    node: KubeletNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy kubelet that saw the containers go first was seen to start one more, after the next
    pod ran (explore, seed 2, history 60)."""
    applied(node, guaranteed("a", 2))
    listed: list[int] = []
    drop = node.runtime.drop_pod

    def noted(uid: str) -> None:
        listed.append(len(node._process.pods()))
        drop(uid)

    monkeypatch.setattr(node.runtime, "drop_pod", noted)
    node.do(Delete("a", force=True))
    assert listed == [0]
    assert node.view().pods == {}


def test_to_start_a_kubelet_that_runs_is_nothing(node: KubeletNode) -> None:
    log = node.sandbox.log
    node.do(Start())
    assert node.sandbox.log is log


def test_a_kubelet_finds_its_folder_shared(make_node: NodeMaker) -> None:
    """Else it mounts the folder on itself while it makes a socket there, and may end of that."""
    mounts = Path("/proc", str(make_node().sandbox.pid), "mountinfo").read_text().splitlines()
    (of_folder,) = (line for line in mounts if line.split()[4] == "/var/lib/kubelet")
    assert " shared:" in of_folder


LARGE: Final = (MACHINE, CONFIG)
TWO: Final = Apply(guaranteed("one", 2))
MIXED: Final = [exclusive(one.value, 2, kind=one) for one in (Kind.INIT, Kind.SIDECAR, Kind.APP)]
NEW: Final = Apply(guaranteed("new", 4))
DOWN: Final = Stop(kill=True)
RESERVING_NOTHING, UNKNOWN, PLAIN = (KubeletConfig(policy=one) for one in ("static", "no", "none"))
WRONG_OPTION: Final = replace(ONE_RESERVED, policy_options={"no-such": "true"})


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        (LARGE, [TWO, Apply(guaranteed("shared", "1500m")), Delete("one"), AwaitReconcile()]),
        (LARGE, [Apply(guaranteed("big", 1000)), Delete("big")]),
        (LARGE, [Apply(guaranteed_of("mixed", MIXED))]),
        (LARGE, [TWO, Stop(), Start(), DOWN, Start()]),
        (LARGE, [TWO, DOWN, Delete("one"), NEW, Start()]),
        (LARGE, [TWO, DOWN, Reboot(), Start()]),
        (
            ("1s-1n-4c-smt1", ONE_RESERVED),
            [Stop(), Reboot("1s-1n-8c-smt1"), Start(), RemoveState(), Start()],
        ),
        (LARGE, [Stop(), Configure(PLAIN), Start()]),
        (LARGE, [Stop(), WriteState("{"), Start()]),
        ((MACHINE, PLAIN), [TWO, AwaitReconcile()]),
        ((MACHINE, RESERVING_NOTHING), []),
        ((MACHINE, UNKNOWN), []),
        ((MACHINE, WRONG_OPTION), []),
    ],
    ids=[
        "pods come and go", "a pod is refused", "init container and sidecar", "stopped and killed",
        "pods come and go while it is down", "reboot", "more CPUs", "another configuration",
        "a damaged file", "policy none", "nothing reserved", "unknown policy", "unknown option",
    ],
)  # fmt: skip
def test_after_each_step_a_kubelet_is_seen_as_the_model_has_it(
    subject: KubeletSubject, place: tuple[str, KubeletConfig], steps: Sequence[Step]
) -> None:
    """Its end and its error, pods and their words, CPUs, state file, and what containers have."""
    machine, config = place
    history = History.of(Task(subject.info.release, machine, config), (Start(), *steps))
    result = walked(Walk("steps", history), subject, subject.info.release)
    assert result.verdict == "pass", result.explanation
    assert len(result.steps) == 2 + len(steps)


def test_an_unknown_feature_gate_ends_with_a_reason(make_node: NodeMaker) -> None:
    """Which the model does not know."""
    node = make_node(replace(ONE_RESERVED, feature_gates={"NoSuchGate": True}))
    node.do(Start())
    assert node.view().exit_status in (1, 2)  # 2: it panics
    assert "NoSuchGate" in node.view().error


def test_tampering_is_seen_and_evidence_shows_log_and_calls(node: KubeletNode) -> None:
    applied(node, guaranteed("one", 2))
    evidence = node.evidence()
    assert "CreateContainer one-pinproof/c cpuset " in evidence
    assert len(evidence.splitlines()) < 100
    node.do(Tamper("one", "c", CPUSet([9])))
    assert node.view().cpusets == {"one": {"c": CPUSet([9])}}
    with pytest.raises(SubjectLostError, match="no running container one/other"):
        node.do(Tamper("one", "other", CPUSet([9])))
    node.do(Stop())
    with pytest.raises(SubjectLostError, match="there is no machine 'nowhere'"):
        node.do(Reboot("nowhere"))


def test_a_kubelet_that_dies_in_the_middle_is_seen_and_with_its_sandbox_is_no_verdict(
    node: KubeletNode,
) -> None:
    """Until then, some steps are refused because it runs."""
    for step in (RemoveState(), WriteState("x"), Configure(CONFIG), Reboot()):
        with pytest.raises(SubjectLostError, match="while the kubelet runs"):
            node.do(step)
    node.sandbox.kill()
    view = settled(node, lambda view: not view.running)
    assert view.exit_status == 128 + 9
    node.sandbox.close()
    with pytest.raises(SubjectLostError, match="the node was lost"):
        node.view()


def test_a_kubelet_runs_in_a_user_namespace(kubelet_path: str, small: NodeMaker) -> None:
    view = applied(small(kubelet_path, user_namespace=True), guaranteed("one", 2))
    assert view.cpusets == {"one": {"c": view.assignments["one"]["c"]}}


def test_a_kubelet_that_hangs_in_an_allocation_is_a_view(
    kubelet_path: str, open_kubelet: Open
) -> None:
    """A bug of real kubelets (its fix is pull request 140730): the CPU manager is locked for ever,
    and the processor busy. What is promised then is the scenario's business; here, nothing may
    hang with it."""
    opened = open_kubelet(kubelet_path, patience=Patience(start=60, effect=2))
    if opened.info.version not in ("v1.36.2", "v1.36.3", "v1.36.4", "v1.37.0"):
        pytest.skip(f"whether {opened.info.version} has this bug is not known")
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([7, 34, 44, 64]),
        policy_options={"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    )
    node = opened.node(topologies.machine("2s-4n-40c-smt2-interleaved"), config)
    do(node, Start(), Apply(guaranteed("stuck", "70")))
    view = node.settle(running("stuck"))
    assert view.running
    assert view.pods["stuck"].phase is Phase.PENDING
    assert view.assignments == {}
    # A busy host is given more than 2 s.
    assert re.match(
        r"no effect in [\d.]+ s: it has begun nothing for pod stuck; it used \d", view.hangs
    )
    assert "AllocateCPUs" in node.evidence()
    node.do(Stop(kill=True))
    assert not node.view().running
    assert node.view().hangs == ""


def test_a_lying_kubelet_can_be_seen_through(
    kubelet_path: str, script: Script, small: NodeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper changes one assignment in the state file: file and runtime disagree."""
    liar = Path(__file__).parents[1] / "support/corrupting_kubelet.py"
    wrapper = script(
        f"import os, sys; os.execv({sys.executable!r}, [{sys.executable!r}, {str(liar)!r}, "
        "*sys.argv[1:]])"
    )
    monkeypatch.setenv("PINPROOF_REAL_KUBELET", kubelet_path)
    node = small(wrapper)
    node.do(Apply(guaranteed("one", "2")))
    view = settled(
        node,
        lambda view: (
            running("one")(view) and view.assignments["one"]["c"] != view.cpusets["one"]["c"]
        ),
    )
    node.do(Stop(kill=True))
    node.do(Start())  # the checksum holds, so the kubelet reads it back
    assert node.view().running
    assert 7 in view.assignments["one"]["c"]


def test_a_kubelet_sees_another_boot_id_after_a_reboot_alone(
    wrapped: Script, small: NodeMaker
) -> None:
    wrapper = wrapped(
        "known, boot = '/var/lib/kubelet/known', open('/proc/sys/kernel/random/boot_id').read()\n"
        "    if os.path.exists(known) and open(known).read() != boot:\n"
        "        sys.exit('another boot')\n"
        "    open(known, 'w').write(boot)"
    )
    node = small(wrapper)
    do(node, Stop(), Start(), Stop())
    assert "another boot" not in node.evidence()
    do(node, Reboot(), Start())
    assert not node.view().running
    assert "another boot" in node.evidence()


def test_a_container_that_ended_while_the_kubelet_was_down_is_the_first_of_its_back_off(
    node: KubeletNode,
) -> None:
    """The next kubelet starts it, and waits ten seconds or more when it ends again (explore,
    1.32.2, seed 883, history 175)."""
    applied(node, guaranteed("a", 2))
    node.do(KillContainer("a", "c"))
    settled(node, lambda view: "a" in view.cpusets)
    do(node, Stop(), KillContainer("a", "c"), Start())
    settled(node, lambda view: "a" in view.cpusets)
    assert node._recovery < BACK_OFF
    do(node, KillContainer("a", "c"))
    assert node._recovery >= BACK_OFF


def test_a_pod_has_ended_once_its_cgroup_is_gone(node: KubeletNode) -> None:
    """Until then its kubelet counts it as active, and a busy one was seen to refuse the next pod
    (1.37.0, explore, seed 402, history 385)."""
    if not node.sandbox.own_cgroups:
        lacking.skip("seccomp")
    applied(node, replace(guaranteed("a", 2), restart_policy=RestartPolicy.NEVER))
    (made,) = node.runtime.sandboxes(ready=True).values()
    cgroup = node.sandbox.path(f"{OWN_CGROUPS}/{made.cgroup}")
    assert cgroup.is_dir()
    node.do(KillContainer("a", "c"))
    settled(node, lambda view: view.pods["a"].phase is Phase.ENDED)
    assert not cgroup.exists()

    def phase_beside_its_cgroup() -> Phase:
        cgroup.mkdir(exist_ok=True)
        return node.view().pods["a"].phase

    # Every two seconds the kubelet removes cgroups of pods that it does not know.
    assert Phase.RUNNING in (phase_beside_its_cgroup() for _ in range(5))
    with suppress(FileNotFoundError):
        cgroup.rmdir()
    assert node.view().pods["a"].phase is Phase.ENDED


def test_the_host_is_left_as_it_was(make_node: NodeMaker) -> None:
    def host() -> dict[str, object]:
        settings = {}
        for path in sorted(Path("/proc/sys").glob("[vk]*/**/*")):
            if path.name.startswith(("random", "ns_last_pid", "pty")) or "random" in path.parts:
                continue
            try:
                settings[str(path)] = path.read_text() if path.is_file() else ""
            except OSError:
                continue
        folders = ["/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/run/kubelet"]
        return {
            "mounts": [
                line
                for line in Path("/proc/self/mountinfo").read_text().splitlines()
                if "/pytest-of-" not in line  # mounts of a test that runs beside this one
            ],
            "settings": settings,
            "folders": {name: Path(name).exists() for name in folders},
            "plugins": Path("/usr/libexec/kubernetes").exists(),
            "cgroups": sorted(
                str(path)
                for path in Path("/sys/fs/cgroup").rglob("*")
                if path.is_dir() and "kubepods" in path.name
            ),
        }

    before = host()
    node = make_node()
    node.do(Start())
    applied(node, guaranteed("one", 2))
    assert host() == before
    node.do(Stop())
    node.close()
    assert host() == before


def test_a_kubelet_that_waits_for_its_restarted_runtime_does_not_hang(
    kubelet_path: str, small: NodeMaker
) -> None:
    """It leaves its pods alone until it has looked for the runtime again."""
    node = small(kubelet_path, patience=Patience(start=60, effect=0.01))
    do(node, RestartRuntime(), Apply(guaranteed("a", 1)))
    view = node.settle(running("a"))
    assert view.hangs == ""
    assert view.pods["a"].phase is Phase.RUNNING
