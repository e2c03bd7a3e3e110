"""Every step and every part of a view, with a real kubelet."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import topologies
from conformance.kubelets import releases
from conformance.kubelets.releases import Minor
from conformance.pods import guaranteed
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.node import STATE_FILE, KubeletNode
from conformance.subjects.kubelet.process import Patience
from reference.cpuset import CPUSet
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    RestartRuntime,
    Start,
    Step,
    Stop,
    Tamper,
    WriteState,
)
from reference.view import Phase, View

Make = Callable[..., KubeletNode]
RESERVED = KubeletConfig(reserved_system_cpus=CPUSet([0, 16]))
ALL = CPUSet.parse("0-31")


def running(*names: str) -> Callable[[View], bool]:
    return lambda view: all(
        name in view.pods and view.pods[name].phase is Phase.RUNNING and view.pods[name].qos
        for name in names
    )


def settled(node: KubeletNode, satisfied: Callable[[View], bool]) -> View:
    view = node.settle(satisfied)
    assert satisfied(view), node.evidence()
    return view


def test_a_fresh_node_is_down_and_empty(make_node: Make) -> None:
    assert make_node().view() == View(running=False)


def test_a_kubelet_starts_on_the_machine_it_is_given(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    view = node.view()
    assert (view.running, view.error, view.exit_status) == (True, "", None)
    assert view.shared_pool == ALL
    assert view.state_file is not None
    assert view.state_file.startswith('{"policyName":"static","defaultCpuSet":"0-31"')
    assert (view.pods, view.assignments, view.cpusets) == ({}, {}, {})


def test_a_kubelet_finds_its_folder_shared(make_node: Make) -> None:
    """Else it mounts the folder on itself while it makes a socket there, and may end of that."""
    mounts = Path("/proc", str(make_node().sandbox.pid), "mountinfo").read_text().splitlines()
    (of_folder,) = (line for line in mounts if line.split()[4] == "/var/lib/kubelet")
    assert " shared:" in of_folder


def test_starting_a_running_kubelet_is_nothing(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    before = node.sandbox.log
    node.do(Start())
    assert node.sandbox.log is before


def test_pods_get_their_cpus_and_give_them_back(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    node.do(Apply(guaranteed("shared", "1500m")))
    view = settled(node, running("one", "shared"))
    one = view.assignments["one"]["c"]
    assert len(one) == 2
    assert view.shared_pool == ALL - one
    assert view.cpusets["one"] == {"c": one}
    assert view.cpusets["shared"] == {"c": ALL - one}
    assert view.pods["one"].qos == "Guaranteed"
    assert one & CPUSet([0, 16]) == CPUSet()
    node.do(Delete("one"))
    view = settled(node, lambda view: "one" not in view.pods and not view.assignments)
    assert "one" not in view.cpusets
    node.do(AwaitReconcile())
    assert node.view().cpusets["shared"] == {"c": ALL}


def test_a_rejection_keeps_its_words(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("big", "1000")))
    view = settled(node, lambda view: view.pods["big"].phase is Phase.REJECTED)
    assert view.pods["big"].reason == "UnexpectedAdmissionError"
    assert "not enough cpus available to satisfy request" in view.pods["big"].message
    assert view.cpusets == {}
    node.do(Delete("big"))
    settled(node, lambda view: "big" not in view.pods)


def test_init_containers_pass_and_sidecars_stay(make_node: Make, subject: KubeletSubject) -> None:
    minor = releases.parse(subject.info.release)
    if minor is None or minor < Minor(1, 29):
        pytest.skip(f"{subject.info.release} has no sidecars (from 1.29 on)")

    def container(name: str, kind: Kind) -> Container:
        return Container(name, "2", "2", "64Mi", "64Mi", kind)

    pod = Pod(
        "mixed",
        (
            container("setup", Kind.INIT),
            container("proxy", Kind.SIDECAR),
            container("app", Kind.APP),
        ),
    )
    node = make_node()
    node.do(Start())
    node.do(Apply(pod))
    view = settled(node, running("mixed"))
    assert view.cpusets["mixed"].keys() == {"proxy", "app"}
    proxy, app = view.cpusets["mixed"]["proxy"], view.cpusets["mixed"]["app"]
    assert proxy is not None
    assert app is not None
    assert proxy.isdisjoint(app)


@pytest.mark.parametrize("kill", [True, False])
def test_a_stopped_kubelet_leaves_its_containers_and_its_file(make_node: Make, kill: bool) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("one", "4")))
    before = settled(node, running("one"))
    node.do(Stop(kill=kill))
    view = node.view()
    assert (view.running, view.error, view.exit_status, view.pods) == (False, "", None, {})
    assert view.cpusets == before.cpusets
    assert (view.assignments, view.state_file) == (before.assignments, before.state_file)
    node.do(Start())
    view = settled(node, running("one"))
    assert (view.cpusets, view.assignments) == (before.cpusets, before.assignments)


def test_pods_come_and_go_while_the_kubelet_is_down(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("old", "2")))
    settled(node, running("old"))
    node.do(Stop(kill=True))
    node.do(Delete("old"))
    node.do(Apply(guaranteed("new", "4")))
    assert "old" in node.view().cpusets
    node.do(Start())
    view = settled(
        node, lambda view: running("new")(view) and view.assignments.keys() == {"new"}
    )  # fmt: skip
    assert len(view.assignments["new"]["c"]) == 4
    settled(node, lambda view: "old" not in view.cpusets)


def test_a_reboot_drops_containers_and_keeps_the_file(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    before = settled(node, running("one"))
    node.do(Stop(kill=True))
    node.do(Reboot())
    view = node.view()
    assert view.cpusets == {}
    assert view.state_file == before.state_file
    node.do(Start())
    assert settled(node, running("one")).assignments == before.assignments


def test_a_machine_with_more_cpus_is_refused_to_the_letter(make_node: Make) -> None:
    node = make_node(machine="1s-1n-4c-smt1")
    node.do(Configure(KubeletConfig(system_reserved="1")))
    node.do(Start())
    node.do(Stop())
    node.do(Reboot("1s-1n-8c-smt1"))
    node.do(Start())
    view = node.view()
    assert not view.running
    assert view.exit_status == 1
    assert view.error == (
        'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-3"'
    )
    assert "start cpu manager error" in node.evidence()
    node.do(RemoveState())
    node.do(Start())
    assert node.view().shared_pool == CPUSet.parse("0-7")


def test_a_configuration_can_be_changed_while_down(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Stop())
    node.do(Configure(KubeletConfig(policy="none")))
    node.do(Start())
    view = node.view()
    assert not view.running
    assert "policy" in view.error


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (KubeletConfig(), "reserv"),
        (KubeletConfig(policy="dynamic"), "dynamic"),
        (
            KubeletConfig(system_reserved="1", policy_options={"no-such": "true"}),
            "no-such",
        ),
        (KubeletConfig(system_reserved="1", feature_gates={"NoSuchGate": True}), "NoSuchGate"),
    ],
    ids=["nothing reserved", "unknown policy", "unknown option", "unknown gate"],
)
def test_an_impossible_configuration_ends_with_a_reason(
    make_node: Make, config: KubeletConfig, says: str
) -> None:
    node = make_node(config)
    node.do(Start())
    view = node.view()
    assert not view.running
    assert view.exit_status in (1, 2)  # 2: it panics
    assert says in view.error


def test_a_damaged_file_is_refused_and_names_itself(make_node: Make) -> None:
    node = make_node()
    node.do(WriteState("{"))
    assert node.view().state_file == "{"
    node.do(Start())
    view = node.view()
    assert view.exit_status == 1
    assert STATE_FILE in view.error


def test_policy_none_has_a_file_and_no_sets(make_node: Make) -> None:
    node = make_node(KubeletConfig(policy="none"))
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    view = settled(node, running("one"))
    assert view.cpusets == {"one": {"c": None}}
    assert view.shared_pool == CPUSet()
    node.do(AwaitReconcile())


def test_tampering_is_seen(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    settled(node, running("one"))
    node.do(Tamper("one", "c", CPUSet([9])))
    assert node.view().cpusets == {"one": {"c": CPUSet([9])}}
    with pytest.raises(SubjectLostError, match="no running container one/other"):
        node.do(Tamper("one", "other", CPUSet([9])))


@pytest.mark.parametrize("step", [RemoveState(), WriteState("x"), Configure(RESERVED), Reboot()])
def test_some_steps_need_the_kubelet_down(make_node: Make, step: Step) -> None:
    node = make_node()
    node.do(Start())
    with pytest.raises(SubjectLostError, match="while the kubelet runs"):
        node.do(step)


def test_an_unknown_machine_is_no_reboot(make_node: Make) -> None:
    with pytest.raises(SubjectLostError, match="there is no machine 'nowhere'"):
        make_node().do(Reboot("nowhere"))


def test_a_kubelet_that_dies_in_the_middle_is_seen(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.sandbox.kill()
    view = settled(node, lambda view: not view.running)
    assert view.exit_status == 128 + 9


def test_a_sandbox_that_dies_is_no_verdict(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.sandbox.close()
    with pytest.raises(SubjectLostError, match="the node was lost"):
        node.view()


def test_evidence_shows_log_and_calls(make_node: Make) -> None:
    node = make_node()
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    settled(node, running("one"))
    evidence = node.evidence()
    assert "CreateContainer one-pinproof/c cpuset " in evidence
    assert len(evidence.splitlines()) < 100


def test_nodes_run_side_by_side(make_node: Make) -> None:
    nodes = [make_node(), make_node(machine="1s-1n-8c-smt2")]
    for node in nodes:
        node.do(Configure(KubeletConfig(system_reserved="1")))
        node.do(Start())
    assert [len(node.view().shared_pool) for node in nodes] == [32, 16]


def test_a_kubelet_runs_in_a_user_namespace(kubelet_path: str) -> None:
    opened = KubeletSubject.open(kubelet_path, user_namespace=True)
    node = opened.node(topologies.machine("1s-1n-8c-smt1"), KubeletConfig(system_reserved="1"))
    node.do(Start())
    node.do(Apply(guaranteed("one", "2")))
    view = settled(node, running("one"))
    opened.close()
    assert view.cpusets == {"one": {"c": view.assignments["one"]["c"]}}


def test_a_kubelet_that_hangs_in_an_allocation_is_a_view(kubelet_path: str) -> None:
    """A bug of real kubelets (its fix is pull request 140730): the CPU manager is locked for ever,
    and the processor busy. What is promised then is the scenario's business; here, nothing may
    hang with it."""
    opened = KubeletSubject.open(kubelet_path, patience=Patience(start=60, effect=2))
    if opened.info.version not in ("v1.36.2", "v1.36.3", "v1.36.4", "v1.37.0"):
        pytest.skip(f"whether {opened.info.version} has this bug is not known")
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([7, 34, 44, 64]),
        policy_options={"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    )
    node = opened.node(topologies.machine("2s-4n-40c-smt2-interleaved"), config)
    node.do(Start())
    node.do(Apply(guaranteed("stuck", "70")))
    view = node.settle(running("stuck"))
    assert view.running
    assert view.pods["stuck"].phase is Phase.PENDING
    assert view.assignments == {}
    # A busy host is given more than 2 s.
    assert re.match(
        r"no effect in \d+ s: it has begun nothing for pod stuck; it used \d", view.hangs
    )
    assert "AllocateCPUs" in node.evidence()
    node.do(Stop(kill=True))
    assert not node.view().running
    assert node.view().hangs == ""
    opened.close()


def test_a_lying_kubelet_can_be_seen_through(
    kubelet_path: str, script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper changes one assignment in the state file: file and runtime disagree."""
    liar = Path(__file__).parents[1] / "support/corrupting_kubelet.py"
    wrapper = script(
        f"import os, sys; os.execv({sys.executable!r}, [{sys.executable!r}, {str(liar)!r}, "
        "*sys.argv[1:]])"
    )
    monkeypatch.setenv("PINPROOF_REAL_KUBELET", kubelet_path)
    opened = KubeletSubject.open(str(wrapper))
    node = opened.node(topologies.machine("1s-1n-8c-smt1"), KubeletConfig(system_reserved="1"))
    node.do(Start())
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
    opened.close()
    assert 7 in view.assignments["one"]["c"]


