"""Failures grouped by cause, so that a report states each cause once.

Two failures look alike where the same promise is broken and the same thing differs in the same
direction, whatever the pods, CPUs, steps and machines are. The first difference of a failure
decides: the judge puts the cause before its consequences. Failures that look different have one
cause where the kubelet ran with another setting than it was given, or where one trait sets them
apart from what passed (:mod:`reports.contrast`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from conformance.accounts import account
from conformance.in_effect import differing
from conformance.results import Difference, Result
from reports.contrast import Contrast, Groups, explained
from reports.text import few, line

#: Characters of a headline, which a person reads at a glance, and of a detail.
_LONGEST: Final = 240
_DETAIL: Final = 800
#: From this share of results that look alike on, their look is the headline of all.
_ALIKE: Final = 0.75
#: From this share of results on in which a setting differs, the setting is named.
_MANY: Final = 0.25
#: How many values of a setting are named.
_VALUES: Final = 3
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
#: Verdict, promise, what differs, and how.
_Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Cause:
    """Results of one cause, at least one. ``example``: the one that shows it most simply;
    ``contrast``: what sets them apart from what passed; ``looks``: how many results have each
    headline, if they have several; ``settings``: with which other settings the kubelet ran than it
    was given."""

    example: Result
    results: tuple[Result, ...]
    contrast: Contrast | None = None
    looks: Mapping[str, int] = field(default_factory=dict)
    settings: str = ""

    @property
    def is_common(self) -> bool:
        """Whether the cause is described by what its results share, not by what differs in the
        example."""
        return bool(self.looks) or bool(self.settings)

    @property
    def headline(self) -> str:
        if settings := self.settings:
            return _short(settings)
        if self.contrast and self.looks:
            most = max(self.looks, key=self.looks.__getitem__)
            alike = self.looks[most] >= _ALIKE * len(self.results)
            what = f"{most}," if alike else "It fails"
            return _short(line(f"{what} where {self.contrast.trait}"))
        if self.looks:
            return _short(
                f"{len(self.looks)} promises are broken by one thing: {_text(self.example)}"
            )
        return _headline(self.example)

    @property
    def detail(self) -> str:
        """One line: how the results look and what sets them apart, or what differs first in the
        example; ``""`` where the headline says it already."""
        parts = [f"{self._where}{self.contrast.figures}"] if self.contrast else []
        if self.looks:
            looks = [f"{look} ({count})" for look, count in self.looks.items()]
            return _short(
                line(". ".join([*parts, f"It looks like this: {few(looks, 4, between='; ')}"])),
                _DETAIL,
            )
        first = _first(self.example)
        if first is not None:
            text = f"{first.what}: expected {first.expected or '(nothing)'}, seen {first.seen}"
            parts.insert(0, _short(line(text)))
        return _short(line(". ".join(parts)), _DETAIL)

    @property
    def _where(self) -> str:
        assert self.contrast is not None
        said = self.looks and not self.settings
        return "" if said else f"It fails where {line(self.contrast.trait)}: "

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.machine.name for result in self.results))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.scenario for result in self.results))


def causes(results: Iterable[Result], passed: Sequence[Result] = ()) -> tuple[Cause, ...]:
    """The causes of these results, which broke a promise or have no verdict, by contrast with the
    run's ``passed`` ones. Causes with a broken promise come first, then those of most results."""
    groups: dict[_Key, list[Result]] = {}
    for result in results:
        groups.setdefault(_key(result), []).append(result)
    alike = list(groups.values())
    found = [_cause(alike, places, contrast) for contrast, places in explained(alike, passed)]
    done = {id(result) for cause in found for result in cause.results}
    rest: dict[str, list[list[Result]]] = {}
    for place, group in enumerate(alike):
        if id(group[0]) not in done:
            rest.setdefault(_text(group[0]) or str(place), []).append(group)
    found += [_cause(some, range(len(some))) for some in rest.values()]
    return tuple(sorted(found, key=_gravity))


