"""A history is shrunk to what it takes, and none is walked twice for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from conformance.pods import best_effort, guaranteed
from hunting.exploring.drawing import drafted
from hunting.exploring.factors import PLAIN
from hunting.exploring.history import History
from hunting.exploring.shrinking import shrunk
from hunting.scope import Task
from reference import CPUSet
from reference.steps import Apply, Delete, KubeletConfig, Start, Stop

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
