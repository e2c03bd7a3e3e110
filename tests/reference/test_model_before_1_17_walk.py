"""A random walk over nodes of 1.9 to 1.17, and what holds at every place of it."""

from __future__ import annotations

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import topologies
from reference import Checkpoint, CPUSet, IllegalStep, Node, NotModelled
from reference.pods.qos import as_judged, exclusive_cpus
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

_MACHINE, _CPUS = "1s-1n-4c-smt2", CPUSet(range(8))
_TREE = topologies.machine(_MACHINE).tree

cpus = st.sampled_from(["1", "2", "3", "500m"])
guaranteed = st.builds(lambda cpu, kind: (cpu, cpu, "1Mi", "1Mi", kind), cpus, st.just(Kind.APP))
init = st.builds(lambda cpu: (cpu, cpu, "1Mi", "1Mi", Kind.INIT), cpus)
greedy = st.builds(
    lambda cpu, kind: (cpu, None, None, None, kind), cpus, st.sampled_from([Kind.INIT, Kind.APP])
)


class Walk(RuleBasedStateMachine):
    """Drives a node; every pod has a name of its own. CPU 0 is reserved."""

    @initialize(release=st.sampled_from([f"1.{minor}" for minor in range(9, 18)]))
    def begin(self, release: str) -> None:
        self.release = release
        config = KubeletConfig(system_reserved="1")
        self.node = Node(lambda name: _TREE, _MACHINE, config, release=release)
        self.number = 0
        self.applied: dict[str, Pod] = {}

    def do(self, step: Step) -> bool:
        before = self.node.view()
        try:
            self.node.do(step)
        except (IllegalStep, NotModelled):
            assert self.node.view() == before
            return False
        return True

    @rule(containers=st.lists(guaranteed | init | greedy, min_size=1, max_size=3))
    def apply(self, containers: list[tuple[str, str, str, str, Kind]]) -> None:
        self.number += 1
        ordered = sorted(containers, key=lambda one: one[4] is Kind.APP)
        made = tuple(Container(f"c{i}", *one) for i, one in enumerate(ordered))
        pod = Pod(f"p{self.number}", made)
        if self.do(Apply(pod)):
            self.applied[pod.name] = pod

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.applied)))
        if self.do(Delete(name)):
            del self.applied[name]

    @rule(kill=st.booleans())
    def stop(self, kill: bool) -> None:
        self.do(Stop(kill))

    @rule()
    def start(self) -> None:
        self.do(Start())

    @rule(step=st.sampled_from([Reboot(), RemoveState(), AwaitReconcile()]))
    def other(self, step: Step) -> None:
        self.do(step)

    @precondition(lambda self: self.node.view().running)
    @rule(data=st.data())
    def tamper(self, data: st.DataObject) -> None:
        running = [(p, c) for p, named in self.node.view().cpusets.items() for c in named]
        if running:
            self.do(Tamper(*data.draw(st.sampled_from(running)), CPUSet([7])))
            self.do(AwaitReconcile())

    @invariant()
    def every_cpu_is_somebodys_and_nobody_elses(self) -> None:
        view = self.node.view()
        if not view.running:
            return
        sets = [view.shared_pool, *(s for held in view.assignments.values() for s in held.values())]
        assert all(one.isdisjoint(other) for one, other in combinations(sets, 2))
        assert CPUSet(cpu for one in sets for cpu in one) == _CPUS
        assert 0 in view.shared_pool

    @invariant()
    def containers_hold_what_they_ask_for_and_run_on_it(self) -> None:
        view = self.node.view()
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

    @invariant()
    def the_file_is_what_the_release_reads(self) -> None:
        view = self.node.view()
        if view.running:
            read = Checkpoint.loads(view.state_file or "", release=self.release)
            assert read.default_cpuset == view.shared_pool
            assert read.dumps(release=self.release) == view.state_file


Walk.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_walk = Walk.TestCase
