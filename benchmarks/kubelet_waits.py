"""Where the time of a run on a real kubelet goes: the kubelet's own waits, and ours.

    python -m benchmarks.kubelet_waits [--one-by-one] 1.36 2s-2n-8c-smt2 [SCENARIO …]

Runs every scenario that applies once, one after the other, and prints how many seconds went into
which part, and the ratio of the whole to the kubelet's own waits: its start, the effects of steps
(it looks at its manifests, its runtime and its pods once a second), its end, and reconcile rounds.
With ``--one-by-one`` no sandbox is made ahead, and the end of each is waited for at once. Processor
time is that of the runner, and of what it started: kubelets and the first processes of sandboxes.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, Final

import topologies
from conformance.catalogue import catalogue
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.subjects.kubelet import KubeletSubject, node
from reference.steps import AwaitReconcile, Delete, Start, Step, Stop
from reference.view import View

#: What is waited for the kubelet.
KUBELETS: Final = ("start", "effects", "end", "reconcile rounds")


class Clock:
    """Seconds by part. What is measured inside of another part counts once, where it is inmost."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def measure(self, part: str, work: Callable[[], Any]) -> Any:
        """Do the work, and count its time."""
        self._inner.append(0.0)
        began = time.monotonic()
        try:
            return work()
        finally:
            took = time.monotonic() - began
            self.seconds[part] += took - self._inner.pop()
            self._inner[-1] += took


def part_of(step: Step) -> str:
    """What carrying a step out waits for."""
    match step:
        case Start():
            return "start"
        case Stop():
            return "end"
        case Delete():
            return "effects"
        case AwaitReconcile():
            return "reconcile rounds"
        case _:
            return "other steps"


class Timed(node.KubeletNode):
    """A node whose parts are timed."""

    clock: Clock

    def do(self, step: Step) -> None:
        self.clock.measure(part_of(step), lambda: super(Timed, self).do(step))

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """An effect, but for the time in which a view is compared."""

        def judged(view: View) -> bool:
            verdict: bool = self.clock.measure("comparing", lambda: satisfied(view))
            return verdict

        view: View = self.clock.measure("effects", lambda: super(Timed, self).settle(judged))
        return view

    def close(self) -> None:
        self.clock.measure("closing the sandbox", super().close)


class TimedSubject(KubeletSubject):
    """Makes timed nodes."""

    clock: Clock

    def node(self, *args: Any, **kwargs: Any) -> node.KubeletNode:
        """A fresh one; making it is timed too."""
        made: node.KubeletNode = self.clock.measure(
            "making the sandbox", lambda: super(TimedSubject, self).node(*args, **kwargs)
        )
        made.__class__ = Timed
        assert isinstance(made, Timed)
        made.clock = self.clock
        return made


def _used(who: int) -> float:
    used = getrusage(who)
    return used.ru_utime + used.ru_stime


def main(release: str, machine: str, *only: str, ahead: bool = True) -> None:
    subject = TimedSubject.open(release, ahead=ahead)
    assert isinstance(subject, TimedSubject)
    clock = subject.clock = Clock()
    judged, on = subject.info.release, topologies.machine(machine)
    oracle = partial(ModelOracle, release=judged)
    chosen = [one for one in catalogue() if not one.machine and (not only or one.id in only)]
    verdicts: Counter[str] = Counter()

    def run() -> None:
        for one in chosen:
            result = judge(Case(one, on), subject, oracle=oracle, release=judged).result
            verdicts[result.verdict] += 1

    try:
        clock.measure("the model, and all else", run)
    finally:
        clock.measure("closing the sandbox", subject.close)
    whole = sum(clock.seconds.values())
    waits = sum(clock.seconds[part] for part in KUBELETS)
    for part, seconds in sorted(clock.seconds.items(), key=lambda one: -one[1]):
        print(f"{seconds:8.1f} s  {seconds / whole:5.1%}  {part}")
    print(f"{whole:8.1f} s in all, {whole / waits:.2f} times the kubelet's own waits")
    print(f"processor: {_used(RUSAGE_SELF):.1f} s runner, {_used(RUSAGE_CHILDREN):.1f} s started")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--one-by-one"]
    main(*words, ahead=len(words) == len(sys.argv) - 1)
