"""Kubelets that count the calls at their pod-resources socket in a wrong way are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.recording import PromisesOnly
from conformance.subjects.reference import ModelNode, ReferenceSubject, right_node
from reference.kubelet.pod_resources import ASKED, ASKED_ALLOCATABLE, ASKED_GET, ASKED_LIST
from reference.view import View
from topologies import machine

RELEASE = "1.37"


class _WrongNode(ModelNode):
    """A node of the model whose kubelet shows ``instead`` where it should show ``counter``."""

    counter = ""
    instead = ""

    def view(self) -> View:
        """The counters alone are wrong."""
        seen = super().view()
        if seen.metrics is None or not self.counter:
            return seen
        shown = dict(seen.metrics)
        count = shown.pop(self.counter, 0.0)
        if self.instead:
            shown[self.instead] = shown.get(self.instead, 0.0) + count
        return replace(seen, metrics=shown)

    def settle(self, satisfied: object) -> View:
        """The same: a model is always settled."""
        return self.view()


class _WrongSubject(ReferenceSubject):
    def __init__(self, counter: str, instead: str) -> None:
        super().__init__(release=RELEASE)
        self._made = type("_Wrong", (_WrongNode,), {"counter": counter, "instead": instead})

    def node(self, machine, config, *, machines):  # type: ignore[no-untyped-def]
        """A fresh wrong node."""
        made = right_node(lambda name: machines(name).tree, machine.name, config, RELEASE)
        return self._made(made)


@pytest.mark.parametrize(
    ("counter", "instead", "verdict"),
    [
        ("", "", "pass"),
        (ASKED, "", "fail"),
        (ASKED_LIST, "", "fail"),
        (ASKED_GET, ASKED_LIST, "fail"),
        (ASKED_ALLOCATABLE, ASKED_GET, "fail"),
    ],
)
def test_a_wrong_counter_is_caught(counter: str, instead: str, verdict: str) -> None:
    """By the promise alone."""
    scenario = find("metrics/pod-resources-requests-are-counted")
    assert scenario is not None
    case = Case(scenario, machine("1s-1n-4c-smt2"))
    subject = _WrongSubject(counter, instead)
    result = judge(case, subject, oracle=lambda *_, **__: PromisesOnly(), release=RELEASE).result
    assert result.verdict == verdict, result.explanation