def test_a_kubelet_sees_another_boot_id_after_a_reboot_alone(
    kubelet_path: str, script: Callable[[str], Path]
) -> None:
    wrapper = script(
        "import os, sys\n"
        "known = '/var/lib/kubelet/known_boot'\n"
        "boot = open('/proc/sys/kernel/random/boot_id').read()\n"
        "if '--version' not in sys.argv and os.path.isdir('/pinproof'):\n"
        "    if os.path.exists(known) and open(known).read() != boot:\n"
        "        sys.exit('another boot')\n"
        "    open(known, 'w').write(boot)\n"
        f"os.execv({kubelet_path!r}, [{kubelet_path!r}, *sys.argv[1:]])"
    )
    opened = KubeletSubject.open(str(wrapper))
    node = opened.node(topologies.machine("1s-1n-8c-smt1"), KubeletConfig(system_reserved="1"))
    for step in (Start(), Stop(), Start(), Stop()):
        node.do(step)
    assert "another boot" not in node.evidence()
    node.do(Reboot())
    node.do(Start())
    view = node.view()
    evidence = node.evidence()
    opened.close()
    assert not view.running
    assert "another boot" in evidence


def test_the_host_is_left_as_it_was(make_node: Make) -> None:
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
            "mounts": Path("/proc/self/mountinfo").read_text(),
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
    node.do(Apply(guaranteed("one", "2")))
    settled(node, running("one"))
    assert host() == before
    node.do(Stop())
    node.close()
    assert host() == before


def test_a_kubelet_that_waits_for_its_restarted_runtime_does_not_hang(kubelet_path: str) -> None:
    """It leaves its pods alone until it has looked for the runtime again."""
    opened = KubeletSubject.open(kubelet_path, patience=Patience(start=60, effect=0.01))
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    node = opened.node(topologies.machine("1s-1n-4c-smt2"), config)
    node.do(Start())
    node.do(RestartRuntime())
    node.do(Apply(guaranteed("a", 1)))
    view = node.settle(running("a"))
    opened.close()
    assert view.hangs == ""
    assert view.pods["a"].phase is Phase.RUNNING