def _cause(groups: Groups, places: Sequence[int], contrast: Contrast | None = None) -> Cause:
    chosen = sorted((groups[place] for place in places), key=len, reverse=True)
    results = tuple(result for group in chosen for result in group)
    alike: dict[_Key, list[Result]] = {}
    for result in results:
        alike.setdefault(_look(result), []).append(result)
    looks = Counter[str]()
    for some in alike.values():
        looks[_headline(min(some, key=_plainness))] += len(some)
    looks = Counter(dict(looks.most_common()))
    example = min(results, key=_plainness)
    return Cause(example, results, contrast, looks if len(looks) > 1 else {}, otherwise(results))


def _gravity(cause: Cause) -> tuple[bool, int]:
    broken = any(one.failure is None or account(one.failure).promised for one in cause.results)
    return not broken, -len(cause.results)


def _plainness(result: Result) -> tuple[int, bool, int]:
    """The shortest history shows it best."""
    return len(result.steps), result.level != "core", len(result.machine.cpus)


def otherwise(results: Sequence[Result]) -> str:
    """The settings that the kubelet ran with other values of than it was given, with these values;
    ``""`` unless that is so in most results. A setting of few of them is left out."""
    differ = [differing(result.steps, result.evidence) for result in results]
    found = [one for one in differ if one]
    if 2 * len(found) <= len(results):
        return ""
    names = Counter(name for one in found for name, _, _ in one)
    often = [name for name, count in names.items() if count >= _MANY * len(found)]
    words = []
    for name in often or [name for name, _ in names.most_common(_VALUES)]:
        values: dict[str, Counter[str]] = {}
        for given, seen in (pair for one in found for other, *pair in one if other == name):
            values.setdefault(seen or "not set", Counter())[given or "not set"] += 1
        words += [f"{name} {seen} (given: {_or(given)})" for seen, given in values.items()][
            :_VALUES
        ]
    return line(f"The kubelet ran with other settings than it was given: {', '.join(words)}")


def _or(values: Counter[str]) -> str:
    """``pod or node``, the most frequent one first."""
    return " or ".join(value for value, _ in values.most_common(_VALUES))


def _key(result: Result) -> _Key:
    if result.failure is not None and (settings := differing(result.steps, result.evidence)):
        return result.verdict, "settings", ", ".join(name for name, _, _ in settings), ""
    return _look(result)


def _look(result: Result) -> _Key:
    """A key that results share that look alike."""
    if result.failure is None:
        return result.verdict, _kind(result.reason), "", ""
    rule, first = _kind(result.failure.rule), _first(result)
    if first is None:
        return result.verdict, rule, "", ""
    if first.what == "kubelet":  # its error is another text in each scenario
        return result.verdict, rule, "kubelet", f"{_word(first.expected)} {_word(first.seen)}"
    return result.verdict, rule, _kind(first.what), _manner(first)


def _text(result: Result) -> str:
    """How the first difference differs, if it breaks a promise and is about a text: several
    promises may be about one text. ``""`` where CPUs or the kubelet's own state differ."""
    first = _first(result)
    if first is None or result.failure is None or not account(result.failure).promised:
        return ""
    if first.what == "kubelet" or first.missing or first.unexpected:
        return ""
    return f"{_kind(first.what).removesuffix(' …')}: {_manner(first)}"


def _first(result: Result) -> Difference | None:
    differences = result.failure.differences if result.failure else []
    return differences[0] if differences else None


def _kind(text: str) -> str:
    """The text without what differs from one scenario or machine to the next."""
    text = _QUOTED.sub("…", _WAITED.sub("", line(text)))
    named = _NAME.sub("…", text).replace(" of …", " …")
    return _NUMBER.sub("#", _POD.sub("pod …", named))


def _manner(difference: Difference) -> str:
    """How the two sides differ, whatever the CPUs."""
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
