"""In-place resize under the static policy, from the kubelets' sources: docs/facts 5.11 and 12.6."""

from __future__ import annotations

from dataclasses import replace

import pytest

import topologies
from reference import Checkpoint, CPUManager, CPUSet, discover, make_policy
from reference.errors import TopologyAffinityError
from reference.kubelet.container_manager import ContainerManager
from reference.kubelet.in_place_resize import resize_refusal
from reference.releases import AnyRelease
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topologymanager.topology_manager import TopologyManager

OLD = "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
NEW = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
GATE = {"InPlacePodVerticalScalingExclusiveCPUs": True}


def pod(cpu: str, *, memory: str = "64Mi", kind: Kind = Kind.APP) -> Pod:
    app = Container("c", cpu, cpu, memory, memory)
    if kind is Kind.APP:
        return Pod("a", (app,))
    other = Container("i", cpu, cpu, memory, memory, kind)
    return Pod("a", (other, replace(app, cpu_request="2", cpu_limit="2")))


@pytest.mark.parametrize(
    ("release", "cpu", "memory"),
    [
        ("1.31", "", ""), ("1.32", OLD, OLD), ("1.33", OLD, OLD), ("1.34", NEW, ""),
        ("1.36", NEW, ""), ("1.37", NEW, ""),
    ],
)  # fmt: skip
def test_who_is_refused(release: str, cpu: str, memory: str) -> None:
    """Any resize of a Guaranteed pod in 1.32 and 1.33, one of its cpu from 1.34 on."""
    before = pod("2")
    assert resize_refusal(before, pod("3"), release=release) == cpu
    assert resize_refusal(before, pod("2", memory="128Mi"), release=release) == memory
    assert resize_refusal(before, pod("3"), release=release, policy="none") == ""
    burstable = Pod("a", (Container("c", "3"),))
    assert resize_refusal(before, burstable, release=release) == ""


def test_the_gate_lifts_the_refusal() -> None:
    """Feature gate InPlacePodVerticalScalingExclusiveCPUs, alpha from 1.32 on."""
    for release in ("1.32", "1.36", "1.37"):
        assert resize_refusal(pod("2"), pod("3"), feature_gates=GATE, release=release) == ""
        off = dict.fromkeys(GATE, False)
        assert resize_refusal(pod("2"), pod("3"), feature_gates=off, release=release)


def test_an_init_container_that_ended_has_no_size_to_change() -> None:
    """A sidecar has one (``IsResizableContainer``)."""
    old, new = pod("1", kind=Kind.INIT), pod("2", kind=Kind.INIT)
    assert resize_refusal(old, new) == ""
    assert resize_refusal(pod("1", kind=Kind.SIDECAR), pod("2", kind=Kind.SIDECAR)) == NEW


def manager(release: AnyRelease, policy: str) -> ContainerManager:
    """On 16 CPUs in two NUMA nodes, with CPU 0 reserved and pod a holding two."""
    info = discover(topologies.machine("2s-2n-8c-smt2-cpustep2-pkgstep2-nodestep4").tree)
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0]), topology_manager_policy=policy, feature_gates=GATE
    )
    made = CPUManager(
        make_policy(info.cpu_topology(), config, release=release),
        release=release,
        feature_gates=GATE,
        active_pods=lambda: [pod("2")],
    )
    made.start(None)
    made.sources_ready = True
    topology_manager = TopologyManager(info, config, release=release)
    managers = ContainerManager(topology_manager, made, release=release)
    managers.admit(pod("2"))
    return managers


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_1_37_leaves_a_resize_alone(policy: str) -> None:
    """No hints, no allocation, no error (``policy_static.go``, 1.37: operations other than add)."""
    made = manager("1.37", policy)
    before, changes = made.cpu_manager.state_file(), made.cpu_manager.state.changes
    made.resize(pod("3"))
    made.resize(pod("1"))
    assert (made.cpu_manager.state_file(), made.cpu_manager.state.changes) == (before, changes)
    assert made.cpu_manager.metrics.admissions == 3  # the pod's own, and one of each resize


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_before_1_37_another_size_is_impossible(policy: str) -> None:
    """docs/facts 6.3: CPUs of another number than requested give an empty list of hints."""
    made = manager("1.36", policy)
    before = made.cpu_manager.state_file()
    with pytest.raises(TopologyAffinityError):
        made.resize(pod("3"))
    assert made.cpu_manager.state_file() == before


@pytest.mark.parametrize("policy", ["none", "best-effort"])
@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_the_cpus_never_follow_the_request(release: str, policy: str) -> None:
    """Nor do they after a restart, which is an admission again (kubernetes/kubernetes#140031)."""
    made = manager(release, policy)
    before = made.cpu_manager.state.get(pod("3").uid, "c")
    assert before is not None
    assert len(before) == 2
    made.resize(pod("3"))
    made.admit(pod("3"))
    assert before == made.cpu_manager.state.get(pod("3").uid, "c")


def test_a_manager_that_starts_on_a_file_with_baselines_keeps_them() -> None:
    """docs/facts 12.4. Without any it takes the entries for them."""
    made = manager("1.37", "none").cpu_manager
    held = {pod("2").uid: {"c": made.state.get(pod("2").uid, "c")}}
    again = manager("1.37", "none").cpu_manager
    again.start(made.state_file())
    assert again.state.keeps_baselines
    assert again.state.baselines == made.state.baselines == held
    plain = Checkpoint.loads(made.state_file(), release="1.37").dumps(release="1.37")
    again.start(plain)
    assert again.state.baselines == held
    again.remove_container(pod("2").uid, "c")
    assert again.state.baselines == {}
