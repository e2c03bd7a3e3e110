"""docs/tables/kill-matrix.md says what is so: every line is run again, and no miniature or
scenario is missing. The whole page is made by ``python -m differential.kill_matrix``, which takes
minutes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue, find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.subjects.miniatures import MINIATURES
from conformance.subjects.reference import ReferenceSubject
from differential import kill_matrix
from differential.kill_exceptions import NEVER_FAILED, UNCAUGHT
from differential.kill_matrix import Kill, Matrix
from topologies import machine

PAGE: Final = Path(__file__).parents[2] / "docs/tables/kill-matrix.md"


@cache
def found() -> Matrix:
    return kill_matrix.read(PAGE.read_text(encoding="utf-8"))


def _rows() -> list[tuple[str, Kill]]:
    return list(kill_matrix.catching(found()).items())


def _judged(name: str, kill: Kill, *, model: bool) -> Result:
    scenario = find(kill.scenario)
    assert scenario is not None
    return kill_matrix.judged(name, scenario, kill.machine, model=model)


@pytest.mark.parametrize(("name", "kill"), _rows(), ids=lambda one: str(one).split(" ")[0])
def test_a_miniature_is_caught_as_the_page_says(name: str, kill: Kill) -> None:
    """With differences, by the model, and by the promise alone where there is no mark."""
    for model in (True, False) if kill.alone else (True,):
        result = _judged(name, kill, model=model)
        assert result.verdict == "fail", result.explanation
        assert result.failure is not None
        assert result.failure.differences


@pytest.mark.parametrize("scenario", sorted({kill.scenario for _, kill in _rows()}))
def test_what_catches_a_miniature_passes_on_the_model(scenario: str) -> None:
    """In each release in which the page has it catch one; or it would accuse every kubelet."""
    one = find(scenario)
    assert one is not None
    cases = {
        (kill_matrix.release_of(name), kill.machine)
        for name, kill in _rows()
        if kill.scenario == scenario
    }
    for release, place in cases:

        def oracle(*args: object, release: str = release, **kwargs: object) -> ModelOracle:
            return ModelOracle(*args, release=release, **kwargs)  # type: ignore[arg-type]

        subject = ReferenceSubject(release=release)
        result = judge(Case(one, machine(place)), subject, oracle=oracle, release=release).result
        assert result.verdict == "pass", result.explanation


def test_the_page_is_whole() -> None:
    """It is what the module makes of its own tables, in which no miniature and no scenario that
    there is may be missing."""
    assert kill_matrix.page(found()) == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "scenario", ["pool/deletion-returns-cpus", "state/wrong-checksum-is-refused"]
)
def test_a_scenario_is_added_without_running_the_others(scenario: str) -> None:
    """Also one that names causes: another scenario may name them while it is missing."""
    one = find(scenario)
    assert one is not None
    without = {
        name: tuple(kill for kill in kills if kill.scenario != scenario)
        for name, kills in found().items()
    }
    assert kill_matrix.page(kill_matrix.extended(without, one)) == PAGE.read_text(encoding="utf-8")


def test_names_of_both_kinds_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of a page that is current changes nothing."""
    page = tmp_path / "page.md"
    page.write_bytes(PAGE.read_bytes())
    monkeypatch.setattr(kill_matrix, "PAGE", page)
    kill_matrix.main(["splits-cores", "pool/shrinks-and-grows"])
    assert page.read_bytes() == PAGE.read_bytes()
    with pytest.raises(SystemExit, match="no scenario and no miniature nothing"):
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
    """Everything that the model can do, some miniature does wrong."""
    names = [name for names in NEVER_FAILED.values() for name in names]
    assert {name.partition("/")[0] for name in names} == {"node"}
