"""Who holds what, as the pictures show it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from conformance.results import Holding, Result
from reports import html
from reports.holdings import Owners, Pictures, owners, pictures
from tests.reports.conftest import fakes, held


def drawn(result: Result) -> Pictures:
    found = pictures(result)
    assert found is not None
    return found


def test_what_changed_hands_is_marked_on_both_sides() -> None:
    found = drawn(fakes.result("fail"))
    assert {side: held["web/app"] for side, held in found.sides.items()} == {
        "expected": {1, 9},
        "seen": {1, 2},
    }
    assert found.marked == {2, 9}


def test_an_owner_of_one_side_alone_is_marked() -> None:
    only = fakes.failure(
        expected_holdings=held({"a/x": "1"}), seen_holdings=held({"a/y": "1", "reserved": "0"})
    )
    assert drawn(fakes.result("fail", failure=only)).marked == {0, 1}


def test_a_machine_that_the_scenario_changed_is_drawn_as_it_was_by_then() -> None:
    then = fakes.machine("grown", cpus=32)
    failure = fakes.failure(
        machine=then, expected_holdings=held({"a/b": "31"}), seen_holdings=held({"a/b": "30"})
    )
    result = fakes.result("fail", failure=failure)
    assert drawn(result).cpus == then.cpus
    assert drawn(result).marked == {30, 31}
    assert "By then the machine was grown." in html.document(fakes.run(result))


@pytest.mark.parametrize("known", ["expected", "seen"])
def test_one_side_alone_is_marked_by_what_the_differences_name(known: str) -> None:
    other = {"expected": "seen_holdings", "seen": "expected_holdings"}[known]
    found = drawn(fakes.result("fail", failure=fakes.failure(**{other: []})))
    assert [*found.sides] == [known]
    assert found.marked == {2, 9}


def test_without_holdings_there_is_nothing_to_draw() -> None:
    bare = fakes.failure(expected_holdings=[], seen_holdings=[])
    assert pictures(fakes.result("fail", failure=bare)) is None
    assert pictures(fakes.result("pass")) is None


def test_only_cpus_of_the_machine_are_held_and_repeated_owners_are_one() -> None:
    holdings = [Holding(owner="a/b", cpus=cpus) for cpus in ("0-1", "15-900", "junk")]
    assert owners(holdings, fakes.machine()) == {"a/b": {0, 1, 15}}


def test_a_picture_has_the_reservation_that_the_kubelet_had() -> None:
    """Not the one that it was given; a container keeps the CPUs that it was seen to hold."""
    failure = fakes.failure(
        expected_holdings=held({"a/c": "1", "reserved": "0,8", "shared pool": "2-7,9-15"}),
        seen_holdings=held({"a/c": "8", "reserved": "0,8", "shared pool": "1-7,9-15"}),
    )
    steps = ["configure the kubelet: policy static, reservedSystemCPUs 0,8", "start the kubelet"]

    def sides(reserved: str) -> Mapping[str, Owners]:
        evidence = f"in effect: policy static, reservedSystemCPUs {reserved}"
        return drawn(fakes.result("fail", failure=failure, steps=steps, evidence=evidence)).sides

    other = sides("1")
    assert other["expected"]["reserved"] == {0, 8}
    assert other["seen"]["reserved"] == {1}
    assert other["seen"]["shared pool"] == {0, *range(2, 8), *range(9, 16)}
    assert other["seen"]["a/c"] == {8}
    assert sides("0,8")["seen"]["reserved"] == {0, 8}
