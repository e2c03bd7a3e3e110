"""Random walks over the node, and what holds at every place of them."""

from __future__ import annotations

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference import Checkpoint, CPUSet, IllegalStep, Node, NotModelled, exclusive_cpus
from reference.pods.qos import as_judged
from reference.releases import NEWEST
from reference.steps import (
    Apply,
    AwaitReconcile,
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
    Tamper,
)
from reference.view import Phase
from tests.reference.nodes import EIGHT, tree

#: What a container is made of, after its name.
Part = tuple[str, str | None, str | None, str | None, Kind]

ONE_CPU: Part = ("1", "1", "1Mi", "1Mi", Kind.APP)


MACHINES = {EIGHT: 8, "2s-2n-8c-smt2": 16, "2s-4n-8c-smt1": 8, "1s-2n-4c-smt4": 16}
RESERVED = {"1": 1, "2": 2, "1500m": 2}
CPUS = st.sampled_from(["1", "2", "3", "4", "500m", "1500m"])
FEWER_CPUS = st.sampled_from(["1", "2", "3", "500m"])


def guaranteed(cpus: st.SearchStrategy[str], *kinds: Kind) -> st.SearchStrategy[Part]:
    kind = st.sampled_from(kinds)
    return st.builds(lambda cpu, kind: (cpu, cpu, "1Mi", "1Mi", kind), cpus, kind)


def greedy(cpus: st.SearchStrategy[str], *kinds: Kind) -> st.SearchStrategy[Part]:
    kind = st.sampled_from(kinds)
    return st.builds(lambda cpu, kind: (cpu, None, None, None, kind), cpus, kind)


class Walk(RuleBasedStateMachine):
    """Drives a node; every pod has a name of its own."""

    def begin_on(self, machine: str, reserved: str, release: str) -> None:
        config = KubeletConfig(system_reserved=reserved)
        self.node = Node(tree, machine, config, release=release)
        self.view = self.node.view()
        self.release = release
        self.number = 0
        self.applied: dict[str, Pod] = {}

    def do(self, step: Step) -> bool:
        """Whether it could be taken; else nothing has changed."""
        before = self.view
        taken = True
        try:
            self.node.do(step)
        except (IllegalStep, NotModelled):
            taken = False
        self.view = self.node.view()
        assert taken or self.view == before
        return taken

    def apply_of(self, parts: list[Part]) -> None:
        self.number += 1
        ordered = sorted(parts, key=lambda part: part[4] is Kind.APP)
        containers = tuple(Container(f"c{at}", *part) for at, part in enumerate(ordered))
        pod = Pod(f"p{self.number}", containers)
        if self.do(Apply(pod)):
            self.applied[pod.name] = pod

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.applied)))
        if self.do(Delete(name)):
            del self.applied[name]

    @rule(step=st.sampled_from([Start(), Stop(), Stop(kill=True), Reboot(), RemoveState()]))
    def turn(self, step: Step) -> None:
        self.do(step)

    @rule()
    def wait(self) -> None:
        self.do(AwaitReconcile())

    @invariant()
    def the_file_is_what_the_release_reads_and_writes(self) -> None:
        view = self.view
        if view.running:
            read = Checkpoint.loads(view.state_file or "", release=self.release)
            assert read.default_cpuset == view.shared_pool
            assert read.dumps(release=self.release) == view.state_file


class NewestWalk(Walk):
    """Over nodes of the newest release."""

    parts = guaranteed(CPUS, *Kind, Kind.APP) | greedy(CPUS, Kind.APP)

    @initialize(machine=st.sampled_from(sorted(MACHINES)), reserved=st.sampled_from([*RESERVED]))
    def begin(self, machine: str, reserved: str) -> None:
        self.begin_on(machine, reserved, NEWEST)
        self.everything = CPUSet(range(MACHINES[machine]))
        self.reserved = RESERVED[reserved]

    @rule(parts=st.lists(parts, min_size=1, max_size=3))
    def apply(self, parts: list[Part]) -> None:
        self.apply_of([*parts, ONE_CPU])

    @invariant()
    def every_cpu_has_one_place(self) -> None:
        view = self.view
        if view.state_file is None:
            return
        total = view.shared_pool
        for name, held in view.assignments.items():
            pod = self.applied.get(name)
            # Only init containers share their CPUs, and only within their pod.
            kept = {one.name for one in pod.containers if one.kind is not Kind.INIT} if pod else ()
            lasting = [cpus for container, cpus in held.items() if container in kept]
            assert all(one.isdisjoint(other) for one, other in combinations(lasting, 2))
            of_pod = CPUSet(cpu for cpus in held.values() for cpu in cpus)
            assert of_pod.isdisjoint(total)
            total |= of_pod
        assert total == self.everything

    @invariant()
    def reserved_cpus_stay_in_the_shared_pool(self) -> None:
        view = self.view
        if view.running:
            assert len(view.shared_pool) >= self.reserved

    @invariant()
    def running_pods_have_what_they_asked_for(self) -> None:
        view = self.view
        for name, seen in view.pods.items():
            pod = self.applied[name]
            if seen.phase is Phase.REJECTED:
                assert name not in view.assignments
                assert name not in view.cpusets
                continue
            for container in pod.containers:
                held = view.assignments.get(name, {}).get(container.name)
                assert len(held or ()) == exclusive_cpus(pod, container)
                if container.kind is not Kind.INIT:
                    wanted = view.shared_pool if held is None else held
                    assert view.cpusets[name][container.name] == wanted


class OldWalk(Walk):
    """Over nodes of 1.9 to 1.17. CPU 0 is reserved."""

    parts = guaranteed(FEWER_CPUS, Kind.APP, Kind.INIT) | greedy(FEWER_CPUS, Kind.INIT, Kind.APP)

    @initialize(release=st.sampled_from([f"1.{minor}" for minor in range(9, 18)]))
    def begin(self, release: str) -> None:
        self.begin_on(EIGHT, "1", release)

    @rule(parts=st.lists(parts, min_size=1, max_size=3))
    def apply(self, parts: list[Part]) -> None:
        self.apply_of(parts)

    @precondition(lambda self: self.view.running)
    @rule(data=st.data())
    def tamper(self, data: st.DataObject) -> None:
        running = [(p, c) for p, named in self.view.cpusets.items() for c in named]
        if running:
            self.do(Tamper(*data.draw(st.sampled_from(running)), CPUSet([7])))
            self.do(AwaitReconcile())

    @invariant()
    def every_cpu_is_somebodys_and_nobody_elses(self) -> None:
        view = self.view
        if not view.running:
            return
        sets = [view.shared_pool, *(s for held in view.assignments.values() for s in held.values())]
        assert all(one.isdisjoint(other) for one, other in combinations(sets, 2))
        assert CPUSet(cpu for one in sets for cpu in one) == CPUSet(range(8))
        assert 0 in view.shared_pool

    @invariant()
    def containers_hold_what_they_ask_for_and_run_on_it(self) -> None:
        view = self.view
        for name, boxes in view.cpusets.items():
            if not view.running or view.pods[name].phase is not Phase.RUNNING:
                continue
            pod = self.applied[name]
            judged = as_judged(pod, release=self.release)
            for container in pod.containers:
                owed = exclusive_cpus(judged, container)
                held = view.assignments.get(name, {}).get(container.name)
                assert held is None or len(held) == owed
                if container.name in boxes and (held or not owed):
                    assert boxes[container.name] == (held or view.shared_pool)


TestNewest = NewestWalk.TestCase
TestOld = OldWalk.TestCase
TestNewest.settings = TestOld.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
