"""The memory manager of the model: hints, who gets memory where, and what is left of it. What
scenarios ``memory/…`` do is held by their recordings (tests/conformance/test_recordings.py)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from reference import CPUSet, IllegalStep, NotModelled
from reference.errors import EmptyPodSharedPoolError, MemoryManagerError, StateError
from reference.memorymanager.metrics import ERRORS, REQUESTS, counts
from reference.memorymanager.policy_static import MemoryManager, default_machine_state
from reference.memorymanager.state import MEMORY, Block, State, validate
from reference.steps import (
    Apply,
    Configure,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
)
from reference.topologymanager.hint import ANY, Hint
from tests.reference import nodes

MIB = 1 << 20


def container(name: str, mib: int, *, kind: Kind = Kind.APP, cpus: str = "1") -> Container:
    return Container(name, cpus, cpus, f"{mib}Mi", f"{mib}Mi", kind=kind)


def pod(name: str, *mib: int) -> Pod:
    return Pod(name, tuple(container(f"c{at}", size) for at, size in enumerate(mib, 1)))


def manager(*mib: int, release: str = "1.36") -> MemoryManager:
    """With so much memory in each NUMA node."""
    memory = {node: size * MIB for node, size in enumerate(mib)}
    return MemoryManager(default_machine_state(memory, {}), release=release)


def hints(made: MemoryManager, asked: Pod) -> list[str] | None:
    found = made.hints(asked, asked.containers[0])
    return None if found is None else [str(one) for one in found]


def free(made: MemoryManager) -> list[int]:
    return [each.tables[MEMORY].free // MIB for each in made.state.machine.values()]


def take(made: MemoryManager, asked: Pod, nodes: int | None, *, preferred: bool = True) -> None:
    for one in asked.containers:
        made.allocate(asked, one, None if nodes is None else Hint(nodes, preferred))


def test_a_reservation_is_kept_from_its_numa_node() -> None:
    state = default_machine_state({0: 128 * MIB, 1: 128 * MIB}, {0: "96Mi"})
    assert [each.tables[MEMORY].allocatable // MIB for each in state.machine.values()] == [32, 128]
    with pytest.raises(NotModelled, match="more memory reserved in NUMA node 0 than it has"):
        default_machine_state({0: MIB}, {0: "2Mi"})


@pytest.mark.parametrize(
    ("text", "static", "server"),
    [
        ("64Mi", True, True), ("100M", True, True), ("67108864", True, True),
        # An API server writes these in bytes, or in Mi.
        ("0.5Mi", False, True), ("1.5Gi", False, True), ("67108864000m", False, True),
        # It has these in thousandths of a byte.
        ("0.1Mi", False, False), ("100m", False, False),
    ],
)  # fmt: skip
def test_memory_that_is_no_int64_is_refused(text: str, static: bool, server: bool) -> None:
    """And has no hint (``AsInt64``; seen on 1.26.15, 1.32.2 and 1.36.4)."""
    asked = Pod("a", (Container("c", "1", "1", text, text),))
    for from_server, granted in ((False, static), (True, server)):
        state = default_machine_state({0: 4096 * MIB}, {})
        made = MemoryManager(state, release="1.36", from_server=from_server)
        assert (hints(made, asked) is not None) is granted
        refused = pytest.raises(MemoryManagerError, match="failed to represent quantity as int64")
        with nullcontext() if granted else refused:
            take(made, asked, 1)


def test_a_group_serves_no_request_of_one_node() -> None:
    """And the other way round (``Cells``)."""
    made = manager(100, 100, 100)
    take(made, pod("wide", 150), 0b011)
    assert free(made) == [0, 50, 100]
    assert hints(made, pod("a", 20)) == ["2 preferred", "0-1"]
    assert hints(made, pod("a", 60)) == ["2 preferred"]
    made.sources_ready = True  # and no pod is active
    single = ["0 preferred", "1 preferred", "2 preferred"]
    assert hints(made, pod("a", 20)) == [*single, "0-1", "0,2", "1-2", "0-2"]
    assert free(made) == [100, 100, 100]


def test_a_pod_that_is_not_guaranteed_has_no_preference() -> None:
    made = manager(100)
    shared = Pod("a", (Container("c", memory_request="64Mi"),))
    assert hints(made, shared) is None
    take(made, shared, 0b1)
    assert made.state.blocks == {}


@pytest.mark.parametrize(("release", "served"), [("1.32", True), ("1.34", False), ("1.37", False)])
def test_without_its_managers_a_pod_with_pod_level_resources_has_no_memory(
    release: str, served: bool
) -> None:
    """Since 1.34; before, its containers are served as others are."""
    made = manager(100, release=release)
    whole = replace(pod("b", 1), resources=PodResources("1", "1", "1Mi", "1Mi"))
    assert (hints(made, whole) is None, made.pod_hints(whole) is None) == (not served,) * 2
    take(made, whole, 0b1)
    assert free(made) == [99 if served else 100]


def test_a_hint_that_is_too_small_is_extended() -> None:
    """Where the others' hints are narrower than memory needs, and not where a preferred one was."""
    made = manager(100, 100)
    take(made, pod("a", 150), 0b01, preferred=False)
    assert made.state.get(pod("a").uid, "c1") == (Block(0b11, 150 * MIB),)
    other = manager(200, 100)
    take(other, pod("b", 150), 0b01)
    with pytest.raises(MemoryManagerError, match="failed to find NUMA nodes to extend"):
        take(other, pod("c", 120), 0b01)


