"""Each find that is told in docs/tables/hunt-finds.md, on the model; and docs/tables/blind-hunt.md:
which defects of the past are found without knowledge of any."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.subjects.reference import ModelNode
from differential import blind_hunt
from differential.hunt_finds import finds, page
from hunting import confirming
from hunting.confirming import confirmed
from hunting.defects import defect_of
from hunting.finds import Find
from hunting.replaying import replayed
from reference.steps import Start, Step
from tests.conformance.doctored import Doctored

_TABLES = Path(__file__).parents[2] / "docs/tables"


@pytest.mark.parametrize("find", finds(), ids=lambda find: find.key)
def test_the_model_breaks_the_promise_in_the_same_way(find: Find) -> None:
    """And for the same known defect, if for any."""
    broken = replayed(find.task, find.history, find.promise)
    assert broken is not None
    difference = broken.violation.difference
    assert (broken.violation.rule, difference.what, difference.expected, difference.seen) == (
        find.rule,
        find.what,
        find.expected,
        find.seen,
    )
    defect = defect_of(broken)
    assert (defect.number if defect else 0) == find.issue


def test_each_was_shown_on_a_real_kubelet() -> None:
    """Or it would be a fault of the model."""
    assert all(any(find.confirmed.values()) for find in finds())


class _Turning(Doctored):
    """The model of 1.37, whose starts take the likeliest order of the pods the first
    ``likely`` times, and another one from then on."""

    def __init__(self, likely: int) -> None:
        super().__init__(lambda node, *_: _Turned(node, self), release="1.37")
        self.starts = likely


class _Turned(ModelNode):
    def __init__(self, node: ModelNode, subject: _Turning) -> None:
        super().__init__(node._node)
        self._subject = subject

    def do(self, step: Step) -> None:
        super().do(step)
        branches = self._node._branches
        if isinstance(step, Start) and len(branches) > 1:
            self._subject.starts -= 1
            if self._subject.starts < 0:
                self._node._take(branches[1])


@pytest.mark.parametrize(("likely", "shown"), [(0, True), (20, True), (35, False)])
def test_a_find_of_chance_is_tried_until_chance_is_no_excuse(likely: int, shown: bool) -> None:
    """One of 8 starts takes the other of two pods first, so 35 tries are made."""
    (find,) = (one for one in finds() if confirming._is_chance(one))
    assert (confirmed(find, [_Turning(likely)]) is not None) is shown


def test_a_find_without_chance_is_tried_once() -> None:
    """A kubelet that keeps the promise keeps it each time."""
    (find,) = (one for one in finds() if one.issue == 129078 and len(one.cast) == 1)
    subject = _Turning(0)
    assert confirmed(find, [subject]) is None
    assert subject.starts == 0  # no start was up to chance


def test_the_page_is_what_its_command_writes() -> None:
    """Every story is walked again."""
    text = page()
    assert (_TABLES / "hunt-finds.md").read_text() == text
    assert "Shared pool ``" not in text
    assert "The shared pool has no CPU." in text


def test_each_of_71_defects_is_searched_or_has_a_reason() -> None:
    """And only one of the two."""
    every = blind_hunt.bugs()
    assert len(every) == 71
    assert all(bool(one.search) != bool(one.beyond) for one in every)


def test_the_page_of_the_blind_hunt_is_what_its_command_writes() -> None:
    """Every search is done again, and finds its defect in a release that had it."""
    text = blind_hunt.page()
    assert (_TABLES / "blind-hunt.md").read_text() == text
    assert "not found in this scope" not in text
