"""Failures of one cause, told once.

Two failures have one cause where the same promise is broken and the same thing differs in the same
direction, whatever the pods, CPUs, steps and machines are. What comes first in a failure decides:
the judge puts the cause before what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.accounts import account
from conformance.results import Difference, Result
from reports.text import line

#: A headline stays one that a person reads at a glance.
_LONGEST: Final = 240
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
    """Results of one cause, at least one; ``example`` is the one that shows it most simply."""

    example: Result
    results: tuple[Result, ...]

    @property
    def headline(self) -> str:
        """What is wrong, in one line."""
        return _headline(self.example)

    @property
    def detail(self) -> str:
        """What differs first in the example, in one line; ``""`` where it is said by
        the headline already."""
        first = _first(self.example)
        if first is None:
            return ""
        text = f"{first.what}: expected {first.expected or '(nothing)'}, seen {first.seen}"
        return _short(line(text))

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.machine.name for result in self.results))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios that it hits, in the order of the results."""
        return tuple(dict.fromkeys(result.scenario for result in self.results))


def causes(results: Iterable[Result]) -> tuple[Cause, ...]:
    """The causes of these results, which broke a promise or have no verdict; those that hit most
    come first."""
    groups: dict[_Key, list[Result]] = {}
    for result in results:
        groups.setdefault(_key(result), []).append(result)
    found = (Cause(min(group, key=_plainness), tuple(group)) for group in groups.values())
    return tuple(sorted(found, key=lambda cause: -len(cause.results)))


def _plainness(result: Result) -> tuple[bool, int, int]:
    return result.level != "core", len(result.steps), len(result.machine.cpus)


def _key(result: Result) -> _Key:
    if result.failure is None:
        return result.verdict, _kind(result.reason), "", ""
    rule, first = _kind(result.failure.rule), _first(result)
    if first is None:
        return result.verdict, rule, "", ""
    if first.what == "kubelet":  # why it gave up or should have is another text in each scenario
        return result.verdict, rule, "kubelet", f"{_word(first.expected)} {_word(first.seen)}"
    return result.verdict, rule, _kind(first.what), _manner(first)


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
        return "The kubelet runs, and should have refused to start"
    if expected == "runs":
        return "The kubelet does not run, and should"
    return "The kubelet does not end as it should"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
