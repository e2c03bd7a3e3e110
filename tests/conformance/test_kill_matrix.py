"""docs/tables/kill-matrix.md says what is so: every line is run again, and no miniature or
scenario is missing. The whole page is made by ``python -m differential.kill_matrix``, which takes
minutes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue
from conformance.subject import SubjectUsageError
from conformance.subjects.miniatures import MINIATURES, miniature
from differential import kill_matrix
from differential.kill_exceptions import NEVER_FAILED, UNCAUGHT
from differential.kill_matrix import Kill, Matrix
from reference.behaviours import Behaviour
from reference.releases import ANNOUNCED
from tests.conformance.judging import judged, scenario_of

PAGE: Final = Path(__file__).parents[2] / "docs/tables/kill-matrix.md"


@cache
def found() -> Matrix:
    return kill_matrix.read(PAGE.read_text(encoding="utf-8"))


def _rows() -> list[tuple[str, Kill]]:
    """What the page has catch each miniature; and the other scenarios that are bound to catch one
    that is made by hand."""
    also = [
        (name, Kill(scenario, scenario_of(scenario).machine or one.machine, alone=True))
        for name, one in MINIATURES.items()
        for scenario in one.also
    ]
    return [*kill_matrix.catching(found()).items(), *also]


@pytest.mark.parametrize(
    ("name", "kill"), _rows(), ids=lambda one: one.scenario if isinstance(one, Kill) else one
)
def test_a_miniature_is_caught_as_the_page_says(name: str, kill: Kill) -> None:
    """With differences, by the model, and by the promise alone where there is no mark."""
    scenario = scenario_of(kill.scenario)
    for model in (True, False) if kill.alone else (True,):
        result = kill_matrix.judged(name, scenario, kill.machine, model=model)
        assert result.verdict == "fail", result.explanation
        assert result.failure is not None
        assert result.failure.differences
        assert "replay" in result.explanation


@pytest.mark.parametrize("scenario", sorted({kill.scenario for _, kill in _rows()}))
def test_what_catches_a_miniature_passes_on_the_model(scenario: str) -> None:
    """In each release in which it catches one; or it would accuse every kubelet."""
    for release, place in {
        (kill_matrix.release_of(name), kill.machine)
        for name, kill in _rows()
        if kill.scenario == scenario
    }:
        result = judged(scenario, place, release=release)
        assert result.verdict == "pass", result.explanation


def test_the_page_is_whole() -> None:
    """It is what the module makes of its own tables, in which no miniature and no scenario that
    there is may be missing."""
    assert kill_matrix.page(found()) == PAGE.read_text(encoding="utf-8")


def test_a_scenario_is_added_without_running_the_others() -> None:
    """One that names causes: another scenario may name them while it is missing."""
    scenario = "state/wrong-checksum-is-refused"
    without = {
        name: tuple(kill for kill in kills if kill.scenario != scenario)
        for name, kills in found().items()
    }
    assert kill_matrix.page(kill_matrix.extended(without, scenario_of(scenario))) == PAGE.read_text(
        encoding="utf-8"
    )


def test_names_of_both_kinds_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of a page that is current changes nothing."""
    page = tmp_path / "page.md"
    page.write_bytes(PAGE.read_bytes())
    monkeypatch.setattr(kill_matrix, "PAGE", page)
    kill_matrix.main(["splits-cores", "pool/shrinks-and-grows"])
    assert page.read_bytes() == PAGE.read_bytes()
    with pytest.raises(SystemExit, match="nothing: not a scenario, and not a miniature"):
        kill_matrix.main(["nothing"])


def test_every_miniature_by_hand_is_caught_by_the_promise_alone() -> None:
    """By the scenario that it is bound to, which names the cause."""
    best = kill_matrix.catching(found())
    assert {name: best[name].scenario for name in MINIATURES} == {
        name: one.caught_by for name, one in MINIATURES.items()
    }
    assert all(best[name].alone for name in MINIATURES)


def test_a_miniature_without_a_reason_is_refused() -> None:
    """And so is a reason that is not needed."""
    uncaught = next(iter(next(iter(UNCAUGHT.values()))))
    lost = {**found(), "splits-cores": ()}
    with pytest.raises(ValueError, match=r"miniatures without a reason: splits-cores; .* none"):
        kill_matrix.page(lost)
    kill = Kill(catalogue()[0].id, "1s-1n-4c-smt2", alone=True)
    with pytest.raises(ValueError, match=f"without a reason: none; .* {uncaught}$"):
        kill_matrix.page({**found(), uncaught: (kill,)})


def test_only_real_nodes_have_scenarios_that_never_failed() -> None:
    """Everything that the model can do, some miniature does wrong; miniatures are of releases."""
    scenarios = [scenario_of(name) for names in NEVER_FAILED.values() for name in names]
    assert {one.area for one in scenarios if not one.of_fork} == {"node"}


# -- how miniatures are named and made -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "unknown miniature 'x': there are splits-cores"),
        ("splits-core", "unknown miniature 'splits-core': did you mean splits-cores?"),
        ("true-size", "unknown miniature 'true-size': did you mean true-sizes?"),
        ("uncore-best-fit=off", "miniature:uncore-best-fit=off: every release does that already"),
        ("true-sizes=yes", "unknown miniature 'true-sizes=yes'"),
    ],
)
def test_an_unknown_miniature_is_named(name: str, said: str) -> None:
    """With those that there are, or the one that was meant."""
    with pytest.raises(SubjectUsageError) as caught:
        miniature(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("true-sizes", "1.37"),
        ("true-sizes=on", "1.37"),
        ("ordered-allocation", "1.21"),
        ("ordered-allocation=off", "1.22"),
        ("sockets-counted-by-id", "1.20.4"),
        ("bad-state-panics", "1.9"),
        ("state-file-created-empty", "1.8"),
    ],
)
def test_a_behaviour_switched_is_a_miniature_of_a_release_that_differs(
    name: str, release: str
) -> None:
    """Judged by the plain release, without the switch."""
    subject = miniature(name)
    assert subject.info.release == release
    assert subject.info.name == f"miniature:{name}"


def test_a_switch_that_changes_nothing_in_a_release_is_refused() -> None:
    """It would pass everything."""
    with pytest.raises(SubjectUsageError, match=r"release 1.36 does that already; 1.21 does not"):
        miniature("ordered-allocation", release="1.36")
    with pytest.raises(SubjectUsageError, match=r"release 1.36 does that already"):
        miniature("ordered-allocation").of("1.36")
    with pytest.raises(SubjectUsageError, match=rf"the model knows 1.8 to 1.{ANNOUNCED}"):
        miniature("ordered-allocation", release="1.5")


def test_no_miniature_has_the_name_of_a_behaviour() -> None:
    """Or one of them could not be had."""
    assert not set(MINIATURES) & {one.title for one in Behaviour}
