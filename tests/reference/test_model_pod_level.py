"""Pod-level resources, from manifest to CPUs: docs/facts 5.7, 12.4 and 12.5.

Pools of whole pods, deletions, restarts and the gate switched off are recorded
(tests/conformance/test_recordings.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from conformance.pods import exclusive
from reference import CPUManager, CPUSet, IllegalStep, Node, NotModelled, discover, make_policy
from reference.cpumanager.state.state_mem import State
from reference.errors import EmptyPodSharedPoolError
from reference.kubelet.admission import fault_of_whole
from reference.pods.pod_level_resources import as_decoded, empty_pool_fault, is_guaranteed_alone
from reference.pods.qos import pod_milli_cpus, qos_class
from reference.steps import (
    Apply,
    AskPodResources,
    Container,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
)
from tests.reference import nodes
from tests.reference.nodes import tree

MACHINE = "2s-2n-16c-smt2"

ON = {"PodLevelResourceManagers": True}
MEMORY = "256Mi"


def pod(name: str, cpu: str, *containers: Container) -> Pod:
    return Pod(name, containers, resources=PodResources(cpu, cpu, MEMORY, MEMORY))


CONFIG = KubeletConfig(
    reserved_system_cpus=CPUSet([0, 16]),
    topology_manager_policy="restricted",
    topology_manager_scope="pod",
    feature_gates=ON,
)
PLAIN = replace(CONFIG, feature_gates={})

booted = partial(nodes.booted, config=CONFIG, machine=MACHINE)


def held(node: Node, name: str = "a") -> dict[str, str]:
    return {key: str(cpus) for key, cpus in node.view().assignments.get(name, {}).items()}


# -- what is read of the manifest --------------------------------------------------------------


@pytest.mark.parametrize(("release", "reported"), [("1.36", "2,18"), ("1.37", "")])
def test_no_cpus_of_a_container_with_a_fraction_are_reported(release: str, reported: str) -> None:
    """Though it would be Guaranteed alone: 1.37 reports them for the pod
    (``resourcesQualifyForExclusiveCPUs``)."""
    one = Apply(pod("a", "4", exclusive("own", "2"), exclusive("part", "500m")))
    view = booted(one, AskPodResources(), release=release).view()
    assert str((view.pod_resources or {})["a"]["part"]) == reported


@pytest.mark.parametrize(
    ("release", "gates", "known"),
    [
        ("1.31", {}, False), ("1.32", {}, False), ("1.32", {"PodLevelResources": True}, True),
        ("1.34", {}, True), ("1.34", {"PodLevelResources": False}, False), ("1.37", {}, True),
    ],
)  # fmt: skip
def test_who_knows_pod_level_resources(
    release: str, gates: Mapping[str, bool], known: bool
) -> None:
    """Alpha in 1.32 and 1.33, on from 1.34."""
    decoded = as_decoded(pod("a", "4", Container("c")), gates, release=release)
    assert (decoded.resources is not None) is known
    assert qos_class(decoded) == ("Guaranteed" if known else "BestEffort")
    assert pod_milli_cpus(decoded) == (4000 if known else 0)


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_1_36_and_later_without_them_are_outside_the_model(release: str) -> None:
    """The kubelet starts only where what hangs on them is off too; then its CPU manager still sees
    them, and gives such a pod nothing (Go code, exact comparison)."""
    off = {"PodLevelResources": False}
    with pytest.raises(NotModelled, match="pod a: pod-level resources without feature gate"):
        as_decoded(pod("a", "4", Container("c")), off, release=release)
    plain = Pod("a", (exclusive("c", "2"),))
    assert as_decoded(plain, off, release=release) is plain


@pytest.mark.parametrize(("release", "qos"), [("1.36", "BestEffort"), ("1.37", "Guaranteed")])
def test_resources_that_name_nothing(release: str, qos: str) -> None:
    """``resources: {}``, seen on 1.36.4 and 1.37.0."""
    empty = Pod("a", (exclusive("c", "2"),), resources=PodResources())
    assert qos_class(as_decoded(empty, {}, release=release)) == qos


def test_requests_are_filled_in_up_to_1_36() -> None:
    """By what containers ask for together, or else by the limit (``defaultPodRequests``)."""
    limits = PodResources(cpu_limit="4", memory_limit=MEMORY)
    bare = Pod("a", (Container("c"),), resources=limits)
    asking = Pod("a", (Container("i", "3", kind=Kind.INIT), Container("c", "1")), resources=limits)
    old, new = as_decoded(bare, {}, release="1.36"), as_decoded(bare, {}, release="1.37")
    assert (qos_class(old), qos_class(new)) == ("Guaranteed", "Burstable")
    filled = as_decoded(asking, {}, release="1.36")
    assert qos_class(filled) == "Burstable"
    assert pod_milli_cpus(filled) == 3000
    requests = PodResources(cpu_request="2")
    assert as_decoded(replace(bare, resources=requests), {}).resources == requests


# -- the pod's own pool --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "limit", "memory", "alone"),
    [("2", "2", "1Gi", True), ("1", "2", "1Gi", False), ("2", "2", None, False),
     ("0", "0", "1Gi", False), (None, None, "1Gi", False)],
)  # fmt: skip
def test_who_is_exclusive(
    asked: str | None, limit: str | None, memory: str | None, alone: bool
) -> None:
    """``IsContainerEquivalentQOSGuaranteed``."""
    assert is_guaranteed_alone(Container("c", asked, limit, memory, memory)) is alone


INIT, SIDECAR, APP = Kind.INIT, Kind.SIDECAR, Kind.APP


@pytest.mark.parametrize(
    ("kinds", "counts", "fault"),
    [
        ([APP, APP], [2, 0], ""), ([APP, APP], [4, 0], "sum of exclusive"), ([APP], [4], ""),
        ([SIDECAR, INIT, APP], [4, 0, 0], "shared init"), ([INIT, SIDECAR, APP], [0, 2, 2], ""),
        ([INIT, SIDECAR, APP], [0, 4, 0], "sum of exclusive"), ([INIT, APP], [4, 0], ""),
        ([SIDECAR, APP], [0, 4], "sum of exclusive"),
    ],
)  # fmt: skip
def test_whose_pool_is_empty(kinds: list[Kind], counts: list[int], fault: str) -> None:
    """``validatePodScopeResources``, of a pod of 4 CPUs."""
    containers = [Container(f"c{i}", kind=kind) for i, kind in enumerate(kinds)]
    named = {one.name: count for one, count in zip(containers, counts, strict=True)}
    said = empty_pool_fault(pod("a", "4", *containers), 4, named)
    assert fault in said
    assert bool(said) is bool(fault)


@pytest.mark.parametrize("release", ["1.34", "1.36", "1.37"])
def test_without_the_managers_nobody_gets_any(release: str) -> None:
    """From 1.34 on; in 1.32 and 1.33 containers are looked at alone."""
    large = Apply(pod("a", "40", exclusive("main", "2")))
    assert held(booted(large, config=PLAIN, release=release)) == {}
    small = Apply(pod("a", "4", exclusive("main", "2")))
    early = replace(CONFIG, feature_gates={"PodLevelResources": True})
    assert held(booted(small, config=early, release="1.33")) == {"main": "1,17"}


@pytest.mark.parametrize(
    ("gates", "panics", "bears"),
    [
        ({"PodLevelResourceManagers": True}, "1.35", None),
        ({"PodLevelResources": True}, "1.31", None),
        ({"PodLevelResourceManagers": True, "PodLevelResources": False}, "1.36", None),
        ({"PodLevelResources": False}, "1.36", "1.35"),
        ({"CPUManagerPolicyOptions": False}, "1.33", "1.32"),
        ({"TopologyManager": True}, "1.29", "1.28"),
        ({"TopologyManager": False}, "1.27", "1.26"),
        ({"TopologyManagerPolicyOptions": False}, "1.36.4", "1.35"),
        ({"InPlacePodVerticalScalingExclusiveCPUs": True}, "1.31", None),
    ],
)
def test_gates_with_which_a_kubelet_panics(
    gates: Mapping[str, bool], panics: str, bears: str | None
) -> None:
    """One that it does not know or knows no more, that is locked, or that others depend on: outside
    the model. Some of them the minor before bears."""
    config = replace(CONFIG, feature_gates=gates)
    with pytest.raises(NotModelled):
        nodes.node(config=config, machine=MACHINE, release=panics)
    if bears:
        booted(config=config, release=bears)


# -- laws ------------------------------------------------------------------------------------------

TOPOLOGY = discover(tree(MACHINE)).cpu_topology()


@given(strategies.pod_level_pods(), st.sampled_from(["1.36", "1.37"]))
def test_a_pool_is_dealt_out_and_comes_back(one: Pod, release: str) -> None:
    """Whatever its containers ask for: all within the pod's CPUs, exclusive ones that run at once
    apart from each other and from who shares, and nothing is lost when the pod has gone."""
    policy = make_policy(TOPOLOGY, CONFIG, release=release)
    manager = CPUManager(policy, release=release, feature_gates=ON)
    manager.start(None)
    manager.sources_ready = True
    before = manager.state.default
    try:
        manager.active_pods = lambda: [one]
        manager.allocate_pod(one)
    except EmptyPodSharedPoolError:
        assert manager.state.default == before
        return
    whole = manager.state.pod_entries[one.uid]
    entries = manager.state.entries[one.uid]
    assert len(whole) == 8
    assert manager.state.default == before - whole
    assert all(entries[part.name] and entries[part.name] <= whole for part in one.containers)
    steady = [part for part in one.containers if part.kind is not Kind.INIT]
    owners = [entries[part.name] for part in steady if part.cpu_request]
    sharers = [entries[part.name] for part in steady if not part.cpu_request]
    apart = [*owners, *sharers[:1]]
    assert sum(map(len, apart)) == len(CPUSet(cpu for cpus in apart for cpu in cpus))
    assert all(cpus == sharers[0] for cpus in sharers)
    manager.active_pods = tuple
    manager.remove_stale_state()
    assert manager.state.default == before
    assert manager.state.pod_entries == manager.state.entries == {}


@pytest.mark.parametrize(
    ("whole", "fault"),
    [
        (PodResources("4", "4", MEMORY, MEMORY), ""),
        (PodResources("2", "4", MEMORY, MEMORY), "cpu request 2 is below"),
        (PodResources("4", "4", "32Mi", MEMORY), "memory request 32Mi is below"),
        (PodResources("5", "4"), "request 5 is above limit 4"),
        (PodResources("x"), "quantities must match"),
        (PodResources(cpu_limit="2"), "cpu limit 3 is above the pod's 2"),
    ],
)
def test_manifests_that_the_kubelet_does_not_take_up(whole: PodResources, fault: str) -> None:
    """Pod-level resources are no less than what the containers ask for together
    (``validatePodResourceConsistency``, 1.36)."""
    one = Pod("a", (exclusive("c", "3"),), resources=whole)
    assert fault in fault_of_whole(one)
    assert bool(fault_of_whole(one)) is bool(fault)
    if fault:
        with pytest.raises(IllegalStep):
            booted(Apply(one))


def test_what_an_api_server_adds_to_limits_as_a_whole_is_not_modelled_from_1_37_on() -> None:
    """A kubelet of 1.37 does not add it, so a static pod is Burstable there. Seen on 1.37.0: as the
    API server has it, the pod is Guaranteed."""
    limits = PodResources(cpu_limit="2", memory_limit=MEMORY)
    one = Apply(Pod("a", (Container("c"),), resources=limits))
    in_cluster = replace(PLAIN, api_server=True)
    booted(one, config=PLAIN, release="1.37")
    booted(one, config=in_cluster, release="1.36")
    with pytest.raises(NotModelled, match="an API server adds requests"):
        booted(one, config=in_cluster, release="1.37")
    booted(Apply(pod("a", "2", Container("c"))), config=in_cluster, release="1.37")


# -- what a pod holds when it is admitted again, from 1.38 on --------------------------------------

PARTS = (exclusive("first", 2), exclusive("second", 3), Container("rest"))


def _admitted_again(left: tuple[str, ...], release: str = "1.38", *, shared: bool = False) -> State:
    """The state after a pod was admitted twice, of whose containers those that are ``left`` had an
    entry in between. ``shared``: its CPUs were already shared again."""
    whole = pod("a", "8", *PARTS)
    manager = CPUManager(
        make_policy(TOPOLOGY, CONFIG, release=release), release=release, feature_gates=ON
    )
    manager.start(None)
    manager.allocate_pod(whole)
    state, uid = manager.state, whole.uid
    for name in {part.name for part in PARTS} - {*left}:
        state.delete(uid, name)
    if shared:
        state.set_default(state.default | state.pod_entries[uid])
    manager.allocate_pod(whole)
    return state


@pytest.mark.parametrize(
    "left", [("first", "second", "rest"), ("first", "second"), ("first",), ("second",), ()]
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_pod_admitted_again_holds_as_much_as_before(left: tuple[str, ...], shared: bool) -> None:
    """Whether its entries are all there, are the first of the pod, or are left over from a release
    that was interrupted (``podAllocationStaleness``): no CPU is lost, and none is shared."""
    state = _admitted_again(left, shared=shared)
    (whole,), (entries,) = state.pod_entries.values(), state.entries.values()
    assert state.default == TOPOLOGY.cpus - whole
    assert [len(entries[part.name]) for part in PARTS] == [2, 3, 3]
    assert CPUSet(cpu for cpus in entries.values() for cpu in cpus) == whole
    assert len(whole) == 8


def test_up_to_1_37_it_is_given_others() -> None:
    state = _admitted_again(("first", "second", "rest"), "1.37")
    assert len(TOPOLOGY.cpus - state.default) == 16
