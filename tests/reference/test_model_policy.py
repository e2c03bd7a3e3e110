"""The static policy and the CPU manager, one rule at a time."""

from __future__ import annotations

import pytest

from conformance.pods import exclusive as container
from reference import (
    ConfigurationError,
    CPUManager,
    CPUSet,
    CPUTopology,
    NonePolicy,
    NotEnoughCPUs,
    StateError,
    StaticPolicy,
    make_policy,
)
from reference.cpumanager.cpu_manager import require_settings, reserved_milli_cpus
from reference.steps import Kind, KubeletConfig, Pod
from tests.reference.nodes import even, state_file

#: Four cores, siblings i and i + 4.
SMT = even(4, 1, 1)


ACROSS_CORES = {"distribute-cpus-across-cores": "true"}
ALPHA = {"CPUManagerPolicyAlphaOptions": True}


def started(state_file: str | None = None) -> CPUManager:
    manager = CPUManager(make_policy(SMT, KubeletConfig(system_reserved="1")))
    manager.start(state_file)
    manager.sources_ready = True
    return manager


def admit(manager: CPUManager, *pods: Pod) -> None:
    """Admit the last of the pods; the others are active."""
    for one in pods[-1].containers:
        manager.active_pods = lambda: pods
        manager.allocate(pods[-1], one)


def held(manager: CPUManager, pod: Pod) -> dict[str, str]:
    return {name: str(cpus) for name, cpus in manager.state.entries.get(pod.uid, {}).items()}


def reserved(config: KubeletConfig, release: str = "1.36") -> str:
    policy = make_policy(SMT, config, release=release)
    assert isinstance(policy, StaticPolicy)
    return str(policy.reserved)


def refusal(config: KubeletConfig, release: str = "1.36") -> str:
    with pytest.raises(ConfigurationError) as caught:
        make_policy(SMT, config, release=release)
    return str(caught.value)


# -- reservation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "release", "cpus"),
    [
        (KubeletConfig(system_reserved="1"), "1.36", "0"),
        (KubeletConfig(kube_reserved="2"), "1.36", "0,4"),
        (KubeletConfig(system_reserved="500m", kube_reserved="500m"), "1.36", "0"),
        (KubeletConfig(system_reserved="600m", kube_reserved="500m"), "1.36", "0,4"),
        (KubeletConfig(system_reserved="1m"), "1.36", "0"),
        (KubeletConfig(system_reserved="3"), "1.36", "0-1,4"),
        (KubeletConfig(system_reserved="8"), "1.36", "0-7"),
        # Rounded as the release rounds it (docs/facts 12.7).
        (KubeletConfig(system_reserved="1000400u"), "1.36", "0,4"),
        (KubeletConfig(system_reserved="1000400u"), "1.37", "0"),
        # Policy options choose, too.
        (KubeletConfig(system_reserved="2", policy_options=ACROSS_CORES, feature_gates=ALPHA),
         "1.36", "0-1"),
    ],
)  # fmt: skip
def test_an_amount_is_rounded_up_and_chosen_by_the_allocator(
    config: KubeletConfig, release: str, cpus: str
) -> None:
    assert reserved(config, release) == cpus


