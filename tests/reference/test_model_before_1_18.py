"""Whole nodes of 1.8 to 1.17: docs/facts 5.1 to 5.8, 6.2, 7.3, 7.4 and 8.1 to 8.5.

Of 1.15.12 and 1.16.15 real kubelets were driven, and a test says what was seen on them; what is
said of 1.17 was seen on a real 1.17.17. The rest follows from the sources of 1.8.15, 1.9.11,
1.10.13, 1.11.10, 1.12.10, 1.13.12 and 1.14.10. What scenarios promise of these releases is tried by
tests/conformance/test_before_1_17.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import product

import pytest

from conformance.pods import exclusive
from reference import Checkpoint, CPUSet, Node, NotModelled
from reference.kubelet.configuration import reserved_cpus, reserving
from reference.kubelet.runtime import container_id
from reference.machine.topology import CPUTopology
from reference.releases import OLDEST
from reference.steps import (
    Apply,
    Configure,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    WriteState,
)
from reference.view import Phase, PodView, View
from tests.reference.nodes import TWO_NODES, do
from tests.reference.nodes import node as node_of
from tests.support.pods import assignments, best_effort, cpusets, pod

#: The kubelet reserves CPU 0: a single CPU is taken from the core with the lowest id.
ONE = KubeletConfig(system_reserved="1")
node = partial(node_of, config=ONE)


def between(first: int, last: int) -> list[str]:
    return [f"1.{minor}" for minor in range(first, last + 1)]


EVERY = between(OLDEST, 17)
#: By pod and container.
Held = dict[str, dict[str, str]]


@pytest.mark.parametrize("release", EVERY)
def test_an_exclusive_container_and_a_shared_one(release: str) -> None:
    """The cpusets are the same in every release; the state file shows who has what since 1.9."""
    one = node(Start(), Apply(best_effort("s")), Apply(pod("a", "2")), release=release)
    assert cpusets(one.view()) == {"a": {"c1": "1,5"}, "s": {"c1": "0,2-4,6-7"}}
    view = do(one, Delete("a"))
    assert cpusets(view) == {"s": {"c1": "0-7"}}
    assert assignments(view) == {}


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", EVERY)
def test_a_list_reserves_since_1_17(release: str) -> None:
    """Before, nobody reads it, and a static policy that it alone is to reserve for is refused."""
    view = node(Start(), config=KubeletConfig(reserved_system_cpus=CPUSet([3])), release=release)
    assert view.view().running is (release == "1.17")
    both = KubeletConfig(reserved_system_cpus=CPUSet([3]), system_reserved="1")
    full = node(Start(), Apply(pod("a", "7")), config=both, release=release)
    assert cpusets(full.view()) == {"a": {"c1": "0-2,4-7" if release == "1.17" else "1-7"}}


@pytest.mark.parametrize("release", ["1.12", "1.36", "1.99"])
def test_a_configuration_that_reserves_can_be_made_for_any_release(release: str) -> None:
    """A subject is tried before anybody asks whether the model knows its release."""
    listed = reserving(CPUSet([0]), release=release).reserved_system_cpus
    assert listed == (None if release == "1.12" else CPUSet([0]))


def test_a_number_that_cannot_be_reserved_reserves_nothing() -> None:
    topology = CPUTopology.of({0: (0, 0, 0, 0)})
    config = KubeletConfig(system_reserved="2")
    assert reserved_cpus(topology, config, release="1.16") is None


@pytest.mark.parametrize("release", between(OLDEST, 15))
def test_an_unknown_policy_is_none_up_to_1_15(release: str) -> None:
    """docs/facts 5.1; refused by a real 1.16.15, see below."""
    view = node(Start(), config=replace(ONE, policy="statik"), release=release).view()
    assert view.running
    assert not view.shared_pool


@pytest.mark.parametrize(
    ("gate", "known"),
    [("TopologyManager", between(16, 17)), ("CPUManager", between(8, 9))],
)
@pytest.mark.parametrize("release", EVERY)
def test_gates_are_known_where_they_may_be_off(release: str, gate: str, known: list[str]) -> None:
    """The CPU manager's in 1.8 and 1.9; nodes here have it on in any case."""
    config = replace(ONE, feature_gates={gate: True})
    if release in known:
        assert node(Start(), config=config, release=release).view().running
        node(Configure(config), release=release)
    else:
        for make in (partial(node, config=config), partial(node, Configure(config))):
            with pytest.raises(NotModelled, match=gate):
                make(release=release)


