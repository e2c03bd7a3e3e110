"""A history is shrunk to what it takes, and none is walked twice for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from conformance.discovered import topology_of
from conformance.pods import best_effort, exclusive, guaranteed
from hunting.exploring.drawing import drafted
from hunting.exploring.factors import PLAIN
from hunting.exploring.history import History
from hunting.exploring.settings import machine_of
from hunting.exploring.shrinking import shrunk
from hunting.families import DEVICE
from hunting.scope import Task
from reference import CPUSet
from reference.pods.pod import Container, Kind, Pod, RestartPolicy
from reference.pods.qos import pod_milli_cpus
from reference.steps import (
    Apply,
    Delete,
    Device,
    KubeletConfig,
    RegisterDevices,
    Start,
    Step,
    Stop,
    Tamper,
    applied,
)

RELEASE = "1.36"


class Subject:
    """A subject that differs as the first pod ends, on any machine."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def differ(self, histories: Sequence[History]) -> list[History | None]:
        walked = [(one.machine, one.config, one.steps) for one in histories]
        self.asked += map(msgspec.json.encode, walked)
        return [self._up_to_the_end(one) for one in histories]

    @staticmethod
    def _up_to_the_end(history: History) -> History | None:
        ends = [at for at, one in enumerate(history.taken) if isinstance(one, Delete)]
        if not ends:
            return None
        return msgspec.structs.replace(history, steps=history.steps[: ends[0] + 1])


def test_steps_after_the_difference_go_with_the_first_that_goes() -> None:
    task = Task(RELEASE, "1s-1n-4c-smt2", KubeletConfig(reserved_system_cpus=CPUSet([0])))
    later = [Apply(best_effort(f"s{number}")) for number in range(12)]
    first = (Start(), Apply(best_effort("b")), Apply(guaranteed("a", 2)), Delete("a"))
    subject = Subject()
    small = shrunk(History.of(task, (*first, Stop(), Start(), *later)), RELEASE, subject.differ)
    assert small.taken == (Start(), Apply(guaranteed("a", 1)), Delete("a"))
    assert len(subject.asked) == len(set(subject.asked))
    assert len(subject.asked) < 40


def test_a_row_becomes_plain_and_its_machine_small() -> None:
    row = {
        **PLAIN, "event": "delete", "apps": "3", "names": "63 characters", "scope": "pod",
        "full-pcpus-only": "on", "before": "a hole", "finally": "restart",
    }  # fmt: skip
    drawn = drafted(row, "2s-2n-8c-smt2", RELEASE)
    assert drawn is not None
    subject = Subject()
    small = shrunk(drawn.history, RELEASE, subject.differ)
    assert small.machine.startswith("1s-1n-2c-smt1")
    assert [type(one) for one in small.taken] == [Start, Apply, Delete]
    assert len(subject.asked) == len(set(subject.asked))


def _reserves_its_own(history: History) -> bool:
    """Whether CPUs are reserved, and the machine has them."""
    reserved = CPUSet.parse(history.config["reserved_system_cpus"] or "")
    cpus = topology_of(machine_of(history.machine), release=RELEASE).cpus
    return bool(reserved) and reserved <= cpus


def test_reserved_cpus_move_with_the_machine() -> None:
    """To the first core of the smallest one whose cores have two threads. It lacks CPU 8."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
    history = History.of(Task(RELEASE, "2s-2n-8c-smt2", config), (Start(),))

    def differ(histories: Sequence[History]) -> list[History | None]:
        return [one if _reserves_its_own(one) else None for one in histories]

    small = shrunk(history, RELEASE, differ)
    assert (small.machine, small.config["reserved_system_cpus"]) == ("1s-1n-4c-smt2", "0,4")


def test_pods_of_a_history_without_a_row_become_plain_and_its_machine_small() -> None:
    ends = Container(
        "a-name-that-is-long-app1", "2000m", "2000m", "512Mi", "512Mi",
        devices=((DEVICE, 1),), restarts_all_on=(42,),
    )  # fmt: skip
    sidecar = exclusive("a-name-that-is-long-side1", 1, kind=Kind.SIDECAR)
    pod = Pod("a-name-that-is-long", (sidecar, ends), restart_policy=RestartPolicy.NEVER)
    devices = RegisterDevices(DEVICE, (Device("d0", (0,)),))
    task = Task(RELEASE, "1s-2n-8c-smt4-near", KubeletConfig(reserved_system_cpus=CPUSet([0])))
    steps = (
        Start(),
        devices,
        Apply(pod),
        Tamper(pod.name, ends.name, CPUSet([0])),
        Delete(pod.name),
    )
    small = shrunk(History.of(task, steps), RELEASE, Subject().differ)
    assert small.machine == "1s-1n-2c-smt1"
    assert small.taken == (Start(), Apply(Pod("pod", (exclusive("app", 1),))), Delete("pod"))


def test_a_part_of_a_pod_that_matters_stays() -> None:
    class OfTheName(Subject):
        def differ(self, histories: Sequence[History]) -> list[History | None]:
            return [one if any(map(self._is_so, one.taken)) else None for one in histories]

        @staticmethod
        def _is_so(step: Step) -> bool:
            return any(len(one.name) > 20 and one.restart_policy is never for one in applied(step))

    never = RestartPolicy.NEVER
    containers = (replace(exclusive("a-name-of-an-app", 1), restarts_all_on=(42,)),)
    pod = Pod("a-name-that-is-long-and-stays", containers, restart_policy=never)
    task = Task(RELEASE, "2s-2n-8c-smt2", KubeletConfig(reserved_system_cpus=CPUSet([0])))
    small = shrunk(History.of(task, (Start(), Apply(pod))), RELEASE, OfTheName().differ)
    app = exclusive("app", 1)
    assert small.taken[-1] == Apply(replace(pod, containers=(app,)))


def test_a_large_pod_becomes_as_small_as_it_may_be_in_few_walks() -> None:
    class Large(Subject):
        def differ(self, histories: Sequence[History]) -> list[History | None]:
            super().differ(histories)
            return [one if any(map(self._is_large, one.taken)) else None for one in histories]

        @staticmethod
        def _is_large(step: Step) -> bool:
            return any(pod_milli_cpus(pod) >= 9000 for pod in applied(step))

    task = Task(RELEASE, "2s-4n-64c-smt2", KubeletConfig(reserved_system_cpus=CPUSet([0])))
    subject = Large()
    drawn = History.of(task, (Start(), Apply(guaranteed("pod", 100))))
    small = shrunk(drawn, RELEASE, subject.differ)
    assert small.taken[-1] == Apply(guaranteed("pod", 9))
    assert len(subject.asked) < 40