def test_a_group_of_nodes_that_serve_others_is_refused() -> None:
    """From 1.32 on; what 1.26 does with it is not modelled."""
    for release in ("1.26", "1.36"):
        made = manager(100, 100, release=release)
        take(made, pod("a", 10), 0b01)
        expected = NotModelled if release == "1.26" else MemoryManagerError
        with pytest.raises(expected, match="NUMA node"):
            take(made, pod("b", 20), 0b11, preferred=False)


def test_init_memory_is_used_again_and_counts_for_its_new_owner() -> None:
    made = manager(100)
    init, side = container("init", 60, kind=Kind.INIT), container("s", 30, kind=Kind.SIDECAR)
    take(made, Pod("a", (init, side, container("c", 50))), 0b1)
    uid = pod("a").uid
    sizes = {name: block.size // MIB for name, (block,) in made.state.blocks[uid].items()}
    assert sizes == {"init": 0, "s": 30, "c": 50}
    assert free(made) == [20]


def test_hints_are_made_again_for_what_is_held() -> None:
    """Of another size than requested, there is none; of a whole pod its first container's block
    counts (#141069)."""
    made = manager(100, 100)
    one, two = pod("a", 60), pod("b", 30, 30)
    take(made, one, 0b10)
    take(made, two, 0b01)
    assert hints(made, one) == ["1 preferred"]
    assert hints(made, replace(one, containers=(container("c1", 50),))) is None
    assert made.pod_hints(one) == [Hint(0b10, preferred=True)]
    assert made.pod_hints(two) is None


def test_the_policy_takes_any_hint_without_nodes() -> None:
    made = manager(10, 100)
    made.allocate(pod("a", 60), pod("a", 60).containers[0], Hint(ANY, preferred=True))
    assert free(made) == [10, 40]


def test_too_many_nodes_are_not_modelled() -> None:
    """It says so before it sums up 2^48 sets of them."""
    with pytest.raises(NotModelled, match="memory hints on 48 NUMA nodes"):
        hints(manager(*[1] * 48), pod("a", 1))


def test_removing_twice_changes_nothing() -> None:
    state = State({})
    state.remove("nobody", "c")
    assert state == State({})


def taken(blocks: dict[str, Block]) -> State:
    """What a kubelet keeps that handed these blocks out in this order."""
    state = default_machine_state(dict.fromkeys((0, 1), 100), {})
    for name, block in blocks.items():
        state.take(block.nodes, block.size)
        state.set("a", name, (block,))
    return state


FRESH = default_machine_state(dict.fromkeys((0, 1), 100), {})


@pytest.mark.parametrize("release", ["1.26", "1.36"])
def test_a_kubelet_starts_over_what_its_blocks_explain(release: str) -> None:
    kept = taken({"x": Block(0b11, 120), "y": Block(0b11, 0)})
    validate(kept, FRESH, release=release)
    kept.machine[1].assignments += 1
    with pytest.raises(StateError, match="the expected machine state is different"):
        validate(kept, FRESH, release=release)


def test_what_was_given_back_may_lie_otherwise_in_a_group() -> None:
    """1.26 looks at each NUMA node, and does not start (kubernetes/kubernetes#113130)."""
    kept = taken({"x": Block(0b11, 50), "y": Block(0b11, 120)})
    kept.remove("a", "x")
    kept.take(0b11, 30)
    kept.set("a", "z", (Block(0b11, 30),))
    validate(kept, FRESH, release="1.36")
    first, second = (kept.machine[node].tables[MEMORY] for node in (0, 1))
    first.free, second.free = second.free, first.free
    first.reserved, second.reserved = 50, 100
    validate(kept, FRESH, release="1.36")
    with pytest.raises(NotModelled, match="memory of a group"):
        validate(kept, FRESH, release="1.30")
    with pytest.raises(StateError):
        validate(kept, FRESH, release="1.26")


def test_blocks_of_overlapping_numa_nodes_are_read_in_an_order_that_go_chooses() -> None:
    """Seen on 1.36.4: an init container's on two NUMA nodes, and an app's on one of them."""
    kept = taken({"init": Block(0b11, 10), "app": Block(0b10, 10)})
    with pytest.raises(NotModelled, match="whether the kubelet starts"):
        validate(kept, FRESH, release="1.36")
    kept.machine[0].tables[MEMORY].free += 1
    with pytest.raises(StateError):
        validate(kept, FRESH, release="1.36")
    many = taken({f"c{at}": Block(0b10 | at % 2, 1) for at in range(7)})
    with pytest.raises(NotModelled, match="the order of 7 memory blocks"):
        validate(many, FRESH, release="1.36")


# ---- a whole node --------------------------------------------------------------------------------

CONFIG = KubeletConfig(
    reserved_system_cpus=CPUSet([0]),
    topology_manager_policy="single-numa-node",
    memory_manager_policy="Static",
    reserved_memory={0: "1Mi", 1: "1Mi"},
)


node = partial(nodes.booted, config=CONFIG, machine="2s-2n-16c-smt2-128mib")


NONE = replace(CONFIG, memory_manager_policy="None")


@pytest.mark.parametrize(("before", "after"), [(NONE, CONFIG), (CONFIG, NONE)])
def test_a_kubelet_does_not_start_over_the_memory_file_of_another_policy(
    before: KubeletConfig, after: KubeletConfig
) -> None:
    """Seen on 1.26.15, 1.32.2, 1.36.4 and 1.37.0."""
    view = nodes.do(node(config=before), Stop(), Configure(after), Start())
    policies = f'"{after.memory_manager_policy}" differs from state checkpoint policy'
    assert f"configured policy {policies}" in view.error
    assert view.error.endswith(
        f'"{before.memory_manager_policy}", please drain this node and delete the memory manager '
        'checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
    )


@pytest.mark.parametrize(
    "step",
    [
        Reboot("2s-2n-16c-smt2-256mib"),
        Configure(replace(CONFIG, reserved_memory={0: "2Mi", 1: "1Mi"})),
    ],
    ids=["more memory", "another reservation"],
)
def test_a_kubelet_does_not_start_over_memory_of_another_machine(step: Step) -> None:
    """Though no pod has any (seen on 1.26.15, 1.32.2, 1.36.4 and 1.37.0; #131253)."""
    made = node(Stop(), step, Start())
    assert not made.view().running
    assert "the expected machine state is different from the real one" in made.view().error


def test_the_cpu_manager_has_written_its_file_when_the_memory_manager_refuses() -> None:
    """Seen on 1.36.4."""
    made = node(Stop(), RemoveState(), Reboot("2s-2n-16c-smt2-256mib"), Start())
    assert "start memory manager error" in made.view().error
    assert made.view().shared_pool == CPUSet.parse("0-31")


@pytest.mark.parametrize(
    ("config", "release", "text"),
    [
        (replace(CONFIG, memory_manager_policy="BestEffort"), "1.36",
         "memory manager policy BestEffort"),
        (replace(CONFIG, reserved_memory={}), "1.36", "Static without reserved memory"),
        (CONFIG, "1.25", r"the memory manager of 1\.25"),
    ],
)  # fmt: skip
def test_what_lies_outside_of_the_model(config: KubeletConfig, release: str, text: str) -> None:
    with pytest.raises(NotModelled, match=text):
        node(config=config, release=release)


def test_a_start_is_followed_by_where_memory_was_seen() -> None:
    """An init container's memory is taken once more, so it matters which pod comes first, though
    each has its CPUs either way."""
    config = replace(CONFIG, topology_manager_policy="none")
    first = Pod("f", (container("init", 80, kind=Kind.INIT), container("c", 10)))
    made = node(Apply(first), Stop(), Apply(pod("c", 60)), Start(), config=config)
    assert made.outcomes == 2
    before = made.view()
    asked = replace(before.asked["c"]["c1"], mems=CPUSet([0, 1]) - before.asked["c"]["c1"].mems)
    other = replace(before, asked={**before.asked, "c": {"c1": asked}})
    assert other == before
    assert made.follow(other)
    assert made.view().asked["c"]["c1"].mems == asked.mems
    assert made.follow(replace(before, asked={}))


# -- memory of a pod as a whole --------------------------------------------------------------------


def whole_pod(mib: int, *containers: Container) -> Pod:
    text = f"{mib}Mi"
    return Pod("a", containers, resources=PodResources("4", "4", text, text))


def managed(*mib: int, release: str = "1.36") -> MemoryManager:
    """With feature gate PodLevelResourceManagers."""
    state = manager(*mib).state
    state.writes_pods = True
    return MemoryManager(state, release=release, pod_managers=True)


MIXED = whole_pod(
    100,
    Container("shared-init", kind=Kind.INIT),
    container("sidecar", 20, kind=Kind.SIDECAR),
    Container("later-init", kind=Kind.INIT),
    container("init", 70, kind=Kind.INIT),
    Container("shared-sidecar", kind=Kind.SIDECAR),
    container("main", 30),
    Container("side"),
)


def test_containers_share_what_is_left_of_their_pod() -> None:
    """Shared init containers have what sidecars before them have left; the others what is left in
    the end. The pod returns its memory with its last container."""
    made = managed(128)
    made.allocate_pod(MIXED, Hint(0b1, preferred=True))
    held = {name: block.size // MIB for name, (block,) in made.state.blocks[MIXED.uid].items()}
    assert held == {
        "shared-init": 100, "sidecar": 20, "later-init": 80, "init": 70, "shared-sidecar": 50,
        "main": 30, "side": 50,
    }  # fmt: skip
    assert made.state.pods == {MIXED.uid: (Block(0b1, 100 * MIB),)}
    for one in MIXED.containers:
        assert free(made) == [28]
        made.state.remove(MIXED.uid, one.name)
    assert (free(made), made.state.pods) == ([128], {})


@pytest.mark.parametrize(
    ("containers", "text"),
    [
        ([container("main", 50), Container("side")], "leaving no memory for shared containers"),
        (
            [container("s", 50, kind=Kind.SIDECAR), Container("i", kind=Kind.INIT)],
            "pod has shared init containers but no memory available for them",
        ),
    ],
)
def test_a_pod_that_leaves_nothing_to_share_is_refused(
    containers: list[Container], text: str
) -> None:
    """Its hints say that it can be nowhere, and so does the manager, which best-effort asks."""
    made, asked = managed(128), whole_pod(50, *containers)
    assert made.pod_hints(asked) == []
    with pytest.raises(EmptyPodSharedPoolError, match=text):
        made.allocate_pod(asked, Hint(0b1, preferred=True))
    assert free(made) == [128]


@pytest.mark.parametrize(("release", "again"), [("1.36", True), ("1.37", True), ("1.38", False)])
def test_up_to_1_37_a_restart_takes_memory_of_a_pod_again(release: str, again: bool) -> None:
    """And the hints of a pod with several containers are lost."""
    made = managed(128, 128, release=release)
    asked = whole_pod(50, container("one", 30), container("two", 20))
    made.allocate_pod(asked, Hint(0b10, preferred=True))
    kept = made.state.taken_up(writes_pods=True, release=release)
    later = MemoryManager(kept, release=release, pod_managers=True)
    found = later.pod_hints(asked)
    assert (found is None) is again
    later.allocate_pod(asked, Hint(0b10, preferred=True))
    assert free(later) == [128, 28 if again else 78]
    fresh = managed(128, 128).state
    if again:
        with pytest.raises(StateError, match="the expected machine state is different"):
            validate(later.state, fresh, release=release)
    else:
        validate(later.state, fresh, release=release)


def test_up_to_1_36_a_container_that_requests_no_memory_has_to_lie_somewhere() -> None:
    asked = whole_pod(50, container("main", 50), Container("side"))
    side = asked.containers[1]
    with pytest.raises(MemoryManagerError, match="failed to get the default NUMA affinity"):
        managed(128).allocate(asked, side, None)
    made, later = managed(128, 128), managed(128, 128, release="1.37")
    made.allocate(asked, side, Hint(0b11, preferred=False))
    assert made.state.get(asked.uid, "side") == ()
    assert made.numa_nodes(asked.uid, "side") == CPUSet()
    take(made, pod("b", 10), 0b01)
    with pytest.raises(MemoryManagerError, match="violates NUMA node allocation"):
        made.allocate(replace(asked, uid="c"), side, Hint(0b11, preferred=False))
    later.allocate(asked, side, None)
    assert later.state.blocks == {}


def test_a_kubelet_without_the_gate_forgets_what_pods_hold_as_a_whole() -> None:
    """1.36 finds the file corrupt. Containers of one pod count each for itself then."""
    made = managed(128, release="1.37")
    asked = whole_pod(50, container("one", 30), container("two", 20))
    made.allocate_pod(asked, Hint(0b1, preferred=True))
    kept = made.state.taken_up(writes_pods=False, release="1.37")
    assert kept.pods == {}
    with pytest.raises(StateError, match="the expected machine state is different"):
        validate(kept, manager(128).state, release="1.37")
    with pytest.raises(StateError, match="checkpoint is corrupted"):
        made.state.taken_up(writes_pods=False, release="1.36")


# ---- huge pages ----------------------------------------------------------------------------------

PAGED = "2s-2n-16c-smt2-128mib-hugepages-2Mi-16"


def paged(name: str, *sizes: tuple[str, str]) -> Pod:
    """A pod of one container with these huge pages."""
    return Pod(name, (replace(container("c", 8), huge_pages=sizes),))


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ("2s-2n-16c-smt2-128mib-hugepages-2Mi-8", "the expected machine state is different"),
        ("2s-2n-16c-smt2-128mib", "uses memory resource that does not exist"),
        ("1s-1n-16c-smt2-128mib-hugepages-2Mi-16", "uses the NUMA that does not exist"),
    ],
)
def test_memory_and_huge_pages_that_are_gone_stop_a_kubelet(after: str, text: str) -> None:
    """Seen on 1.26.15, 1.32.2, 1.36.4 and 1.37.0."""
    one = nodes.booted(config=CONFIG, machine=f"{PAGED.rpartition('-')[0]}-0,16")
    config = CONFIG if after.startswith("2s") else replace(CONFIG, reserved_memory={0: "2Mi"})
    steps: list[Step] = [
        Apply(paged("a", ("2Mi", "24Mi"))),
        Stop(),
        Configure(config),
        Reboot(after),
        Start(),
    ]
    assert text in nodes.do(one, *steps).error


