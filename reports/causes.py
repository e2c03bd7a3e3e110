"""Failures of one cause, told once.

Two failures look alike where the same promise is broken and the same thing differs in the same
direction, whatever the pods, CPUs, steps and machines are. What comes first in a failure decides:
the judge puts the cause before what follows from it. Failures that look different have one cause
where the kubelet ran with another setting than it was given, or where one trait sets them apart
from what passed (:mod:`reports.contrast`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from conformance.accounts import account
from conformance.in_effect import differing
from conformance.results import Difference, Result
from reports.contrast import Contrast, Groups, explained
from reports.text import few, line

#: A headline stays one that a person reads at a glance.
_LONGEST: Final = 240
_DETAIL: Final = 800
_WAITED: Final = re.compile(r" \(waited [^()]*\)$")
_QUOTED: Final = re.compile(r"“[^”]*”|\"[^\"]*\"")
_NAME: Final = re.compile(r"(?<!\S)\S+/\S+")
_POD: Final = re.compile(r"\bpod \S+")
_NUMBER: Final = re.compile(r"\d+(?:[-,.]\d+)*")
_HELD: Final = {
    (True, False): "CPUs are missing",
    (False, True): "CPUs too many",
    (True, True): "not the CPUs expected",
}
#: Verdict, promise, and what differs.
_Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Cause:
    """Results of one cause, at least one; ``example`` is the one that shows it most simply.
    ``contrast`` is what sets them apart from what passed, and ``looks`` how many results look how,
    where they look different."""

    example: Result
    results: tuple[Result, ...]
    contrast: Contrast | None = None
    looks: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_common(self) -> bool:
        """Whether the cause is told by what its results share, and no longer by what differs in
        the example."""
        return bool(self.looks) or bool(_otherwise(self.example))

    @property
    def headline(self) -> str:
        """What is wrong, in one line."""
        if settings := _otherwise(self.example):
            return _short(settings)
        if self.contrast and self.looks:
            return _short(line(f"It fails where {self.contrast.trait}"))
        if self.looks:
            return _short(
                f"{len(self.looks)} promises are broken by one thing: {_text(self.example)}"
            )
        return _headline(self.example)

    @property
    def detail(self) -> str:
        """How the results look and what sets them apart, or what differs first in the example, in
        one line; ``""`` where it is said by the headline already."""
        parts = [f"{self._where}{self.contrast.figures}"] if self.contrast else []
        if self.looks:
            looks = [f"{look} ({count})" for look, count in self.looks.items()]
            return _short(
                line(f"{'. '.join([*parts, 'It looks like this'])}: {few(looks, 4)}"), _DETAIL
            )
        first = _first(self.example)
        if first is not None:
            text = f"{first.what}: expected {first.expected or '(nothing)'}, seen {first.seen}"
            parts.insert(0, _short(line(text)))
        return _short(line(". ".join(parts)), _DETAIL)

    @property
    def _where(self) -> str:
        assert self.contrast is not None
        return "" if self.looks else f"It fails where {line(self.contrast.trait)}: "

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.machine.name for result in self.results))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.scenario for result in self.results))


def causes(results: Iterable[Result], passed: Sequence[Result] = ()) -> tuple[Cause, ...]:
    """The causes of these results, which broke a promise or have no verdict, by contrast with
    those of the run that passed. Causes of which a promise is broken come first, then those that
    hit most."""
    groups: dict[_Key, list[Result]] = {}
    for result in results:
        groups.setdefault(_key(result), []).append(result)
    alike = list(groups.values())
    found = [_one(alike, places, contrast) for contrast, places in explained(alike, passed)]
    done = {id(result) for cause in found for result in cause.results}
    rest: dict[str, list[list[Result]]] = {}
    for place, group in enumerate(alike):
        if id(group[0]) not in done:
            rest.setdefault(_text(group[0]) or str(place), []).append(group)
    found += [_one(some, range(len(some))) for some in rest.values()]
    return tuple(sorted(found, key=_gravity))


def _one(groups: Groups, places: Sequence[int], contrast: Contrast | None = None) -> Cause:
    chosen = sorted((groups[place] for place in places), key=len, reverse=True)
    results = tuple(result for group in chosen for result in group)
    looks = {_headline(min(group, key=_plainness)): len(group) for group in chosen}
    example = min(results, key=_plainness)
    return Cause(example, results, contrast, looks if len(looks) > 1 else {})


def _gravity(cause: Cause) -> tuple[bool, int]:
    broken = any(one.failure is None or account(one.failure).promised for one in cause.results)
    return not broken, -len(cause.results)


def _plainness(result: Result) -> tuple[bool, int, int]:
    """The shortest history shows it best."""
    return result.level != "core", len(result.steps), len(result.machine.cpus)


def _otherwise(result: Result) -> str:
    """That the kubelet ran with other settings than it was given; ``""`` where it did not."""
    found = differing(result.steps, result.evidence)
    if not found:
        return ""
    settings = [
        f"{name} {seen or 'not set'} (given: {given or 'not set'})" for name, given, seen in found
    ]
    return line(f"The kubelet ran with other settings than it was given: {', '.join(settings)}")


def _key(result: Result) -> _Key:
    if result.failure is None:
        return result.verdict, _kind(result.reason), "", ""
    rule, first = _kind(result.failure.rule), _first(result)
    if settings := differing(result.steps, result.evidence):
        return result.verdict, "settings", ", ".join(name for name, _, _ in settings), ""
    if first is None:
        return result.verdict, rule, "", ""
    if first.what == "kubelet":  # why it gave up or should have is another text in each scenario
        return result.verdict, rule, "kubelet", f"{_word(first.expected)} {_word(first.seen)}"
    return result.verdict, rule, _kind(first.what), _manner(first)


def _text(result: Result) -> str:
    """In what way a text differs first, if a promise is broken by that; several promises may
    be about one such text. ``""`` where CPUs or the kubelet's own state differ."""
    first = _first(result)
    if first is None or result.failure is None or not account(result.failure).promised:
        return ""
    if first.what == "kubelet" or first.missing or first.unexpected:
        return ""
    return f"{_kind(first.what).removesuffix(' of …')}: {_manner(first)}"


