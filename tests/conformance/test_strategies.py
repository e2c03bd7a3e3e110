"""The strategies that users draw from: what is drawn is right, and covers what it says."""

from __future__ import annotations

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import topologies
from conformance import strategies
from reference import Checkpoint, CPUSet, CPUTopology, Node, discover, exclusive_cpus, qos_class
from reference.cpumanager.policy_options import StaticOptions
from reference.errors import IllegalStep, NotModelled
from reference.kubelet.admission import fault_of, fault_of_whole
from reference.pods.quantity import quantity
from reference.steps import KubeletConfig, Pod, Start, Step

_NOT_SHRUNK = settings(phases=[Phase.generate])
_TREE = topologies.machine("1s-1n-4c-smt2").tree


@given(strategies.cpusets(min_size=2, max_cpu=9))
def test_cpusets_keep_their_bounds(cpus: CPUSet) -> None:
    assert len(cpus) >= 2
    assert cpus <= CPUSet(range(10))


@given(strategies.cpu_list_texts(), strategies.quantity_texts())
def test_right_texts_are_right(cpus: str, amount: str) -> None:
    CPUSet.parse(cpus)
    assert quantity(amount) >= 0


@given(strategies.topologies())
def test_topologies_are_even(topology: CPUTopology) -> None:
    assert topology.even_cores
    assert len(topology.cpus) == topology.num_cpus <= 64 * 4


def test_topologies_may_be_uneven_and_large() -> None:
    find(strategies.topologies(even=False), lambda one: not one.even_cores, settings=_NOT_SHRUNK)
    for wanted in (
        lambda one: one.num_sockets > 1 and one.num_numa_nodes > 2,
        lambda one: one.num_uncore_caches > one.num_numa_nodes,
    ):
        find(strategies.topologies(), wanted, settings=_NOT_SHRUNK)


@given(strategies.machine_specs(max_cpus=16))
def test_machine_specs_can_be_described_and_discovered(spec: str) -> None:
    topology = discover(topologies.describe(spec).tree).cpu_topology()
    assert str(topology.num_sockets) == spec.partition("s")[0]


@given(strategies.pods(), strategies.guaranteed_pods())
def test_pods_are_taken_up(any_pod: Pod, guaranteed: Pod) -> None:
    assert fault_of(any_pod) == fault_of(guaranteed) == ""
    assert qos_class(guaranteed) == "Guaranteed"
    assert all(exclusive_cpus(guaranteed, one) for one in guaranteed.containers)


@given(strategies.pod_level_pods(max_cpus=6))
def test_pods_with_pod_level_resources_are_taken_up(pod: Pod) -> None:
    assert fault_of(pod) == fault_of_whole(pod) == ""
    assert qos_class(pod) == "Guaranteed"
    assert pod.resources is not None
    assert pod.resources.cpu_request == "6"


def test_pods_are_of_every_class() -> None:
    for wanted in ("Guaranteed", "Burstable", "BestEffort"):
        classes = strategies.pods().map(qos_class)
        assert find(classes, wanted.__eq__, settings=_NOT_SHRUNK) == wanted


@given(st.data(), strategies.releases())
def test_settings_are_accepted(data: st.DataObject, release: str) -> None:
    config: KubeletConfig = data.draw(strategies.kubelet_configs(release=release))
    StaticOptions.parse(config.policy_options, config.feature_gates, release=release)


@given(st.data(), strategies.releases(9))
def test_checkpoints_are_those_of_the_release(data: st.DataObject, release: str) -> None:
    one: Checkpoint = data.draw(strategies.checkpoints(release=release))
    text = one.dumps(release=release)
    assert Checkpoint.loads(text, policy=one.policy_name, release=release) == one


@given(st.lists(strategies.steps(release="1.36"), max_size=6))
def test_steps_drive_a_node(steps: list[Step]) -> None:
    node = Node(lambda _: _TREE, "here", KubeletConfig(system_reserved="1"), release="1.36")
    for step in [Start(), *steps]:
        try:
            node.do(step)
        except (IllegalStep, NotModelled):
            continue
    node.view()
