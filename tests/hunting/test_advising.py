"""Which known defects show on a node: each where it shows, and not where it is mended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.catalogue import find
from conformance.recording import shipped
from hunting.advising.deciding import Shown, walked
from hunting.advising.known import KNOWN as TEXTS
from hunting.advising.known import Case, mended_in, text_of, with_texts
from hunting.defects import Defect, defect_of
from hunting.replaying import replayed
from hunting.walk import Tally
from reference.releases import LATEST, minor_of
from reference.steps import KubeletConfig

DEFECTS: Final = {one.title: one for one in with_texts()}
#: Of those that a story shows, the node.
CASES: Final = {title: one.shown for title, one in TEXTS.items() if isinstance(one.shown, Case)}
#: Of those that the stories do not show, what does.
NOT_SHOWN: Final = {title: one.shown for title, one in TEXTS.items() if isinstance(one.shown, str)}
#: These show under policy none too, because they are about devices.
WHATEVER_THE_POLICY: Final = ("a restart refuses pods with devices in init containers",)
ATLAS: Final = Path(__file__).parents[2] / "docs/tables/defects.json"


def test_every_known_defect_has_a_text_and_a_node_that_shows_it_or_a_reason() -> None:
    assert set(TEXTS) == set(DEFECTS) == {*CASES, *NOT_SHOWN}
    assert not {*CASES} & {*NOT_SHOWN}


@pytest.mark.parametrize("title", CASES)
def test_a_defect_shows_on_its_node_and_not_where_it_is_mended(title: str) -> None:
    """The release that mends it keeps the promise by the same steps; so does policy none."""
    case, defect = CASES[title], DEFECTS[title]
    own = replace(case.task, config=case.story.settings(case.task.config))
    shown = (Shown(one, defect_of(one)) for one in walked(own, case.story.levels, Tally()))
    one = next((one for one in shown if one.key == title), None)
    assert one is not None
    assert one.defect is not None
    assert one.defect.number == defect.number
    task, steps, promise = one.broken.task, one.broken.steps, one.broken.promise
    assert replayed(task, steps, promise)
    for release in mended_in(defect):
        if minor_of(release) <= LATEST:
            assert replayed(replace(task, release=release), steps, promise) is None
    none = replace(
        task, config=replace(KubeletConfig(policy="none"), api_server=task.config.api_server)
    )
    assert replayed(none, steps, promise) is None


def _scenarios() -> list[Defect]:
    return [one for one in DEFECTS.values() if text_of(one).scenario]


@pytest.mark.parametrize("defect", _scenarios(), ids=lambda one: one.title)
def test_a_scenario_of_a_defect_states_it_and_was_recorded_on_a_kubelet(defect: Defect) -> None:
    """Of a release that has the defect: the recordings hold what kubelets did."""
    scenario = find(text_of(defect).scenario)
    assert scenario is not None
    assert scenario.promise.startswith("A known defect")
    last = minor_of(scenario.until) if scenario.until else LATEST
    releases = [f"1.{minor}" for minor in range(minor_of(scenario.since), last + 1)]
    recordings = [one for one in map(shipped, releases) if one is not None]
    if last >= 17:  # older ones are not built
        found = any(scenario.id in {name for name, _ in one.cases} for one in recordings)
        assert found


def _atlas() -> dict[str, dict[str, Any]]:
    return {one["title"]: one for one in json.loads(ATLAS.read_text(encoding="utf-8"))}


def test_the_file_for_the_site_has_every_defect() -> None:
    """As it is measured by ``python -m hunting.advising.atlas``."""
    found = _atlas()
    assert set(found) == set(DEFECTS)
    for title, entry in found.items():
        text = TEXTS[title]
        assert (entry["story"], entry["avoid"], entry["scenario"]) == (
            text.story,
            text.avoid,
            text.scenario,
        )
        assert ("facts" in entry) is (title in CASES)


def test_the_file_says_of_full_pcpus_only_what_a_kubelet_does() -> None:
    one = _atlas()["a restart under full-pcpus-only refuses pods that run"]
    assert (one["issue"], one["mended"]) == (129078, ["1.37"])
    assert (one["facts"]["span"], one["facts"]["needs"]) == ("1.27 to 1.36", ["full-pcpus-only"])