def _first(result: Result) -> Difference | None:
    differences = result.failure.differences if result.failure else []
    return differences[0] if differences else None


def _kind(text: str) -> str:
    """The text without what differs from one scenario or machine to the next."""
    text = _QUOTED.sub("…", _WAITED.sub("", line(text)))
    return _NUMBER.sub("#", _POD.sub("pod …", _NAME.sub("…", text)))


def _manner(difference: Difference) -> str:
    """In what way the two sides differ, whatever the CPUs."""
    held = _HELD.get((bool(difference.missing), bool(difference.unexpected)))
    if held:
        return held
    want, have = _word(difference.expected), _word(difference.seen)
    return f"expected {want}, seen {have}" if want != have else "another text"


def _word(text: str) -> str:
    """The part of a pod's or the kubelet's state that comes before its details."""
    return _kind(re.split(r"[:,]", line(text), maxsplit=1)[0])


def _headline(result: Result) -> str:
    if result.failure is None:
        return _short(line(result.reason) or "No verdict, and no reason given")
    said, first = account(result.failure), _first(result)
    if first is not None and first.what == "kubelet":
        return _of_the_kubelet(line(first.expected), line(first.seen))
    if said.promised:
        return _short(f"Broken promise: {line(said.promised)}")
    differs = f"The node differs from {line(said.witness)}"
    if first is None:
        return _short(differs)
    what = _NAME.sub("", _kind(first.what).replace("…", "")).strip()
    return _short(f"{differs}: {what}: {_manner(first)}")


def _of_the_kubelet(expected: str, seen: str) -> str:
    if seen.startswith("hangs"):
        return "The kubelet hangs"
    if seen == "runs":
        return "The kubelet runs, but should have refused to start"
    if expected == "runs":
        return "The kubelet does not run, but should"
    return "The kubelet does not end as it should"


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
