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
    """A failure in words. ``promised`` is the promise or invariant that was broken, ``but`` what
    was seen instead. If the node only differs from its witness, ``promised`` is ``""``, and
    ``witness`` is what it differs from."""

    promised: str
    but: str
    witness: str = ""

    @property
    def verdict(self) -> str:
        """A heading of a few words."""
        return "the promise is broken" if self.promised else f"the node differs from {self.witness}"

    @property
    def sentence(self) -> str:
        return f"promised: {self.promised}; but: {self.but}" if self.promised else self.but


def as_expected(step: str, witness: str) -> str:
    """The rule that after a step the node is as its witness has it."""
    return f"After the step “{step}” the node is as {witness} has it"


def broken(rule: str) -> str:
    """The text of a broken rule. A promise stays as it is. For the rule of a witness, the text says
    that the node differs from it."""
    return _MODELLED.sub(r"After the step “\g<step>” the node differs from \g<witness>", rule)


def account(failure: Failure) -> Account:
    """The account of a failure."""
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