@pytest.mark.parametrize("release", EVERY)
def test_the_cpu_manager_cannot_be_off(release: str) -> None:
    with pytest.raises(NotModelled, match="CPUManager"):
        node(Configure(replace(ONE, feature_gates={"CPUManager": False})), release=release)


# -- giving up ------------------------------------------------------------------------------------


UNDETERMINED = "[cpumanager] unable to determine reserved CPU resources for static policy"
TOO_LARGE = "[cpumanager] unable to reserve the required amount of CPUs (size of  did not equal 9)"


@pytest.mark.parametrize(
    ("config", "releases", "error", "status"),
    [
        # A panic in 1.8 and 1.9 (``NewManager``).
        (KubeletConfig(), between(8, 9), f"panic: {UNDETERMINED}", 2),
        (KubeletConfig(), between(10, 17), f"failed to run Kubelet: {UNDETERMINED}", 255),
        # A panic up to 1.17; from 1.18 on an error (docs/facts 5.3).
        (KubeletConfig(system_reserved="9"), ["1.17"], f"panic: {TOO_LARGE}", 2),
        (KubeletConfig(system_reserved="9"), ["1.18"],
         f"failed to run Kubelet: new static policy error: {TOO_LARGE}", 255),
        (replace(ONE, policy="statik"), between(16, 17),
         'failed to run Kubelet: unknown policy: "statik"', 255),
    ],
    ids=["no reservation", "no reservation, later", "too large", "too large, later", "policy"],
)  # fmt: skip
def test_settings_with_which_a_kubelet_gives_up(
    config: KubeletConfig, releases: list[str], error: str, status: int
) -> None:
    for release in releases:
        view = node(Start(), config=config, release=release).view()
        assert (view.error, view.exit_status) == (error, status), release


@pytest.mark.parametrize(
    ("release", "error", "status"),
    [
        ("1.9", "error: failed to run Kubelet: could not detect number of cpus", 1),
        ("1.10", "failed to run Kubelet: could not detect number of cpus", 255),
    ],
)
def test_in_1_8_and_1_9_main_says_why(release: str, error: str, status: int) -> None:
    """``die`` in ``cmd/kubelet/kubelet.go``; from 1.10 on klog's fatal exit."""
    view = do(Node(lambda _: {"/proc/cpuinfo": ""}, "empty", ONE, release=release), Start())
    assert (view.error, view.exit_status) == (error, status)


@pytest.mark.parametrize(
    ("releases", "texts", "begin", "status"),
    [
        (between(10, 11), ["{"],
         "panic: [cpumanager] state file: unable to restore state from disk (", 2),
        # Seen on 1.16.15; it is the first line of two.
        (between(12, 17), ["", "{", '{"policyName":"static","checksum":7}'],
         "failed to run Kubelet: could not initialize checkpoint manager: "
         "could not restore state from checkpoint: ", 255),
    ],
)  # fmt: skip
def test_a_bad_state_file_makes_1_10_and_1_11_panic_and_is_an_error_since_1_12(
    releases: list[str], texts: list[str], begin: str, status: int
) -> None:
    for release, text in product(releases, texts):
        view = node(WriteState(text), Start(), release=release).view()
        assert view.error.startswith(begin), release
        assert "\n" not in view.error
        assert (view.exit_status, view.state_file) == (status, text)


# -- the state file -------------------------------------------------------------------------------


def test_1_8_keeps_its_state_in_memory() -> None:
    """A file that lies there is another kubelet's, and says nothing of this one."""
    one = node(Start(), Apply(pod("a", "2")), release="1.8")
    assert (one.view().state_file, one.view().assignments) == (None, {})
    assert not one.view().shared_pool
    text = node(Start(), Apply(pod("b", "2")), release="1.9").view().state_file or ""
    view = do(one, Stop(), WriteState(text), Start())
    assert (view.state_file, view.assignments) == (text, {})


