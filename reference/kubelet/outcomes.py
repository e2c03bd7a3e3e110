"""What may come of a kubelet's start, where chance decides.

A kubelet that starts admits its pods in an order of several, and a release may forget to end the
containers of a pod that it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

from reference.kubelet.kubelet import Kubelet
from reference.pods.pod import Pod

#: A kubelet after its start, and the state file it leaves.
Branch: TypeAlias = tuple[Kubelet, str | None]


def branches_of(fresh: Kubelet, pods: Sequence[Pod], state_file: str | None) -> list[Branch]:
    """The kubelets that may come of this start, each different from the others. ``state_file`` is
    the text that lies there now."""
    branches: list[Branch] = []
    for kubelet in _outcomes(fresh, list(pods)):
        text = kubelet.unsaved_state()
        branch = (kubelet, state_file if text is None else text)
        if all(not _same(branch, other) for other in branches):
            branches.append(branch)
    return branches


def _outcomes(fresh: Kubelet, pods: list[Pod]) -> Iterator[Kubelet]:
    for order in fresh.orders(pods):
        kubelet = fresh.copy()
        kubelet.take_up(order)
        yield kubelet
        forgotten = kubelet.may_run_on(pods, fresh.runtime)
        for count in range(1, len(forgotten) + 1):
            for some in combinations(forgotten, count):
                kubelet = fresh.copy()
                kubelet.take_up(order, running_on=some)
                yield kubelet


def _same(one: Branch, other: Branch) -> bool:
    (kubelet, text), (other_kubelet, other_text) = one, other
    return (
        text == other_text
        and kubelet.pods == other_kubelet.pods
        and kubelet.runtime.running() == other_kubelet.runtime.running()
    )
