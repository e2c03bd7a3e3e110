"""Verdicts follow from what a result stream keeps of a real node, and forged ones do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from conformance.observations import views
from conformance.rejudging import rejudged
from conformance.results import Observations, Result, ResultsError, read, written
from reference import CPUSet
from tests.hil.test_subject_scenarios import ModelMember, run, stream

SCENARIO: Final = "pool/shrinks-and-grows"
Edit = Callable[[Result], Result]


def judged(**wrong: Any) -> tuple[Result, ModelMember]:
    session = ModelMember(**wrong)
    return run(SCENARIO, session), session


@pytest.fixture(scope="module")
def kept() -> tuple[Result, ModelMember]:
    """A promise that a node like the model kept."""
    result, session = judged()
    assert result.verdict == "pass", result.explanation
    return result, session


def with_sightings(result: Result, edit: Callable[[list[Any]], object]) -> Result:
    observed = msgspec.to_builtins(result.observed)
    edit(observed["sightings"])
    return replace(result, observed=msgspec.convert(observed, Observations))


def with_another_pool(sightings: list[Any]) -> None:
    last = [one for one in sightings if "shared_pool" in one["seen"]][-1]
    last["seen"]["shared_pool"] = "0"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda one: replace(one, verdict="fail", reason="CPUs were lost"),
            "what was seen gives pass, and the result says fail",
        ),
        (lambda one: replace(one, observed=None), "it has no observations"),
        (
            lambda one: replace(one, steps=[*one.steps, "start the kubelet"]),
            "its steps are not those of its scenario",
        ),
        (
            lambda one: with_sightings(one, list.pop),
            "where the result has no further step), and the result says pass",
        ),
        (lambda one: with_sightings(one, with_another_pool), "fail ("),
        (
            lambda one: with_sightings(
                one, lambda all_: all_[0]["seen"].update(shared_pool="zero")
            ),
            "its observations cannot be read: ",
        ),
    ],
    ids=["verdict", "no observations", "another step", "a sighting less", "pool", "no cpuset"],
)
def test_a_forged_result_is_found(
    edit: Edit, says: str, kept: tuple[Result, ModelMember], tmp_path: Path
) -> None:
    result, session = kept
    (sound,) = rejudged(stream(result, session, tmp_path))
    assert (sound.scenario, sound.wrong) == (SCENARIO, "")
    (found,) = rejudged(stream(edit(result), session, tmp_path))
    assert says in found.wrong


def test_a_broken_promise_that_is_called_kept_is_found(tmp_path: Path) -> None:
    result, session = judged(tamper_after=CPUSet([1, 2, 3]))
    assert result.verdict == "fail"
    assert "cpuset" in result.explanation
    (sound,) = rejudged(stream(result, session, tmp_path))
    assert not sound.wrong
    called_kept = replace(result, verdict="pass", reason="", failure=None)
    (found,) = rejudged(stream(called_kept, session, tmp_path))
    assert f"gives fail ({result.reason})" in found.wrong


def test_every_step_says_when_and_of_what_it_was_seen(kept: tuple[Result, ModelMember]) -> None:
    """What is as it was at the step before is not said again."""
    result, _ = kept
    assert result.observed is not None
    sightings = result.observed.sightings
    times = [one.at for one in sightings]
    assert times == sorted(times)
    assert all(one.endswith("+00:00") for one in times)
    assert sightings[0].seen["online"] == "0-15"
    assert sightings[0].seen["state_file_digest"].startswith("sha256:")
    assert all("online" not in one.seen for one in sightings[1:])
    containers = {name: both for one in sightings for name, both in _containers(one.seen)}
    assert containers
    assert all(path.startswith("/kubepods/pod") and id_ for id_, path in containers.values())
    assert [step for step, _ in views(result.observed)] == [one.step for one in sightings]


def _containers(seen: dict[str, Any]) -> Any:
    return seen.get("containers", {}).items()


def test_a_stream_brings_the_observations_back(
    kept: tuple[Result, ModelMember], tmp_path: Path
) -> None:
    """Also of a scenario's second pass, which has no steps on a machine that is no node."""
    result, session = kept
    header, first, footer = read(stream(result, session, tmp_path))
    assert isinstance(first, Result)
    (tmp_path / "twice.jsonl").write_text(written((header, first, first, footer)))
    again = [one for one in read(tmp_path / "twice.jsonl") if isinstance(one, Result)]
    assert [one.observed for one in again] == [result.observed] * 2


@pytest.mark.parametrize("tree", ["", "AAAA", "no base64!"])
def test_a_tree_that_cannot_be_read_is_one_line(
    tree: str, kept: tuple[Result, ModelMember], tmp_path: Path
) -> None:
    result, session = kept
    path = stream(result, session, tmp_path)
    lines = path.read_text().splitlines()
    changed = json.loads(lines[0])
    changed["nodes"]["fake"]["tree"] = tree
    path.write_text("\n".join([json.dumps(changed), *lines[1:], ""]))
    with pytest.raises(ResultsError, match=r"^the tree of fake cannot be read: [^\n]+$"):
        list(rejudged(path))