def test_1_9_creates_an_empty_file_and_writes_when_something_changes() -> None:
    """Under policy none nothing does; the next start cannot read it, and writes."""
    one = node(Start(), Apply(pod("a", "2")), config=KubeletConfig("none"), release="1.9")
    assert one.view().state_file == ""
    view = do(one, Stop(), Start())
    assert view.state_file == '{"policyName":"none","defaultCpuSet":""}'
    fresh = node(Start(), release="1.9").view()
    assert fresh.state_file == '{"policyName":"static","defaultCpuSet":"0-7"}'


@pytest.mark.parametrize("release", between(10, 11))
def test_1_10_and_1_11_write_a_missing_or_empty_file_at_once(release: str) -> None:
    for before in ((), (WriteState(""),)):
        view = node(*before, Start(), config=KubeletConfig("none"), release=release).view()
        assert view.state_file == '{"policyName":"none","defaultCpuSet":""}'


@pytest.mark.parametrize(
    "text", ["", "{", '{"policyName":5}', '{"policyName":"none","defaultCpuSet":"0-3"}']
)
def test_1_9_forgets_what_it_cannot_read(text: str) -> None:
    view = node(WriteState(text), Start(), release="1.9").view()
    assert view.running
    assert view.state_file == '{"policyName":"static","defaultCpuSet":"0-7"}'


@pytest.mark.parametrize("release", between(9, 17))
def test_entries_are_by_container_id(release: str) -> None:
    """The view has names all the same."""
    one = pod("a", "2")
    view = node(Start(), Apply(one), release=release).view()
    content = json.loads(view.state_file or "")
    ((key, cpus),) = content["entries"].items()
    assert (key, len(key), cpus) == (container_id(one.uid, "c1", 1), 64, "1,5")
    assert ("checksum" in content) is (int(release[2:]) >= 12)
    assert assignments(view) == cpusets(view) == {"a": {"c1": "1,5"}}


def test_an_id_that_nobody_had_stays_an_id() -> None:
    """An entry of another machine's container: stale, and not before some pod is active."""
    text = node(Start(), Apply(pod("x", "1")), release="1.17").view().state_file or ""
    other = node(WriteState(text), Start(), release="1.17")
    assert list(other.view().assignments) == [""]
    view = do(other, Apply(best_effort("b")))
    assert view.assignments == {}
    assert str(view.shared_pool) == "0-7"


# -- judging the state ----------------------------------------------------------------------------


def state(default: str, **entries: str) -> str:
    """A state file of no release in particular: no checksum counts as a right one."""
    return json.dumps({"policyName": "static", "defaultCpuSet": default, "entries": entries})


_STAYS_UP = "it goes on without its managers after a panic: "


@pytest.mark.parametrize("release", between(9, 17))
@pytest.mark.parametrize("default", ["0-3", "0-11"])
def test_a_kubelet_panics_over_other_cpus_since_1_12_and_stays_up(
    release: str, default: str
) -> None:
    """Before, the kubelet went on with the CPUs of the file. ``panic`` in ``policy_static.go``;
    1.17.17 catches it, and goes on without CPU manager and device manager."""
    view = node(WriteState(state(default)), Start(), release=release).view()
    assert view.running
    if int(release[2:]) >= 12:
        text = f'current set of available CPUs "0-7" doesn\'t match with CPUs in state "{default}"'
        assert view.hangs == _STAYS_UP + text
        assert view.state_file == state(default)
    else:
        assert not view.hangs
        assert str(view.shared_pool) == default


def test_a_kubelet_without_managers_is_stopped_and_starts_without_the_file() -> None:
    """What it does with pods meanwhile is not modelled."""
    one = node(WriteState(state("0-3")), Start(), release="1.17")
    with pytest.raises(NotModelled, match="without its managers"):
        one.do(Apply(pod("a", "2")))
    view = do(one, Stop(), RemoveState(), Start(), Apply(pod("a", "2")))
    assert (view.hangs, assignments(view)) == ("", {"a": {"c1": "1,5"}})


