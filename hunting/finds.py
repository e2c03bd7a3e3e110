"""Finds: broken promises, one for each cause.

What belongs here: a find, as it is written to a file, and when two have one cause. What never
does: the story of a find (``telling``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from conformance.written import made, plain, read, written
from hunting.defects import defect_of
from hunting.replaying import releases_with, spans
from hunting.scope import Task
from hunting.shrinking import shrunk, shrunk_in_place
from hunting.upgrades import releases_of
from hunting.walk import Broken
from reference.steps import Apply, KubeletConfig, Pod, Step, TakeOver

_NUMBERS: Final = re.compile(r"[0-9][0-9,-]*")


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that a history breaks, shrunk. ``config`` and ``steps`` are as they are written;
    ``issue`` is the number of the known defect (0: none is known); ``releases`` are the minors
    whose model does the same; ``met`` counts the histories that broke it for the same cause;
    ``confirmed`` says of each kubelet that took the history whether it does the same."""

    promise: str
    rule: str
    release: str
    machine: str
    config: dict[str, Any]
    steps: list[dict[str, Any]]
    what: str
    expected: str
    seen: str
    issue: int = 0
    releases: list[str] = []
    met: int = 1
    confirmed: dict[str, bool] = {}

    @property
    def task(self) -> Task:
        return Task(self.release, self.machine, made(KubeletConfig, self.config))

    @property
    def history(self) -> tuple[Step, ...]:
        return tuple(read(one) for one in self.steps)

    @property
    def cast(self) -> tuple[str, ...]:
        """The releases whose kubelets the history has: more than one if another takes over."""
        return releases_of(self.release, self.history)

    @property
    def placed(self) -> str:
        """The minors that break the promise, as ``1.22 to 1.26, 1.37``; where another one takes
        over from these, as ``1.36 after 1.37``."""
        own, others = spans(self.releases) or self.release, ", ".join(self.cast[1:])
        return f"{others} after {own}" if others else own

    @property
    def key(self) -> str:
        """Finds of one cause have one key: the promise with the known defect, or with what
        shrinking has left of history and configuration."""
        if self.issue:
            return f"{self.promise} #{self.issue}"
        task = self.task
        parts = [
            self.promise,
            *sorted(task.config.policy_options),
            _evenness(self.machine),
            *sorted({kind_of(one) for one in self.history[1:]}),
        ]
        return " ".join(parts)


def found(broken: Broken, issue: int, *, releases: Iterable[str] = ()) -> Find:
    """The find of a broken promise. It is not shrunk here."""
    difference = broken.violation.difference
    return Find(
        promise=broken.promise,
        rule=broken.violation.rule,
        release=broken.task.release,
        machine=broken.task.machine,
        config=plain(broken.task.config),
        steps=[written(one) for one in broken.steps],
        what=difference.what,
        expected=difference.expected,
        seen=difference.seen,
        issue=issue,
        releases=list(releases),
    )


class Collection:
    """Finds by their keys. ``blind``: known defects are not looked up, so what shrinking leaves of
    a history decides which cause it has."""

    def __init__(self, finds: Iterable[Find] = (), *, blind: bool = False) -> None:
        self._finds: dict[str, Find] = {}
        self._rough: dict[tuple[str, ...], str] = {}
        self._blind = blind
        for one in finds:
            self.join(one)

    def __iter__(self) -> Iterator[Find]:
        return iter(self._finds.values())

    def __len__(self) -> int:
        return len(self._finds)

    def met(self) -> Counter[str]:
        """How often each find was met, by its key."""
        return Counter({key: find.met for key, find in self._finds.items()})

    def join(self, find: Find) -> bool:
        """Add a find, or count it where its cause is known; returns whether it is new. The shorter
        history is kept."""
        known = self._finds.get(find.key)
        if known is None:
            self._finds[find.key] = find
            return True
        best = min(known, find, key=_size)
        self._finds[find.key] = msgspec.structs.replace(
            best, met=known.met + find.met, confirmed={**known.confirmed, **find.confirmed}
        )
        return False

    def add(self, broken: Broken) -> Find | None:
        """Add a broken promise; returns its find, shrunk, or ``None`` if its cause is known."""
        rough = _rough_key(broken)
        if rough in self._rough:
            self._count(rough, self._rough[rough])
            return None
        in_place = shrunk_in_place(broken)
        shrunk_key = _rough_key(in_place)
        if shrunk_key in self._rough:
            self._count(rough, self._rough[shrunk_key])
            return None
        small = shrunk(in_place)
        defect = None if self._blind else defect_of(small)
        find = found(small, defect.number if defect else 0)
        self._rough[shrunk_key] = find.key
        known = self._finds.get(find.key)
        if known is not None and _size(known) <= _size(find):
            self._count(rough, find.key)
            return None
        self._rough[rough] = find.key
        placed = msgspec.structs.replace(find, releases=releases_with(small))
        return placed if self.join(placed) else None

    def _count(self, rough: tuple[str, ...], key: str) -> None:
        """Count a broken promise of this rough key, whose find has this key."""
        self._rough[rough] = key
        known = self._finds[key]
        self._finds[key] = msgspec.structs.replace(known, met=known.met + 1)


def _rough_key(broken: Broken) -> tuple[str, ...]:
    """A key that takes no shrinking: two broken promises with one such key count as one cause."""
    config = broken.task.config
    return (
        broken.promise,
        *sorted(config.policy_options),
        str(config.topology_manager_policy != "none"),
        str(bool(config.feature_gates)),
        _evenness(broken.task.machine),
        without_numbers(broken.violation.difference.seen),
        *sorted({kind_of(one) for one in broken.steps}),
    )


def _evenness(machine: str) -> str:
    return "uneven" if any(one in machine for one in ("-off", "-e")) else "even"


def without_numbers(text: str) -> str:
    """The text without CPUs and amounts: so two texts of one kind are equal."""
    return _NUMBERS.sub("", text)


def _size(find: Find) -> tuple[int, int, str]:
    return (len(find.steps), len(str(find.task.config)), find.machine)


def kind_of(step: Step) -> str:
    """The name of the step, with the kinds of an applied pod's containers, or with the release of
    a kubelet that takes over."""
    name = type(step).__name__
    if isinstance(step, TakeOver):
        return f"{name}({step.release})"
    return f"{name}({_pod_kind(step.pod)})" if isinstance(step, Apply) else name


def _pod_kind(pod: Pod) -> str:
    kinds = [one.kind.value if one.requested_cpu else "shared" for one in pod.containers]
    return "+".join(["whole", *kinds] if pod.resources else kinds)
