"""Every miniature is caught by the scenario that is bound to catch it, and for the right reason."""

from __future__ import annotations

import pytest

from conformance.catalogue import find
from conformance.judge import Case, Judgement, judge
from conformance.oracle import ModelOracle
from conformance.recording import PromisesOnly
from conformance.subject import SubjectUsageError
from conformance.subjects.miniatures import MINIATURES, miniature
from conformance.subjects.reference import ReferenceSubject
from topologies import machine

#: Each miniature with each scenario that is bound to catch it.
CATCHES = [
    pytest.param(name, scenario, id=f"{name}-{scenario}")
    for name, one in MINIATURES.items()
    for scenario in (one.caught_by, *one.also)
]


def _judged(subject: ReferenceSubject, name: str, caught_by: str, *, model: bool) -> Judgement:
    scenario = find(caught_by)
    assert scenario is not None
    release = MINIATURES[name].release
    case = Case(scenario, machine(scenario.machine or MINIATURES[name].machine))

    def oracle(*args: object, **kwargs: object) -> ModelOracle | PromisesOnly:
        if not model:
            return PromisesOnly()
        return ModelOracle(*args, release=release, **kwargs)  # type: ignore[arg-type]

    return judge(case, subject, oracle=oracle, release=release)


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
@pytest.mark.parametrize(("name", "scenario"), CATCHES)
def test_a_miniature_is_caught(name: str, scenario: str, model: bool) -> None:
    """By the model, and by the promise in words without any oracle."""
    result = _judged(miniature(name), name, scenario, model=model).result
    assert result.verdict == "fail", result.explanation
    assert result.failure is not None
    assert result.failure.differences
    assert "replay" in result.explanation


@pytest.mark.parametrize(("name", "scenario"), CATCHES)
def test_what_catches_it_passes_on_the_model(name: str, scenario: str) -> None:
    """Or it would catch everybody."""
    result = _judged(
        ReferenceSubject(release=MINIATURES[name].release), name, scenario, model=True
    ).result
    assert result.verdict == "pass", result.explanation


def test_an_unknown_miniature_is_named() -> None:
    """With those that there are."""
    with pytest.raises(SubjectUsageError, match="unknown miniature 'x': there are splits-cores"):
        miniature("x")
