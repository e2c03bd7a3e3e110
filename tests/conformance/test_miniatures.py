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
from reference.behaviours import Behaviour
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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "unknown miniature 'x': there are splits-cores"),
        ("splits-core", "unknown miniature 'splits-core': did you mean splits-cores?"),
        ("true-size", "unknown miniature 'true-size': did you mean true-sizes?"),
        ("uncore-best-fit=off", "miniature:uncore-best-fit=off: every release is so"),
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
    with pytest.raises(SubjectUsageError, match=r"release 1.36 is so anyway; 1.21 is not"):
        miniature("ordered-allocation", release="1.36")
    with pytest.raises(SubjectUsageError, match=r"release 1.36 is so anyway"):
        miniature("ordered-allocation").of("1.36")
    with pytest.raises(SubjectUsageError, match=r"the model knows 1.8 to 1.38"):
        miniature("ordered-allocation", release="1.5")


def test_no_miniature_has_the_name_of_a_behaviour() -> None:
    """Or one of them could not be had."""
    assert not set(MINIATURES) & {one.title for one in Behaviour}
