"""What the harness adds to a real kubelet's own times.

    python benchmarks/kubelet.py KUBELET [ROUNDS]

Prints, as medians: how long a start takes as the harness sees it against the kubelet's own (from
the order to execute it to the socket that it makes once its CPU manager is up), and how long a pod
takes to be seen running against the kubelet's own (from the manifest's rename to the call that
starts the container); then both ratios, the cost of making and closing a node, and how long the
deletion of a pod takes (up to a second: the kubelet asks its runtime once a second). Needs an idle
machine to mean anything; nothing here passes or fails.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import topologies
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import DEVICE_SOCKET
from reference.cpuset import CPUSet
from reference.steps import Apply, Container, Delete, KubeletConfig, Pod, Start
from reference.view import Phase, View

MACHINE: Final = "2s-4n-16c-smt2"
CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 16]))
PODS: Final = 3


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


class Stopwatch:
    """Notes when a node's sandbox is told to execute a kubelet."""

    def __init__(self, node: KubeletNode) -> None:
        self._node = node
        self._start = node.sandbox.start
        self._ordered = 0.0
        node.sandbox.start = self._ordering  # type: ignore[method-assign]

    def _ordering(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cgroups: Sequence[str] | None = None,
    ) -> None:
        self._ordered = time.time()
        self._start(argv, env, cgroups=cgroups)

    def kubelets_own(self) -> float:
        """Seconds from that moment to the socket."""
        return self._node.sandbox.path(DEVICE_SOCKET).stat().st_mtime - self._ordered


def running(name: str) -> Callable[[View], bool]:
    return lambda view: name in view.pods and view.pods[name].phase is Phase.RUNNING


def main(path: str, rounds: int) -> None:
    subject = KubeletSubject.open(path)
    machine = topologies.machine(MACHINE)
    figures: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        figures.setdefault(name, []).append(seconds)

    def make_into(made: list[KubeletNode]) -> None:
        made.append(subject.node(machine, CONFIG))

    for turn in range(rounds + 1):
        made: list[KubeletNode] = []
        making = timed(partial(make_into, made))
        (node,) = made
        stopwatch = Stopwatch(node)
        starting = timed(partial(node.do, Start()))
        if turn:  # the first kubelet also makes a key
            note("make a node", making)
            note("start, as seen", starting)
            note("start, the kubelet's own", stopwatch.kubelets_own())
        for number in range(PODS):
            one_pod(node, f"pod-{number}", note if turn and number else lambda name, seconds: None)
        closing = timed(node.close)
        if turn:
            note("close a node", closing)
    subject.close()
    for name, values in figures.items():
        print(f"{name:28s} {1000 * statistics.median(values):8.1f} ms")
    for what in ("start", "pod"):
        seen, own = (statistics.median(figures[f"{what}, {whose}"]) for whose in WHOSE)
        print(f"{what}: {seen / own:.2f} times the kubelet's own")


WHOSE: Final = ("as seen", "the kubelet's own")


def one_pod(node: KubeletNode, name: str, note: Callable[[str, float], None]) -> None:
    """Apply a pod and delete it."""
    pod = Pod(name, (Container("c", "2", "2", "64Mi", "64Mi"),))
    began = time.monotonic()
    node.do(Apply(pod))
    node.settle(running(name))
    note("pod, as seen", time.monotonic() - began)
    calls = [call for call in node.runtime.recent_calls(50) if call.method == "StartContainer"]
    note("pod, the kubelet's own", calls[-1].seconds - began)
    note("delete a pod", timed(lambda: node.do(Delete(name))))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: python benchmarks/kubelet.py KUBELET [ROUNDS]")
    main(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 10)
