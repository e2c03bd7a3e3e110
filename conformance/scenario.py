"""What a scenario is, and the registry of them.

A scenario is one promise: an id, a fact in the present tense, where that fact is promised, and a
function that drives a node and states the promise in words. The function works on any machine that
has what the scenario ``needs``. It takes CPU numbers from the machine's topology; only a scenario
that names its own machine may have them in its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from conformance.needs import Needs as Needs
from conformance.source import Source as Source
from conformance.subject import Capability as Capability
from reference.behaviours import Behaviour
from reference.releases import Release

if TYPE_CHECKING:
    from conformance.lockstep import LockstepNode

Body = Callable[["LockstepNode"], None]

_NO_NEEDS: Final = Needs()
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


class Level(Enum):
    """Whether a conformant node must keep the promise (core), or it is only reported (extended).
    Which scenarios are core is a rule in docs/how-to/writing-a-scenario.md."""

    CORE = "core"
    EXTENDED = "extended"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One promise. ``since`` and ``until`` are the first and last minor that it is made for
    (``""``: every later one). ``machine`` names the only machine that it is about, or is ``""``.
    ``of_fork`` is the behaviour of the forks that make the promise, if no release does."""

    id: str
    title: str
    source: Source
    body: Body
    level: Level = Level.EXTENDED
    since: str = "1.18"
    until: str = ""
    needs: Needs = _NO_NEEDS
    capabilities: frozenset[Capability] = frozenset()
    machine: str = ""
    of_fork: Behaviour | None = None

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def promise(self) -> str:
        """The full text of the promise: the docstring of the scenario's function."""
        lines = (self.body.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)

    def not_promised_in(self, release: str) -> str:
        """Why the promise is not made for a release, or ``""``."""
        minor = Release.parse(release).minor
        if self.since and minor < Release.parse(self.since).minor:
            return f"promised from {self.since} on, this is {release}"
        if self.until and minor > Release.parse(self.until).minor:
            return f"promised up to {self.until}, this is {release}"
        return ""


_BASE: Final = frozenset({Capability.PODS, Capability.STATE_FILE})
_REGISTRY: dict[str, Scenario] = {}


class Fields(TypedDict, total=False):
    """Optional fields of a scenario."""

    level: Level
    since: str
    until: str
    needs: Needs
    machine: str
    of_fork: Behaviour | None


def scenario(
    id: str,  # noqa: A002
    title: str,
    source: Source,
    *,
    capabilities: Iterable[Capability] = (),
    **fields: Unpack[Fields],
) -> Callable[[Body], Body]:
    """Enter the decorated function into the catalogue; its docstring is the full text of the
    promise. Every scenario needs a subject that can apply pods and show its state file;
    ``capabilities`` are further ones."""
    can = _BASE | frozenset(capabilities)

    def enter(body: Body) -> Body:
        entry = Scenario(id, title, source, body, capabilities=can, **fields)
        if not _ID.fullmatch(id):
            raise ValueError(f"a scenario's id is area/words-like-these, not {id!r}")
        if id in _REGISTRY:
            raise ValueError(f"two scenarios have the id {id!r}")
        _REGISTRY[id] = entry
        return body

    return enter


def promised(
    source: Source,
    *,
    area: str,
    capabilities: Iterable[Capability] = (),
    **fields: Unpack[Fields],
) -> Callable[[Body], Body]:
    """Enter the decorated function into the catalogue. Its name is its id in this area. Its
    docstring is the title, which ends in a full stop at the end of a line, and then the full text
    of the promise. Raises :class:`ValueError` for a docstring without a title."""

    def enter(body: Body) -> Body:
        name = body.__name__.strip("_").replace("_", "-")
        title, promise = _divided(body)
        body.__doc__ = promise
        return scenario(f"{area}/{name}", title, source, capabilities=capabilities, **fields)(body)

    return enter


def _divided(body: Body) -> tuple[str, str]:
    """The title and the promise in the docstring of a scenario's function."""
    lines = [line.strip() for line in (body.__doc__ or "").splitlines()]
    for number, line in enumerate(lines, start=1):
        if line.endswith("."):
            return " ".join(lines[:number])[:-1], "\n".join(lines[number:])
    raise ValueError(f"the docstring of {body.__name__} has no title that ends in a full stop")


def registered() -> tuple[Scenario, ...]:
    """Every scenario that was entered so far, in the order of entering. Only
    :mod:`conformance.catalogue` has them all."""
    return tuple(_REGISTRY.values())