def test_which_of_several_blocks_is_named_is_chance() -> None:
    one = nodes.booted(config=CONFIG, machine=PAGED)
    pods = [Apply(paged(name, ("2Mi", "8Mi"))) for name in ("a", "b")]
    with pytest.raises(NotModelled, match="which of several memory blocks is named"):
        nodes.do(one, *pods, Stop(), Reboot("2s-2n-16c-smt2-128mib"), Start())


def test_a_size_that_is_missing_ends_the_kubelet_again_and_again() -> None:
    """Whatever the Topology Manager's policy. With several pods, which were admitted before it
    ended is chance."""
    for policy in ("none", "restricted"):
        config = replace(CONFIG, topology_manager_policy=policy)
        one = nodes.booted(config=config, machine=PAGED)
        for step in (Apply(paged("a", ("1Gi", "1Gi"))), Start()):
            view = nodes.do(one, step)
            assert (view.running, view.exit_status) == (False, 2)
            assert view.error.startswith("panic: runtime error: invalid memory address")
        assert nodes.do(one, Delete("a"), Start()).running
    one = nodes.booted(config=CONFIG, machine=PAGED)
    steps: list[Step] = [
        Apply(paged("b", ("2Mi", "8Mi"))),
        Apply(paged("a", ("1Gi", "1Gi"))),
        Start(),
    ]
    with pytest.raises(NotModelled, match="a panic over one of several pods"):
        nodes.do(one, *steps)


