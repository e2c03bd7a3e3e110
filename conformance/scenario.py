"""What a scenario is, and the registry of them.

A scenario is one promise: an id, a fact in the present tense, where that fact is promised, and a
function that drives a node and states the promise in words. The function is written for any
machine that has what the scenario ``needs``; it reads CPU numbers off the machine's topology and
never knows them beforehand, unless the scenario names its own machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from conformance.needs import Needs as Needs
from conformance.source import Source as Source
from conformance.subject import Capability as Capability
from reference.behaviours import Behaviour

if TYPE_CHECKING:
    from conformance.lockstep import LockstepNode

Body = Callable[["LockstepNode"], None]

_NO_NEEDS: Final = Needs()
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


class Level(Enum):
    """Whether a conformant node must keep the promise, or it is reported but not required. Which
    scenarios are core is a rule in docs/how-to/writing-a-scenario.md."""

    CORE = "core"
    EXTENDED = "extended"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One promise. ``since`` and ``until`` are the first and last minor it is made for (``""``:
    still is); ``machine`` names the only machine it is about, or is ``""``; ``of_fork`` is what a
    fork has that promises it, where no release does."""

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
        """The promise at length: the docstring of the scenario's function."""
        lines = (self.body.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


_BASE: Final = frozenset({Capability.PODS, Capability.STATE_FILE})
_REGISTRY: dict[str, Scenario] = {}


def scenario(
    id: str,  # noqa: A002
    title: str,
    source: Source,
    *,
    level: Level = Level.EXTENDED,
    since: str = "1.18",
    until: str = "",
    needs: Needs = _NO_NEEDS,
    capabilities: Iterable[Capability] = (),
    machine: str = "",
    of_fork: Behaviour | None = None,
) -> Callable[[Body], Body]:
    """Enter the decorated function into the catalogue. Every scenario needs a subject that can
    apply pods and show its state file; ``capabilities`` are those beyond."""

    def enter(body: Body) -> Body:
        made = Scenario(
            id=id,
            title=title,
            source=source,
            body=body,
            level=level,
            since=since,
            until=until,
            needs=needs,
            capabilities=_BASE | frozenset(capabilities),
            machine=machine,
            of_fork=of_fork,
        )
        if not _ID.fullmatch(id):
            raise ValueError(f"a scenario's id is area/words-like-these, not {id!r}")
        if id in _REGISTRY:
            raise ValueError(f"two scenarios have the id {id!r}")
        _REGISTRY[id] = made
        return body

    return enter


def registered() -> tuple[Scenario, ...]:
    """Every scenario that was entered so far, in the order of entering. Only
    :mod:`conformance.catalogue` has them all."""
    return tuple(_REGISTRY.values())