@pytest.mark.parametrize("release", between(9, 11))
def test_up_to_1_11_only_cpus_of_the_file_are_handed_out(release: str) -> None:
    one = node(WriteState(state("0-3")), Start(), Apply(pod("a", "2")), release=release)
    assert assignments(one.view()) == {"a": {"c1": "1-2"}}
    assert str(one.view().shared_pool) == "0,3"


@pytest.mark.parametrize("release", between(9, 17))
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (state("", x="1"), "default cpuset cannot be empty"),
        (state("1-7"), 'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"'),
        (state("0-7", x="1"), 'container id: x cpuset: "1" overlaps with default cpuset "0-7"'),
    ],
)
def test_what_every_release_panics_over(release: str, text: str, error: str) -> None:
    """``container id`` up to 1.17: docs/facts 5.8, row 4."""
    view = node(WriteState(text), Start(), release=release).view()
    assert (view.hangs, view.error) == (_STAYS_UP + error, "")


# -- admission ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", EVERY)
def test_how_a_pod_too_large_is_refused(release: str) -> None:
    """By the node's predicates, in their words; admission takes no CPUs. Static pods are critical
    since 1.16 (``IsCriticalPod``); seen on 1.15.12 and 1.16.15."""
    view = node(Start(), Apply(pod("a", "5")), Apply(pod("b", "3")), release=release).view()
    seen = view.pods["b"]
    if release in ("1.16", "1.17"):
        assert (seen.phase, seen.reason) == (Phase.REJECTED, "UnexpectedAdmissionError")
        assert seen.message.endswith("[(res: cpu, q: 1000), ]")
    else:
        numbers = "requested: 3000, used: 5000, capacity: 7000"
        text = f"Pod Node didn't have enough resource: cpu, {numbers}"
        assert seen == PodView(Phase.REJECTED, "OutOfcpu", text)
    assert "b" not in view.assignments


def test_a_container_that_cannot_have_its_cpus_is_not_modelled() -> None:
    """The kubelet tries again, later and later. Init containers can take what the predicates count
    once."""
    one = node(Start(), Apply(pod("a", "3", init="3")), release="1.17")
    with pytest.raises(NotModelled, match="later and later"):
        one.do(Apply(pod("b", "4")))
    assert one.view().pods.keys() == {"a"}


@pytest.mark.parametrize("release", EVERY)
def test_init_containers_decide_the_qos_class_since_1_16(release: str) -> None:
    """Seen on 1.15.12, and on 1.16.15: there such a pod is Burstable and shares."""
    init = Container("i", "1", None, "64Mi", None, Kind.INIT)
    mixed = Pod("a", (init, exclusive("c1", 2)))
    view = node(Start(), Apply(mixed), release=release).view()
    late = release in ("1.16", "1.17")
    assert view.pods["a"].qos == ("Burstable" if late else "Guaranteed")
    assert cpusets(view) == {"a": {"c1": "0-7" if late else "1,5"}}


ALIGNED = replace(
    ONE, topology_manager_policy="single-numa-node", feature_gates={"TopologyManager": True}
)


@pytest.mark.parametrize("release", ["1.16.0", "1.16", "1.17"])
def test_the_topology_manager_passes_static_pods_over_in_1_16(release: str) -> None:
    """Seen on 1.16.15: their status names no QoS class when they are admitted, so one that no NUMA
    node holds is admitted, and CPUs are taken from anywhere."""
    config = replace(ALIGNED, system_reserved="2")
    one = node(Start(), Apply(pod("a", "10")), config=config, machine=TWO_NODES, release=release)
    seen = one.view().pods["a"]
    if release == "1.17":
        assert (seen.phase, seen.reason) == (Phase.REJECTED, "Topology Affinity Error")
    else:
        assert seen.phase is Phase.RUNNING
        assert len(one.view().assignments["a"]["c1"]) == 10


