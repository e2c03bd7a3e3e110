"""A story of the playground: a node and the steps taken with it, and the link that holds it.

Anyone can write a link, so what it unpacks to is bounded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from topologies.errors import one_line

#: What a fragment begins with; another shape of a story gets another number.
_MARK: Final = "1."
_MOST_LINK: Final = 256 << 10
_MOST_STORY: Final = 4 << 20
_MOST_STEPS: Final = 200
_DEEPEST: Final = 100
_BRACKET_OR_STRING: Final = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
#: What may be done with a node, and whether it takes a text.
STEPS: Final[Mapping[str, bool]] = {
    "apply": True, "delete": True, "start": False, "stop": False, "kill": False, "restart": False,
    "reboot": True, "configure": True, "upgrade": True, "write-state": True, "remove-state": False,
}  # fmt: skip


class BadStory(ValueError):
    """What was given is not a story; ``str()`` is one line."""


@dataclass(frozen=True, slots=True)
class Story:
    """``machine``: a name of the catalogue or a description such as ``2s-4n-64c-smt2``; with
    ``archive``, which is base64, the name of that capture. ``config``: a KubeletConfiguration in
    YAML, or ``""`` for policy static with the first physical core reserved. ``state``: the state
    file that the kubelet starts over, ``""`` for none; ``ran``: manifests of the pods in it.
    ``steps``: each with its text."""

    machine: str
    release: str
    config: str = ""
    state: str = ""
    ran: str = ""
    archive: str = ""
    steps: tuple[tuple[str, str], ...] = ()


def story_of(shape: object) -> Story:
    """The story in decoded JSON. Raises :class:`BadStory`."""
    if not isinstance(shape, dict):
        raise BadStory("the story is not an object")
    names = [one.name for one in fields(Story)]
    for name, value in shape.items():
        if name not in names:
            raise BadStory(f"the story has an unknown field: {one_line(str(name), 60)}")
        if name != "steps" and not isinstance(value, str):
            raise BadStory(f"the story's {name} is not a text")
    for name in ("machine", "release"):
        if not shape.get(name):
            raise BadStory(f"the story has no {name}")
    return Story(**{**shape, "steps": _steps(shape.get("steps", []))})


def _steps(given: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, list):
        raise BadStory("the story's steps are not a list")
    if len(given) > _MOST_STEPS:
        raise BadStory(f"the story has more than {_MOST_STEPS} steps")
    return tuple(_step(number, one) for number, one in enumerate(given, 1))


def _step(number: int, given: Any) -> tuple[str, str]:
    match given:
        case [str(kind), str(text)] if kind in STEPS and (STEPS[kind] or not text):
            return kind, text
        case [str(kind), str()]:
            raise BadStory(f"step {number} of the story is unknown: {one_line(kind, 60)}")
        case _:
            raise BadStory(f"step {number} of the story is not a name and a text")


def packed(story: Story) -> str:
    """The fragment of a URL that holds the story. Raises :class:`BadStory` where it is too long."""
    shape = {one.name: value for one in fields(Story) if (value := getattr(story, one.name))}
    data = zlib.compress(json.dumps(shape, separators=(",", ":")).encode(), 9)
    link = _MARK + base64.urlsafe_b64encode(data).decode().rstrip("=")
    if len(link) > _MOST_LINK:
        raise BadStory(f"the story is too long for a link: more than {_MOST_LINK >> 10} KiB")
    return link


def unpacked(fragment: str) -> Story:
    """The story in the fragment of a URL. Raises :class:`BadStory`."""
    if not fragment.startswith(_MARK):
        raise BadStory("the link does not hold a story of this playground")
    if len(fragment) > _MOST_LINK:
        raise BadStory(f"the link is longer than {_MOST_LINK >> 10} KiB")
    try:
        text = fragment.removeprefix(_MARK).encode("ascii")
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found = _inflated(data)
        require_shallow(found, "the story in the link")
        shape = json.loads(found)
    except (binascii.Error, UnicodeError, zlib.error, json.JSONDecodeError) as error:
        raise BadStory("the link is damaged: it cannot be unpacked") from error
    return story_of(shape)


def require_shallow(text: str, what: str) -> None:
    """Refuse JSON that is nested too deeply: its parser recurses, and the stack of a browser ends
    before Python sees it. Raises :class:`BadStory`."""
    depth = 0
    for bracket in _BRACKET_OR_STRING.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
        if depth > _DEEPEST:
            raise BadStory(f"{what}: nested too deeply")


def _inflated(data: bytes) -> str:
    stream = zlib.decompressobj()
    found = stream.decompress(data, _MOST_STORY + 1)
    if len(found) > _MOST_STORY:
        raise BadStory(f"the story in the link is larger than {_MOST_STORY >> 20} MiB")
    if not stream.eof or stream.unused_data:
        raise BadStory("the link is damaged: it ends too early or too late")
    return found.decode()
