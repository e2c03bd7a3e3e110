"""A random walk over the node, and what holds at every place of it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import topologies
from reference import Checkpoint, CPUSet, IllegalStep, Node, NotModelled, exclusive_cpus
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
)
from reference.view import Phase

_MACHINES = {"1s-1n-4c-smt2": 8, "2s-2n-8c-smt2": 16, "2s-4n-8c-smt1": 8, "1s-2n-4c-smt4": 16}
_TREES = {name: topologies.machine(name).tree for name in _MACHINES}
_RESERVED = {"1": 1, "2": 2, "1500m": 2}

cpus = st.sampled_from(["1", "2", "3", "4", "500m", "1500m"])
guaranteed = st.builds(
    lambda cpu, kind: (cpu, cpu, "1Mi", "1Mi", kind), cpus, st.sampled_from([*Kind, Kind.APP])
)
greedy = st.builds(lambda cpu: (cpu, None, None, None, Kind.APP), cpus)


class Walk(RuleBasedStateMachine):
    """Drives a node; every pod has a name of its own."""

    @initialize(
        machine=st.sampled_from(sorted(_TREES)), reserved=st.sampled_from(sorted(_RESERVED))
    )
    def begin(self, machine: str, reserved: str) -> None:
        self.node = Node(_TREES.__getitem__, machine, KubeletConfig(system_reserved=reserved))
        self.number = 0
        self.applied: dict[str, Pod] = {}
        self.everything = CPUSet(range(_MACHINES[machine]))
        self.reserved = _RESERVED[reserved]

    def do(self, step: Step) -> None:
        before = self.node.view()
        try:
            self.node.do(step)
        except (IllegalStep, NotModelled):
            assert self.node.view() == before

    @rule(containers=st.lists(guaranteed | greedy, min_size=1, max_size=3))
    def apply(self, containers: list[tuple[str, str, str, str, Kind]]) -> None:
        self.number += 1
        parts = [Container(f"c{i}", *one) for i, one in enumerate(containers)]
        parts.sort(key=lambda one: one.kind is Kind.APP)
        pod = Pod(f"p{self.number}", (*parts, Container("last", "1", "1", "1Mi", "1Mi")))
        self.applied[pod.name] = pod
        self.do(Apply(pod))

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.applied)))
        del self.applied[name]
        self.do(Delete(name))

    @rule(step=st.sampled_from([Start(), Stop(), Reboot(), RemoveState(), AwaitReconcile()]))
    def turn(self, step: Step) -> None:
        self.do(step)

    @invariant()
    def every_cpu_has_one_place(self) -> None:
        view = self.node.view()
        if view.state_file is None:
            return
        total = view.shared_pool
        for name, named in view.assignments.items():
            kinds = (
                {one.name: one.kind for one in self.applied[name].containers}
                if (name in self.applied)
                else {}
            )
            of_pod = CPUSet()
            for container, held in named.items():
                assert held.isdisjoint(view.shared_pool)
                # Only init containers share their CPUs, and only within their pod.
                if kinds and kinds[container] is not Kind.INIT:
                    others = [
                        cpus
                        for other, cpus in named.items()
                        if other != container and kinds[other] is not Kind.INIT
                    ]
                    assert all(held.isdisjoint(cpus) for cpus in others)
                of_pod |= held
            assert of_pod.isdisjoint(total)
            total |= of_pod
        assert total == self.everything

    @invariant()
    def reserved_cpus_stay_in_the_shared_pool(self) -> None:
        view = self.node.view()
        if view.running:
            assert len(view.shared_pool) >= self.reserved

    @invariant()
    def the_file_can_be_read_and_is_canonical(self) -> None:
        text = self.node.view().state_file
        if text is not None:
            assert Checkpoint.loads(text).dumps() == text

    @invariant()
    def running_pods_have_what_they_asked_for(self) -> None:
        view = self.node.view()
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


Walk.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestWalk = Walk.TestCase