def test_the_topology_manager_only_says_where() -> None:
    """Its gate is off by default; CPUs are taken later (``topology_manager.go``, 1.17)."""
    view = node(Start(), Apply(pod("a", "2")), config=ALIGNED, release="1.17").view()
    assert [len(cpus) for cpus in view.assignments["a"].values()] == [2]
    shut = node(Start(), config=replace(ALIGNED, feature_gates={}), release="1.17").view()
    assert "requires feature gate TopologyManager" in shut.error


# -- restarts -------------------------------------------------------------------------------------


SHARED_BY_ALL = {"a": {"c1": "0-7"}, "b": {"c1": "0-7"}, "s": {"c1": "0-7"}}
BEFORE = (Start(), Apply(pod("a", "2")), Apply(best_effort("s")), Apply(pod("b", "2")))


def restarted(release: str, *while_down: Step) -> View:
    """Containers of 2 CPUs, shared, and of 2 CPUs, over a kill of the kubelet."""
    return node(*BEFORE, Stop(kill=True), *while_down, Start(), release=release).view()


@pytest.mark.parametrize("release", [*between(9, 13), "1.17"])
def test_a_restart_keeps_everything(release: str) -> None:
    assert restarted(release) == node(*BEFORE, release=release).view()


def test_a_restart_of_1_8_shares_everything() -> None:
    """Issue 57681: the state is gone, and each round sends every container the pool, which is the
    machine. New pods take the same CPUs again."""
    assert cpusets(restarted("1.8")) == SHARED_BY_ALL
    one = node(Start(), Apply(pod("a", "1")), Stop(), Start(), Apply(pod("n", "1")), release="1.8")
    assert cpusets(one.view()) == {"a": {"c1": "0-3,5-7"}, "n": {"c1": "4"}}


@pytest.mark.parametrize(
    ("while_down", "releases", "own", "found"),
    [
        # Up to 1.13 who was deleted is stopped and gives back.
        (Delete("a"), between(9, 13), {"b": {"c1": "2,6"}},
         {"b": {"c1": "2,6"}, "s": {"c1": "0-1,3-5,7"}}),
        # Then a restart forgets and gives anew (issue 81324; seen on 1.15.12 and 1.16.15): who was
        # deleted leaves its CPUs to the next.
        (Delete("a"), between(14, 16), {"b": {"c1": "1,5"}},
         {"b": {"c1": "1,5"}, "s": {"c1": "0,2-4,6-7"}}),
        # Without the state file running containers share in 1.9, and take CPUs anew since 1.10
        # (seen on 1.16.15).
        (RemoveState(), ["1.9"], None, SHARED_BY_ALL),
        (RemoveState(), between(10, 17), None,
         {"a": {"c1": "1,5"}, "b": {"c1": "2,6"}, "s": {"c1": "0,3-4,7"}}),
    ],
)  # fmt: skip
def test_a_restart_after_a_deletion_or_without_the_state_file(
    while_down: Step, releases: list[str], own: Held | None, found: Held
) -> None:
    for release in releases:
        view = restarted(release, while_down)
        assert cpusets(view) == found, release
        assert own is None or assignments(view) == own, release


@pytest.mark.parametrize("release", between(14, 16))
def test_who_comes_first_after_a_restart_is_chance(release: str) -> None:
    """Rounds go through pods in Go's map order."""
    a, b = Apply(pod("a", "1")), Apply(pod("b", "1"))
    one = node(Start(), a, b, Stop(), Start(), release=release)
    assert one.outcomes == 2
    seen, other = one.view(), node(Start(), b, a, release=release).view()
    assert assignments(seen) != assignments(other)
    swapped = _swapped(seen.state_file or "")
    assert one.follow(
        replace(seen, assignments=other.assignments, cpusets=other.cpusets, state_file=swapped)
    )
    assert not node(Start(), a, Stop(), Start(), release="1.13").outcomes > 1


def _swapped(text: str) -> str:
    """The file of a node where two containers hold each other's CPU, by any checksum of it."""
    found = Checkpoint.loads(text, release="1.16")
    ((one, first), (two, second)) = found.entries[""].items()
    return replace(found, entries={"": {one: second, two: first}}).dumps(release="1.16")


