"""The drivers as subjects: the kubelet's own Go code on a node that is driven by steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

import topologies
from conformance.discovered import info_of
from conformance.kubelets.settings import settings_of
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.subject import SubjectLostError
from conformance.subjects.exec import ExecSubject, wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.node import ExecNode
from differential.exhaustive import gates
from reference import CPUSet, MachineInfo, Node, take_by_topology
from reference.steps import (
    Apply,
    AwaitReconcile,
    Delete,
    KillContainer,
    Kind,
    KubeletConfig,
    PodResources,
    RestartPolicy,
    Start,
    Step,
    Stop,
    WriteState,
)
from reference.view import Phase, PodView

RELEASES = ("1.22", "1.26", "1.32", "1.36", "1.37")
MACHINE = "2s-4n-16c-smt2"
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 16]), topology_manager_policy="best-effort")


@pytest.fixture(params=RELEASES)
def subject(
    request: pytest.FixtureRequest, driver_path: Callable[[str], Path]
) -> Iterator[ExecSubject]:
    """The driver of each release."""
    made = ExecSubject.open(str(driver_path(request.param)))
    assert made.info.release == request.param
    yield made
    made.close()


STEPS: list[Step] = [
    Start(),
    Apply(guaranteed("a", 2)),
    Apply(guaranteed("b", 3, "1500m")),
    Apply(guaranteed("whole", 8)),
    Apply(guaranteed("toomuch", 64)),
    Delete("a"),
    Apply(guaranteed_of("init", [exclusive("setup", 4, kind=Kind.INIT), exclusive("c", 2)])),
    AwaitReconcile(),
    Stop(),
    Start(),
    Delete("whole"),
    Stop(kill=True),
    WriteState("no state at all"),
    Start(),
]


def test_a_driver_is_as_the_model_of_its_release(subject: ExecSubject) -> None:
    """Every view, the state file to the byte."""
    machine = topologies.machine(MACHINE)
    node = subject.node(machine, CONFIG)
    model = Node(lambda _: machine.tree, MACHINE, CONFIG, release=subject.info.release)
    for step in STEPS:
        node.do(step)
        model.do(step)
        assert node.view() == model.view(), f"{step} on {subject.info.version}"
    assert "could not restore state from checkpoint" in node.view().error


def test_nodes_of_one_program_know_nothing_of_each_other(subject: ExecSubject) -> None:
    small, large = (topologies.machine(name) for name in ("1s-1n-4c-smt2", MACHINE))
    nodes = [subject.node(machine, CONFIG) for machine in (large, small, large)]
    for node in nodes:
        node.do(Start())
    assert [node.view().running for node in nodes] == [True, False, True], "the small has no CPU 16"
    nodes[0].do(Apply(guaranteed("a", 2)))
    assert nodes[0].view().assignments
    assert not nodes[2].view().assignments


def _node(subject: ExecSubject, *steps: Step, config: KubeletConfig = CONFIG) -> ExecNode:
    """A node after these steps."""
    node = subject.node(topologies.machine(MACHINE), config)
    for step in steps:
        node.do(step)
    return node


def _info(subject: ExecSubject, machine: str = MACHINE) -> MachineInfo:
    return info_of(topologies.machine(machine).tree, release=subject.info.release)


def _take(info: MachineInfo, *, count: int = 1, rounds: int = 1, **more: str) -> wire.Take:
    """An allocation on this machine."""
    place = wire.Take(
        machine=machine_line(info), config=settings_of(CONFIG), count=count, rounds=rounds
    )
    return msgspec.structs.replace(place, **more)


def test_hints_are_asked_for_without_a_pod(subject: ExecSubject) -> None:
    node = _node(subject, Start())
    found = node.hints(guaranteed("q", 8), "c")
    assert found is not None
    hints = found["cpu"]
    assert hints is not None
    assert hints[0] == wire.Hint(numa=[1], preferred=True)
    assert len(hints) == 14  # all sets of nodes but none, and node 0 alone, whose CPU 0 is reserved
    assert not node.view().assignments


def test_allocations_are_timed_inside_the_program(subject: ExecSubject) -> None:
    info = _info(subject)
    request = _take(info, reserved="0,16", busy="1", count=5, rounds=4)
    answer = subject.program.ask(request, wire.TakeAnswer)
    free = info.cpu_topology().cpus - CPUSet([0, 1, 16])
    taken = take_by_topology(info.cpu_topology(), free, 5, release=subject.info.release)
    assert answer.cpus == str(taken)
    assert len(answer.nanoseconds) == 4
    assert all(each > 0 for each in answer.nanoseconds)


def test_allocations_in_a_row_do_not_influence_one_another(subject: ExecSubject) -> None:
    """Every answer, refusals too, is that of a new machine, in whatever order."""
    info = _info(subject, "2s-2n-4c-smt2")
    asked = [
        (str(CPUSet.of_mask(mask)), count) for mask in range(0, 256, 3) for count in range(1, 10)
    ]
    alone = {
        (busy, count): _said(*subject.program.exchange([_take(info, busy=busy, count=count)]))
        for busy, count in asked
    }
    assert len(set(alone.values())) > 100
    for seed in range(3):
        shuffled = asked if seed == 0 else random.Random(seed).sample(asked, len(asked))
        row = [wire.Take(busy=busy, count=count, rounds=1 + seed) for busy, count in shuffled]
        _, *answers = subject.program.exchange([_take(info), *row])
        assert dict(zip(shuffled, map(_said, answers), strict=True)) == alone


def _said(answer: wire.Answer) -> str:
    assert isinstance(answer, wire.TakeAnswer)
    return answer.error or answer.panic or answer.cpus or ""


def _whole_cores(release: str) -> dict[str, object]:
    options = {"full-pcpus-only": "true"}
    return settings_of(KubeletConfig(policy_options=options, feature_gates=gates(release)))


def test_an_allocation_is_on_the_last_machine_that_was_named(subject: ExecSubject) -> None:
    """Refused or not; a node of its own, with other gates, changes nothing."""
    nowhere = wire.Take(count=1, rounds=1)
    assert "machine, config" in _said(*subject.program.exchange([nowhere]))
    whole = _whole_cores(subject.info.release)
    names = ("1s-1n-4c-smt2", "1s-1n-4c-smt1")
    first, second = (
        wire.Take(machine=machine_line(info), config=whole, count=9, rounds=1)
        for info in (_info(subject, name) for name in names)
    )
    ask = partial(wire.Take, count=1, rounds=1)
    answers = subject.program.exchange([first, ask(), second, ask(), ask(count=4)])
    assert all("SMT Alignment" in _said(one) for one in answers[:2])
    assert [_said(one) for one in answers[3:]] == ["0", "0-3"]
    _node(subject, Start())
    assert _said(*subject.program.exchange([ask(busy="0")])) == "1"
    empty = ask(machine=msgspec.Raw(b"{}"), config=whole)
    refused = {_said(one) for one in subject.program.exchange([empty, ask()])}
    assert refused == {"could not detect number of cpus"}


def test_a_panic_leaves_the_machine_that_was_named(subject: ExecSubject) -> None:
    """A machine of two physical cores and one CPU, by its own count: Go divides by zero."""
    whole = _whole_cores(subject.info.release)
    core = '{"core_id": %d, "thread_ids": [%d], "socket_id": 0}'
    cores = ", ".join(core % (one, one) for one in range(2))
    text = '{"num_cores": %d, "num_sockets": 1, "topology": [{"node_id": 0, "cores": [' + cores
    wrong, right = (msgspec.Raw((text % cpus + "]}]}").encode()) for cpus in (1, 2))
    ask = partial(wire.Take, count=1, rounds=1)
    answers = subject.program.exchange(
        [ask(machine=wrong, config=whole), ask(), ask(machine=right, config=whole), ask(count=2)]
    )
    assert [one.panic for one in answers[:2]] == ["runtime error: integer divide by zero"] * 2
    assert [_said(one) for one in answers[2:]] == ["0", "0-1"]


def test_what_cannot_be_taken_is_an_error_and_no_more(subject: ExecSubject) -> None:
    info = _info(subject)
    request = _take(info, reserved="0,16", count=99)
    with pytest.raises(SubjectLostError, match="refuses take: take: not enough cpus available"):
        subject.program.ask(request, wire.TakeAnswer)
    assert _node(subject, Start()).view().running


def test_an_ended_pod_keeps_the_class_of_its_limits_as_a_whole(driver: ExecSubject) -> None:
    config = replace(CONFIG, feature_gates={"PodLevelResources": True})
    limits = PodResources(cpu_limit="2", memory_limit="64Mi")
    made = replace(guaranteed("a", 2), resources=limits, restart_policy=RestartPolicy.NEVER)
    steps = (Start(), Apply(made), KillContainer("a", "c", exit_code=0))
    node = _node(driver, *steps, config=config)
    assert node.view().pods["a"] == PodView(Phase.ENDED, qos="Guaranteed")
    node.close()
