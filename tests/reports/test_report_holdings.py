"""Who holds what, as the pictures show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.results import Holding
from reports import html
from reports.holdings import owners, pictures

if TYPE_CHECKING:
    from tests.reports.conftest import Fakes


def test_what_changed_hands_is_marked_on_both_sides(fakes: Fakes) -> None:
    drawn = pictures(fakes.result("fail"))
    assert drawn is not None
    assert list(drawn.sides) == ["expected", "seen"]
    assert drawn.sides["expected"]["web/app"] == {1, 9}
    assert drawn.sides["seen"]["web/app"] == {1, 2}
    assert drawn.marked == {2, 9}


def test_an_owner_of_one_side_alone_is_marked(fakes: Fakes) -> None:
    only = fakes.failure(
        expected_holdings=[Holding(owner="a/x", cpus="1")],
        seen_holdings=[Holding(owner="a/y", cpus="1"), Holding(owner="reserved", cpus="0")],
    )
    drawn = pictures(fakes.result("fail", failure=only))
    assert drawn is not None
    assert drawn.marked == {0, 1}


def test_a_machine_that_the_scenario_changed_is_drawn_as_it_was_by_then(fakes: Fakes) -> None:
    then = fakes.machine("grown", cpus=32)
    failure = fakes.failure(
        machine=then,
        expected_holdings=[Holding(owner="a/b", cpus="31")],
        seen_holdings=[Holding(owner="a/b", cpus="30")],
    )
    result = fakes.result("fail", failure=failure)
    drawn = pictures(result)
    assert drawn is not None
    assert drawn.cpus == then.cpus
    assert drawn.marked == {30, 31}
    assert "By then the machine was grown." in html.document(fakes.run(result))


@pytest.mark.parametrize("known", ["expected", "seen"])
def test_one_side_alone_is_marked_by_what_the_differences_name(known: str, fakes: Fakes) -> None:
    other = {"expected": "seen_holdings", "seen": "expected_holdings"}[known]
    drawn = pictures(fakes.result("fail", failure=fakes.failure(**{other: []})))
    assert drawn is not None
    assert list(drawn.sides) == [known]
    assert drawn.marked == {2, 9}


def test_without_holdings_there_is_nothing_to_draw(fakes: Fakes) -> None:
    bare = fakes.failure(expected_holdings=[], seen_holdings=[])
    assert pictures(fakes.result("fail", failure=bare)) is None
    assert pictures(fakes.result("pass")) is None


def test_only_cpus_of_the_machine_are_held_and_repeated_owners_are_one(fakes: Fakes) -> None:
    holdings = [Holding(owner="a/b", cpus=cpus) for cpus in ("0-1", "15-900", "junk")]
    assert owners(holdings, fakes.machine()) == {"a/b": {0, 1, 15}}


def test_a_picture_has_the_reservation_that_the_kubelet_had(fakes: Fakes) -> None:
    """Not the one that it was given; a container keeps the CPUs that it was seen to hold."""
    failure = fakes.failure(
        expected_holdings=[
            Holding(owner="a/c", cpus="1"),
            Holding(owner="reserved", cpus="0,8"),
            Holding(owner="shared pool", cpus="2-7,9-15"),
        ],
        seen_holdings=[
            Holding(owner="a/c", cpus="8"),
            Holding(owner="reserved", cpus="0,8"),
            Holding(owner="shared pool", cpus="1-7,9-15"),
        ],
    )
    steps = ["configure the kubelet: policy static, reservedSystemCPUs 0,8", "start the kubelet"]
    seen_settings = "in effect: policy static, reservedSystemCPUs 1"
    other = fakes.result("fail", failure=failure, steps=steps, evidence=seen_settings)
    drawn = pictures(other)
    assert drawn is not None
    assert drawn.sides["expected"]["reserved"] == {0, 8}
    assert drawn.sides["seen"]["reserved"] == {1}
    assert drawn.sides["seen"]["shared pool"] == {0, *range(2, 8), *range(9, 16)}
    assert drawn.sides["seen"]["a/c"] == {8}
    as_given = fakes.result(
        "fail", failure=failure, steps=steps, evidence=seen_settings.replace("CPUs 1", "CPUs 0,8")
    )
    drawn = pictures(as_given)
    assert drawn is not None
    assert drawn.sides["seen"]["reserved"] == {0, 8}
