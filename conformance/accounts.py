"""What a failure says, in the words that every report uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from conformance.records import Difference, Failure

_WAITED: Final = re.compile(r"(?P<rule>.*?)(?P<waited> \(waited [^()]*\))?", re.DOTALL)
_MODELLED: Final = re.compile(
    r"After the step “(?P<step>.*)” the node is as (?P<witness>.*) has it", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Account:
    """A failure in words. ``promised`` is the promise or invariant that was broken; it is ``""``
    where none was, and the node only differs from its witness. ``but`` is what was seen instead;
    ``witness`` is what the node differs from, where no promise was broken."""

    promised: str
    but: str
    witness: str = ""

    @property
    def verdict(self) -> str:
        """What to call it, in a few words."""
        return "the promise is broken" if self.promised else f"the node differs from {self.witness}"

    @property
    def sentence(self) -> str:
        return f"promised: {self.promised}; but: {self.but}" if self.promised else self.but


def as_expected(step: str, witness: str) -> str:
    """The rule that a node follows which is after a step as its witness says."""
    return f"After the step “{step}” the node is as {witness} has it"


def broken(rule: str) -> str:
    """A rule that was broken, as a reader finds it: a promise as it is, and what a witness has as
    the difference from it."""
    return _MODELLED.sub(r"After the step “\g<step>” the node differs from \g<witness>", rule)


def account(failure: Failure) -> Account:
    """What a failure says."""
    parts = _WAITED.fullmatch(failure.rule)
    assert parts is not None  # every text matches
    rule, waited = parts["rule"], parts["waited"] or ""
    modelled = _MODELLED.fullmatch(rule)
    if modelled is None:
        first = next(iter(failure.differences), None)
        return Account(rule, f"{_seen(first)}{waited}")
    step, witness = modelled["step"], modelled["witness"]
    differs = f"fter the step “{step}” the node differs from {witness}{waited}"
    of_kubelet = any(one.what == "kubelet" for one in failure.differences[:1])
    start = "A" if of_kubelet else "No promise in words is broken, but a"
    return Account("", f"{start}{differs}", witness)


def _seen(difference: Difference | None) -> str:
    if difference is None:
        return "it does not hold"
    if difference.what == "kubelet":
        return f"the kubelet {_PAST.get(difference.seen, difference.seen)}"
    instead = f", not {difference.expected}" if difference.expected else ""
    return f"{difference.what}: {difference.seen}{instead}"


_PAST: Final = {"runs": "ran", "down": "was down"}
