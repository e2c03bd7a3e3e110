"""Whatever the steps are, the page has them as the model has, in one go or one by one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from conformance.subject import SubjectError
from pinproof.playground.asked import Page
from pinproof.playground.scene import begin
from pinproof.playground.story import BadStory, Story
from reference import Node
from reference.errors import ModelError
from tests.playground.conftest import pod

NODE = {"machine": "1s-1n-4c-smt2", "release": "1.36"}
NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("apply"), st.builds(pod, NAMES, st.sampled_from(["1", "2", "3", "0.5"]))),
    st.tuples(st.just("delete"), NAMES),
    st.sampled_from([(one, "") for one in ("start", "stop", "kill", "restart", "reboot")]),
    st.just(("remove-state", "")),
    st.sampled_from([("upgrade", "1.37"), ("upgrade", "1.36"), ("reboot", "1s-1n-8c-smt2")]),
)


def _asked(page: Page, steps: list[tuple[str, str]]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(page.asked(json.dumps({"story": {**NODE, "steps": steps}})))
    return answer


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=8), st.data())
def test_a_story_is_the_same_however_the_page_came_to_it(
    drawn: list[tuple[str, str]], data: st.DataObject
) -> None:
    page, steps = Page(), list[tuple[str, str]]()
    for step in drawn:
        answer = _asked(page, [*steps, step])
        if "error" not in answer:
            steps.append(step)
            assert answer == _asked(Page(), steps)
        elif data.draw(st.booleans()):
            steps = steps[: len(steps) // 2]
    assert _asked(page, steps) == _asked(Page(), steps)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_a_plain_node_of_the_model_goes_the_same_way(drawn: list[tuple[str, str]]) -> None:
    scene = begin(Story(NODE["machine"], NODE["release"]))
    plain = Node(topologies.load, NODE["machine"], scene.config, release="1.36")
    for step in scene.taken:
        plain.do(step)
    for kind, text in drawn:
        try:
            scene = scene.after(kind, text)
        except (BadStory, ModelError, SubjectError):
            continue
        for one in scene.taken:
            plain.do(one)
        assert scene.node.view() == plain.view()