def test_a_list_takes_the_place_of_the_amounts() -> None:
    """From 1.17 on (``reservedSystemCPUs``, docs/facts 5.3)."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 3]), kube_reserved="5")
    assert reserved(config) == "0,3"
    assert reserved_milli_cpus(config, release="1.17") == 2000
    assert reserved_milli_cpus(config, release="1.16") == 5000


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (KubeletConfig("none", reserved_system_cpus=CPUSet([0, 8])),
         "reserved-cpus: 0,8 is not a subset of online-cpus: 0-7"),
        (KubeletConfig("none", policy_options={"x": "y", "full-pcpus-only": "true"}),
         "new none policy error: None policy: received unsupported "
         "options=map[full-pcpus-only:true x:y]"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(config: KubeletConfig, error: str) -> None:
    """Seen on a real 1.36.4, as were those of the scenarios config/*-is-refused."""
    assert refusal(config) == error


@pytest.mark.parametrize("release", ["1.17", "1.20", "1.21"])
def test_old_releases_compare_reserved_ids_with_the_number_of_cpus(release: str) -> None:
    """Behaviour ``RESERVED_CPUS_ARE_ONLINE``; kubelet 1.20.15 was seen to refuse CPU 8 of eight
    CPUs 0, 2, … 14."""
    gaps = CPUTopology.of({cpu: (0, 0, cpu // 4, 0) for cpu in range(0, 16, 2)})
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
    with pytest.raises(ConfigurationError) as caught:
        require_settings(gaps, config, release=release)
    assert str(caught.value) == 'Invalid cpuset "0,8" specified by --reserved-cpus'
    require_settings(gaps, config, release="1.22")
    # And an id that is not there passes.
    require_settings(gaps, KubeletConfig(reserved_system_cpus=CPUSet([7])), release=release)


_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@pytest.mark.parametrize(
    ("release", "config", "error"),
    [
        ("1.26", KubeletConfig(system_reserved="much"), _FORM),
        ("1.26", KubeletConfig(system_reserved="-1"),
         'resource quantity for "cpu" cannot be negative: -1'),
        ("1.27", KubeletConfig(system_reserved="much"),
         "--system-reserved value failed to parse: "
         f'failed to parse quantity "much" for "cpu" resource: {_FORM}'),
        ("1.36", KubeletConfig(kube_reserved="-1", system_reserved="x"),
         "--kube-reserved value failed to parse: "
         'resource quantity for "cpu" cannot be negative: -1'),
    ],
)  # fmt: skip
def test_a_reservation_that_is_no_quantity(release: str, config: KubeletConfig, error: str) -> None:
    """docs/facts 9.2; seen on real kubelets 1.20.15, 1.26.15, 1.32.2, 1.36.4 and 1.37.0."""
    assert refusal(config, release) == error


# -- the state at start --------------------------------------------------------------------------


def test_the_policy_none_writes_an_empty_state_and_takes_any() -> None:
    manager = CPUManager(NonePolicy())
    manager.start(None)
    text = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    assert manager.state_file() == text
    again = CPUManager(NonePolicy())
    again.start(text)
    assert again.state.changes == 0


@pytest.mark.parametrize(
    ("default", "uid", "held", "error"),
    [
        ("", "p", "1", "default cpuset cannot be empty"),
        ("0-6", "p", "8",
         'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6,8"'),
        # Faults are looked for in the kubelet's order.
        ("1-6", "p", "6", 'not all reserved cpus: "0" are present in defaultCpuSet: "1-6"'),
        ("0-5", "p", "5", 'pod: p, container: c cpuset: "5" overlaps with default cpuset "0-5"'),
        # An owner without uid is a pod all the same, as somebody may have written it; only up to
        # 1.17 names are container ids.
        ("0-6", "", "6", 'pod: , container: c cpuset: "6" overlaps with default cpuset "0-6"'),
    ],
)  # fmt: skip
def test_a_state_that_does_not_suit_the_machine(
    default: str, uid: str, held: str, error: str
) -> None:
    with pytest.raises(StateError) as caught:
        started(state_file(default, {uid: {"c": held}}))
    assert str(caught.value) == error


def test_of_several_overlaps_any_may_be_named() -> None:
    with pytest.raises(StateError) as caught:
        started(state_file("0-7", {"p": {"c": "1", "d": "2"}}))
    assert len(caught.value.possible) == 2


def test_what_is_not_looked_at() -> None:
    manager = started(state_file("0,3-7", {"gone": {"a": "1-2", "b": "1"}}))
    assert manager.state.changes == 0


# -- giving and taking ---------------------------------------------------------------------------


def test_what_is_held_is_kept_whatever_its_size() -> None:
    manager = started(state_file("0,4-7", {Pod("p", ()).uid: {"c": "1-3"}}))
    pod = Pod("p", (container("c", "2"),))
    admit(manager, pod)
    assert held(manager, pod) == {"c": "1-3"}
    assert manager.state.changes == 0


def test_nothing_is_stale_before_all_sources_were_heard() -> None:
    manager = started(state_file("0,3-7", {"gone": {"a": "1-2"}}))
    manager.sources_ready = False
    with pytest.raises(NotEnoughCPUs, match="available=5"):
        admit(manager, Pod("p", (container("c", "6"),)))
    manager.sources_ready = True
    admit(manager, Pod("p", (container("c", "6"),)))


def test_only_the_pod_handled_last_may_reuse() -> None:
    manager = started()
    first = Pod("p", (container("i", "6", kind=Kind.INIT), container("a", "6")))
    other = Pod("q", (container("c", "1"),))
    manager.active_pods = lambda: [first, other]
    manager.allocate(first, first.containers[0])
    manager.allocate(other, other.containers[0])
    with pytest.raises(NotEnoughCPUs, match="available=0"):
        manager.allocate(first, first.containers[1])


def test_an_allocation_and_a_release_are_two_writes_each() -> None:
    """The default set and the entry, each with the whole file; what is kept writes nothing
    (docs/facts 7.7)."""
    manager, pod = started(), Pod("a", (container("c", "2"),))
    before = manager.state.changes
    admit(manager, pod)
    assert manager.state.changes == before + 2
    admit(manager, pod)
    assert manager.state.changes == before + 2
    manager.remove_container(pod.uid, "c")
    assert manager.state.changes == before + 4


def test_cpus_of_one_pod_come_back_once() -> None:
    manager = started()
    pod = Pod("p", (container("i", "2", kind=Kind.INIT), container("a", "2")))
    admit(manager, pod)
    manager.remove_container(pod.uid, "i")
    assert str(manager.state.default) == "0,2-4,6-7"
    manager.remove_container(pod.uid, "a")
    assert str(manager.state.default) == "0-7"
    changes = manager.state.changes
    manager.remove_container(pod.uid, "a")
    assert manager.state.changes == changes


# -- reconcile -----------------------------------------------------------------------------------


def _sent(manager: CPUManager, *pods: Pod) -> list[tuple[str, str]]:
    manager.active_pods = lambda: pods
    return [(name, str(cpus)) for _, name, cpus in manager.reconcile(lambda *_: True)]


def test_an_empty_pool_and_a_container_that_does_not_run_are_passed_over() -> None:
    manager = started()
    pod = Pod("p", (container("c", "500m"),))
    manager.state.set_default(CPUSet())
    assert _sent(manager, pod) == []
    manager.state.set_default(SMT.cpus)
    assert manager.reconcile(lambda *_: False) == []


def test_a_copy_goes_its_own_way() -> None:
    manager = started()
    twin = manager.copy()
    pod = Pod("p", (container("i", "2", kind=Kind.INIT), container("a", "2")))
    admit(twin, pod)
    assert manager.state.entries == {}
    assert manager.state_file() != twin.state_file()
    admit(manager, pod)
    assert manager.state_file() == twin.state_file()