REBOOTED = (Start(), Apply(pod("a", "2")), Stop(), Reboot(), Start())


@pytest.mark.parametrize("release", between(9, 17))
def test_up_to_1_13_a_reboot_leaks_and_then_begins_anew(release: str) -> None:
    """Issue 76416: nobody stops a container that is gone, so what it held stays held, under an id
    that is no container's any more. In 1.17 what the former containers held goes once every
    container of every pod is known."""
    view = node(*REBOOTED, release=release).view()
    leaks = release in between(9, 13)
    own = "2,6" if leaks or release == "1.17" else "1,5"
    former = {"": [CPUSet([1, 5])]} if leaks else {}
    shown = {name: [*held.values()] for name, held in view.assignments.items()}
    assert shown == {"a": [CPUSet.parse(own)], **former}
    assert cpusets(view)["a"]["c1"] == own
    assert view.shared_pool == CPUSet(range(8)) - CPUSet.parse(own) - CPUSet(
        [1, 5] if leaks else []
    )


@pytest.mark.parametrize("release", ["1.10", "1.11", "1.12", "1.13", "1.15"])
def test_a_running_container_that_finds_no_cpus(release: str) -> None:
    """Its state was lost, and the containers of a pod that is new take too many. Up to 1.11 it is
    sent the pool, as ``reconcileState`` goes on after the error."""
    one = node(Start(), Apply(pod("a", "5")), Stop(), RemoveState(), release=release)
    held_before = cpusets(do(one, Apply(pod("b", "2", init="2"))))["a"]["c1"]
    view = do(one, Start())
    assert "a" not in view.assignments
    pool = str(view.shared_pool)
    assert pool != held_before
    assert cpusets(view)["a"]["c1"] == (pool if release in ("1.10", "1.11") else held_before)


# -- init containers ------------------------------------------------------------------------------


ONE_INIT = pod("a", "2", init="2")
INITS = (exclusive("i", 1, kind=Kind.INIT), exclusive("j", 2, kind=Kind.INIT))
TWO_INITS = Pod("a", (*INITS, exclusive("c", 1)))


@pytest.mark.parametrize(
    ("one", "releases", "expected"),
    [
        (ONE_INIT, between(9, 13), {"a": {"i": "1,5", "c1": "2,6"}}),
        (ONE_INIT, ["1.14"], {"a": {"c1": "2,6"}}),
        (ONE_INIT, ["1.15"], {"a": {"i": "1,5", "c1": "2,6"}}),
        (ONE_INIT, ["1.16", "1.17"], {"a": {"i": "2,6", "c1": "1,5"}}),
        # kubernetes/kubernetes#78762
        (ONE_INIT, ["1.17+init-cpus-returned=off"], {"a": {"i": "1,5", "c1": "2,6"}}),
        (TWO_INITS, ["1.13", "1.15"], {"a": {"i": "4", "j": "1,5", "c": "2"}}),
        (TWO_INITS, ["1.14"], {"a": {"c": "2"}}),
        # Each round takes CPUs from one for the other and ends as it began: no round is the last to
        # change anything, and the node is at rest all the same.
        (TWO_INITS, ["1.16", "1.17"], {"a": {"j": "1,5", "c": "4"}}),
    ],
)
def test_what_init_containers_that_ended_hold(
    one: Pod, releases: list[str], expected: Held
) -> None:
    """Their own for the pod's life; in 1.14 nothing, as no round meets them; since 1.16 others,
    since their own returned for the app container and a round gave them some again (seen on
    1.16.15)."""
    for release in releases:
        assert assignments(node(Start(), Apply(one), release=release).view()) == expected, release


@pytest.mark.parametrize("release", EVERY)
def test_all_cpus_of_a_pod_with_init_containers_return(release: str) -> None:
    pods = (Apply(best_effort("s")), Apply(pod("a", "2", init="2")))
    view = node(Start(), *pods, Delete("a"), release=release).view()
    assert assignments(view) == {}
    assert cpusets(view) == {"s": {"c1": "0-7"}}
