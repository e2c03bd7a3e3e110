"""The requests of the page, and their answers: JSON in, JSON out.

What belongs here: one function, the scenes that it remembers, and which errors a reader can mend.
What never does: what is in an answer (``telling``).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any, Final

from conformance.subject import SubjectError
from pinproof.playground.captured import parts_of
from pinproof.playground.scene import Scene, begin
from pinproof.playground.story import BadStory, Story, packed, story_of, unpacked
from pinproof.playground.telling import shown, shown_step
from reference.errors import ModelError
from topologies import MachineError
from topologies.errors import one_line

_MENDABLE: Final = (BadStory, MachineError, ModelError, SubjectError)


class Page:
    """Answers one page. It remembers the node after each step of the last story, so that one more
    step costs one step."""

    def __init__(self) -> None:
        self._story = Story("", "")
        self._scenes: list[Scene] = []
        self._steps: list[dict[str, Any]] = []

    def asked(self, text: str) -> str:
        """The answer to a request. To ``{"capture": …}``: what the archive has of a node beside its
        machine (:func:`pinproof.playground.captured.parts_of`).

        To ``{"story": …}`` or ``{"link": fragment}``: the story, its link (``""`` where it is too
        long for one) and what is to be shown. After ``{"error": line}`` the page is as before.
        """
        try:
            shape = json.loads(text)
            if capture := shape.get("capture"):
                return json.dumps({"parts": parts_of(capture["name"], capture["text"])})
            linked = shape.get("link")
            story = story_of(shape.get("story")) if linked is None else unpacked(linked)
            scenes = self._scenes_of(story)
            steps = self._steps_of(scenes)
            answer = {"story": asdict(story), "steps": steps, **shown(scenes[-1]), **_link(story)}
        except _MENDABLE as error:
            return json.dumps({"error": one_line(str(error), 2000)})
        self._story, self._scenes, self._steps = story, scenes, steps
        return json.dumps(answer)

    def _scenes_of(self, story: Story) -> list[Scene]:
        scenes = self._remembered(story)
        if not scenes:
            scenes = [begin(story)]
        for number, (kind, given) in enumerate(story.steps[len(scenes) - 1 :], len(scenes)):
            try:
                scenes.append(scenes[-1].after(kind, given))
            except _MENDABLE as error:
                where = f"step {number}: " if number < len(story.steps) else ""
                raise BadStory(f"{where}{error}") from error
        return scenes

    def _steps_of(self, scenes: list[Scene]) -> list[dict[str, Any]]:
        """What is shown of each step. Steps that are remembered are not told again."""
        pairs = enumerate(zip(scenes, self._scenes, strict=False))
        same = [at for at, (new, old) in pairs if new is old]
        known = self._steps[: len(same)]
        later = range(len(known), len(scenes))
        return known + [shown_step(scenes[:at], scenes[at]) for at in later]

    def _remembered(self, story: Story) -> list[Scene]:
        if replace(story, steps=()) != replace(self._story, steps=()):
            return []
        pairs = zip(story.steps, self._story.steps, strict=False)
        same = next((at for at, (new, old) in enumerate(pairs) if new != old), None)
        shared = min(len(story.steps), len(self._story.steps)) if same is None else same
        return self._scenes[: shared + 1]


def _link(story: Story) -> dict[str, str]:
    try:
        return {"link": packed(story), "no link": ""}
    except BadStory as error:
        return {"link": "", "no link": str(error)}
