"""Oracles say what is right after each step: by the model, or by a recording of a real kubelet.

An oracle takes each step with the subject. It is never the only judge: the scenario states its
promise, and the invariants always hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from conformance.discovered import info_of
from reference import Node
from reference.node import Trees
from reference.steps import KubeletConfig, Start, Step, Tamper
from reference.view import View
from topologies import Machine


class Oracle(Protocol):
    """Says what a node looks like after each step."""

    #: The oracle's name in reports.
    name: str

    def after(self, step: Step) -> View | None:
        """The settled view after ``step``; ``None`` if this oracle does not know it."""

    @property
    def outcomes(self) -> int:
        """How many outcomes the last step may have; 1 unless chance decides."""

    def follow(self, seen: View, *, late: bool) -> View | None:
        """The right view if chance has decided as ``seen`` shows; the oracle then goes on from it.
        It equals ``seen`` by ``==``, which leaves out some fields: there ``seen`` may still be
        wrong. ``None`` if chance cannot decide so. ``late``: the subject's deadline has passed, so
        the kubelet has not done what it may leave undone."""


class ModelOracle:
    """The reference model of the subject's release. ``architecture``: the one that the subject was
    built for (:func:`conformance.discovered.architecture_of`)."""

    def __init__(
        self,
        machine: Machine,
        config: KubeletConfig,
        *,
        machines: Callable[[str], Machine],
        release: str,
        architecture: str | None = None,
    ) -> None:
        self.name = f"the model of {release}"
        self._architecture = architecture
        self._node = self._made(lambda name: machines(name).tree, machine.name, config, release)
        self._tampered: set[tuple[str, str]] = set()

    def _made(self, trees: Trees, machine: str, config: KubeletConfig, release: str) -> Node:
        discovering = partial(info_of, architecture=self._architecture)
        return Node(trees, machine, config, release=release, discovering=discovering)

    def hand_over(self, release: str) -> None:
        """Go on with a kubelet of another release. Raises :class:`reference.NotModelled`."""
        self._node = self._node.handed_over(
            lambda trees, machine, config: self._made(trees, machine, config, release)
        )
        self.name = f"the model of {release}"

    def after(self, step: Step) -> View | None:
        if isinstance(step, Tamper):
            self._tampered.add((step.pod, step.container))
        elif isinstance(step, Start):
            self._tampered.clear()
        self._node.do(step)
        return self._node.view()

    @property
    def outcomes(self) -> int:
        return self._node.outcomes

    def follow(self, seen: View, *, late: bool) -> View | None:
        """Chance decides the order in which a starting kubelet admits pods, and which of several
        errors it names (Go's map order)."""
        if self._tampered and self._follow_repair(seen):
            return self._node.view()
        if seen.error and seen.error in self._node.possible_errors:
            right = replace(self._node.view(), error=seen.error)
            return right if right == seen else None
        return self._node.view() if self._node.follow(seen, late=late) else None

    def _follow_repair(self, seen: View) -> bool:
        """A kubelet may repair what was changed by hand, although its release need not: it may send
        more updates than needed, and systemd may write again what the runtime asked of it (which
        depends on systemd's release)."""
        expected = self._node.view()
        for pod, container in self._tampered:
            right = expected.assignments.get(pod, {}).get(container, expected.shared_pool)
            runs = container in expected.cpusets.get(pod, {})
            if runs and seen.cpusets.get(pod, {}).get(container) == right:
                self._node.do(Tamper(pod, container, right))
        return self._node.view() == seen
