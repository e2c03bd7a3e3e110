"""Which case is tried on which mutant, with a witness that is no program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from differential.mutants.hunt import CAUGHT, OPEN, SURVIVED, UNTOLD, hunt, hunt_group, reaching
from differential.mutants.witness import CaseName, Passed, Said

FAST, SLOW = CaseName("pool/fast", "m"), CaseName("pool/slow", "m")


class Fake:
    """A witness: ``wrong`` says which mutants each case fails on, ``hangs`` where it has no
    verdict."""

    name = "fake"
    wavers = False

    def __init__(
        self,
        wrong: Mapping[CaseName, set[int]],
        hangs: Mapping[CaseName, set[int]] | None = None,
    ) -> None:
        self._wrong = wrong
        self._hangs = hangs or {}
        self.asked: list[tuple[CaseName, tuple[int, ...]]] = []

    def judge(self, case: CaseName, on: Sequence[int]) -> Said:
        self.asked.append((case, tuple(on)))
        if self._hangs.get(case, set()) & set(on):
            return Said("unknown", "no answer in 6 s")
        if self._wrong.get(case, set()) & set(on):
            return Said("fail", "a rule")
        return Said("pass", "")

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def passed(*numbers: int) -> list[Passed]:
    """Both cases, the slow one first, each reaching these mutants."""
    return [Passed(SLOW, 2.0, numbers), Passed(FAST, 0.1, numbers)]


def test_the_quickest_case_is_tried_first_and_a_failure_ends_it() -> None:
    witness = Fake({FAST: {7}, SLOW: {7}})
    outcome = hunt(7, passed(7), witness)
    assert (outcome.status, outcome.case, outcome.reason) == (CAUGHT, FAST, "a rule")
    assert witness.asked == [(FAST, (7,))]


def test_a_case_that_does_not_reach_a_mutant_is_not_tried_on_it() -> None:
    witness = Fake({FAST: {7}})
    outcome = hunt(7, [Passed(FAST, 0.1, (8,)), Passed(SLOW, 2.0, (7,))], witness)
    assert (outcome.status, outcome.tried) == (SURVIVED, 1)
    assert witness.asked == [(SLOW, (7,))]


def test_no_verdict_is_no_catch_unless_a_later_case_fails() -> None:
    untold = hunt(7, passed(7), Fake({}, hangs={FAST: {7}}))
    assert (untold.status, untold.case) == (UNTOLD, FAST)
    assert untold.reason == "no answer in 6 s"
    caught = hunt(7, passed(7), Fake({SLOW: {7}}, hangs={FAST: {7}}))
    assert (caught.status, caught.case) == (CAUGHT, SLOW)


def test_a_group_is_halved_until_single_mutants_fail() -> None:
    witness = Fake({FAST: {2, 5}, SLOW: {3}})
    outcomes = hunt_group([1, 2, 3, 4, 5], passed(1, 2, 3, 4, 5), witness)
    assert {one.number: (one.status, one.case) for one in outcomes} == {
        1: (SURVIVED, None),
        2: (CAUGHT, FAST),
        3: (CAUGHT, SLOW),
        4: (SURVIVED, None),
        5: (CAUGHT, FAST),
    }
    # What was caught is off from then on.
    assert (SLOW, (1, 3, 4)) in witness.asked
    assert {one.group for one in outcomes} == {5}


def test_what_only_fails_together_is_not_caught() -> None:
    class Pair(Fake):
        def judge(self, case: CaseName, on: Sequence[int]) -> Said:
            return Said("fail", "") if {1, 2} <= set(on) else Said("pass", "")

    outcomes = hunt_group([1, 2], passed(1, 2), Pair({}))
    assert [one.status for one in outcomes] == [SURVIVED, SURVIVED]


def test_a_witness_that_wavers_is_asked_again_with_nothing_on() -> None:
    class Wavering(Fake):
        wavers = True

    sure = Wavering({FAST: {7}})
    assert hunt(7, passed(7), sure).status == CAUGHT
    assert sure.asked == [(FAST, (7,)), (FAST, ())]

    class Busy(Wavering):
        def judge(self, case: CaseName, on: Sequence[int]) -> Said:
            return Said("fail", "nothing came in 8 s") if case == FAST else Said("pass", "")

    unsure = hunt(7, passed(7), Busy({}))
    assert unsure.status == UNTOLD
    assert "with no fault on it does not pass now: nothing came" in unsure.reason


def test_what_time_did_not_allow_stays_open() -> None:
    witness = Fake({FAST: {7}})
    (outcome,) = hunt_group([7], passed(7), witness, until=0.0)
    assert (outcome.status, outcome.tried, witness.asked) == (OPEN, 0, [])


def test_only_cases_that_reach_one_of_them_are_handed_out() -> None:
    known = [Passed(FAST, 0.1, (1, 2)), Passed(SLOW, 2.0, (3,))]
    assert [each.case for each in reaching([2], known)] == [FAST]
