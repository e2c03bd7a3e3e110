"""A subject that is the model, but for what a test does to its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from conformance.subject import NodeUnderTest
from conformance.subjects.reference import ModelNode, ReferenceSubject
from reference import NEWEST
from reference.steps import KubeletConfig, Step
from reference.view import View
from topologies import Machine

Change: TypeAlias = Callable[[ModelNode, Machine, KubeletConfig], ModelNode]


class Doctored(ReferenceSubject):
    """Each of its nodes is what ``change`` makes of one of the model."""

    def __init__(self, change: Change, *, release: str = NEWEST) -> None:
        super().__init__("doctored", release=release)
        self._change = change

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> ModelNode:
        """A changed node of the model."""
        return self._change(super().node(machine, config, machines=machines), machine, config)


class ShownAs(ModelNode):
    """A node that shows what ``wrong`` makes of its view, and is always settled."""

    def __init__(self, node: ModelNode, wrong: Callable[[View], View]) -> None:
        super().__init__(node._node)
        self._wrong = wrong

    def view(self) -> View:
        """The wrong one."""
        return self._wrong(super().view())

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Satisfying or not."""
        satisfied(self.view())
        return self.view()


def shown_as(wrong: Callable[[View], View], *, release: str = NEWEST) -> Doctored:
    """A subject whose nodes show wrong views."""
    return Doctored(lambda node, *_: ShownAs(node, wrong), release=release)


class TakingOver(ReferenceSubject):
    """The model of a release, which takes a node over as its kubelet has done these steps to it."""

    def __init__(self, release: str, *steps: Step) -> None:
        super().__init__("taking over", release=release)
        self._steps = steps

    def take_over(self, node: NodeUnderTest) -> None:
        """It then does the steps."""
        super().take_over(node)
        for step in self._steps:
            node.do(step)