@pytest.mark.parametrize("text", ["3Mi", "0", "-2Mi", "many"])
def test_huge_pages_are_whole(text: str) -> None:
    one = nodes.booted(config=CONFIG, machine=PAGED)
    with pytest.raises(IllegalStep, match=r"container c: "):
        nodes.do(one, Apply(paged("a", ("2Mi", text))))
    with pytest.raises(IllegalStep, match=r"container c: "):
        nodes.do(one, Apply(paged("a", ("0", "2Mi"))))
    bare = Pod("b", (Container("c", huge_pages=(("2Mi", "2Mi"),)),))
    with pytest.raises(IllegalStep, match="huge pages without cpu or memory"):
        nodes.do(one, Apply(bare))


def test_huge_pages_beside_pod_level_resources_are_not_modelled() -> None:
    one = nodes.booted(config=CONFIG, machine=PAGED)
    whole = replace(paged("a", ("2Mi", "2Mi")), resources=PodResources("1", "1", "8Mi", "8Mi"))
    with pytest.raises(NotModelled, match="beside pod-level resources"):
        nodes.do(one, Apply(whole))


@pytest.mark.parametrize(("release", "shared"), [("1.36", 3), ("1.37", 2)])
def test_what_it_is_asked_for_is_counted(release: str, shared: int) -> None:
    """A refusal as a request, too; a container that holds memory each time that it is admitted. One
    that shares the memory of its pod asks for none from 1.37 on."""
    made = managed(64, release=release)
    take(made, pod("a", 32), 1)
    take(made, pod("a", 32), 1)
    assert counts(made, release=release) == {REQUESTS: 2, ERRORS: 0}
    with pytest.raises(MemoryManagerError):
        take(made, pod("b", 64), 1)
    take(made, Pod("c", (replace(container("c", 1), memory_request="512Ki"),)), 1)
    assert counts(made, release=release) == {REQUESTS: 3, ERRORS: 1}
    assert counts(made, release="1.31") == counts(None, release=release) == {}
    made = managed(64, release=release)
    parts = (container("c1", 8), Container("c2"), container("c3", 8))
    take(made, Pod("d", parts, resources=PodResources("3", "3", "32Mi", "32Mi")), 1)
    assert made.requests == shared


def test_a_pod_that_is_served_as_a_whole_is_counted_with_its_parts() -> None:
    """Once itself, and once for each init container, sidecar, and container with memory to
    itself."""
    made = managed(128)
    made.allocate_pod(MIXED, Hint(0b1, preferred=True))
    assert counts(made, release="1.36") == {REQUESTS: 7, ERRORS: 0}
