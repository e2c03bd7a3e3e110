"""A story as a link: what goes in comes out, and whatever else comes in is refused in one line."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinproof.playground.story import STEPS, BadStory, Story, packed, require_shallow, unpacked

TEXTS = st.text(max_size=200)
KINDS = st.sampled_from(sorted(STEPS))
ANY_STEP = KINDS.flatmap(
    lambda kind: st.tuples(st.just(kind), TEXTS if STEPS[kind] else st.just(""))
)
STORIES = st.builds(
    Story,
    machine=st.text(min_size=1, max_size=40),
    release=st.text(min_size=1, max_size=10),
    config=TEXTS,
    state=TEXTS,
    ran=TEXTS,
    archive=TEXTS,
    steps=st.lists(ANY_STEP, max_size=8).map(tuple),
)


@given(STORIES)
def test_what_a_link_holds_comes_out_again(story: Story) -> None:
    assert unpacked(packed(story)) == story


@given(st.text(max_size=100), st.binary(max_size=100))
def test_whatever_else_a_link_holds_is_refused_in_one_line(text: str, data: bytes) -> None:
    for fragment in (text, f"1.{text}", _link(data), _link(zlib.compress(data))):
        with pytest.raises(BadStory) as refused:
            unpacked(fragment)
        assert "\n" not in str(refused.value)


def _link(data: bytes) -> str:
    return "1." + base64.urlsafe_b64encode(data).decode().rstrip("=")


def _of(shape: object) -> str:
    return _link(zlib.compress(json.dumps(shape).encode()))


NODE = {"machine": "1s-1n-4c-smt2", "release": "1.36"}
DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("", "the link does not hold a story of this playground"),
        ("2.eNo", "the link does not hold a story of this playground"),
        ("1." + "A" * (256 << 10), "the link is longer than 256 KiB"),
        ("1.#", "the link is damaged: it cannot be unpacked"),
        (_link(b"hello"), "the link is damaged: it cannot be unpacked"),
        (_of(NODE)[:-12], "the link is damaged: it ends too early or too late"),
        (_link(zlib.compress(b"{}") + b"{}"), "the link is damaged: it ends too early or too late"),
        (_link(zlib.compress(b"x" * (5 << 20))), "the story in the link is larger than 4 MiB"),
        (_link(zlib.compress(DEEP)), "the story in the link: nested too deeply"),
        (_of([]), "the story is not an object"),
        (_of({}), "the story has no machine"),
        (_of({"machine": "x"}), "the story has no release"),
        (_of({**NODE, "release": 1.36}), "the story's release is not a text"),
        (_of({**NODE, "<img>": ""}), "the story has an unknown field: <img>"),
        (_of({**NODE, "steps": {}}), "the story's steps are not a list"),
        (_of({**NODE, "steps": [["start", ""]] * 201}), "the story has more than 200 steps"),
        (_of({**NODE, "steps": [["boom", ""]]}), "step 1 of the story is unknown: boom"),
        (_of({**NODE, "steps": ["start"]}), "step 1 of the story is not a name and a text"),
        (_of({**NODE, "steps": [["apply", 1]]}), "step 1 of the story is not a name and a text"),
    ],
)
def test_a_hostile_link_is_refused(fragment: str, why: str) -> None:
    with pytest.raises(BadStory) as refused:
        unpacked(fragment)
    assert str(refused.value) == why


def test_a_string_that_does_not_end_is_looked_at_once() -> None:
    """A search that begins anew at each quote would take hours."""
    require_shallow('"\\"' * 1_000_000 + "[" * 200, "text")
    with pytest.raises(BadStory, match=r"^text: nested too deeply$"):
        require_shallow('["\\"]"' * 101, "text")


def test_a_story_that_is_too_long_for_a_link_has_none() -> None:
    noise = base64.b64encode(bytes(value * value % 251 for value in range(400_000))).decode()
    story = Story("m", "1.36", archive="".join(f"{n}{noise[n]}" for n in range(200_000)))
    with pytest.raises(BadStory, match=r"^the story is too long for a link: more than 256 KiB$"):
        packed(story)
