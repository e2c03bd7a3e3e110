"""Random cases on the model and on the kubelet's own Go code.

    python -m differential.exactness --release 1.36 --cases 100000 [--seed 1] [--first N]
    python -m differential.exactness --replay case.json

Machines, options, feature gates, Topology Manager policies, and histories of pods with removals,
resizes, hints, restarts and changed state files are drawn. After each request the model and the
driver (``pinproof build driver``) must answer alike, the state file to the byte. A case ends where
the model says that the kubelet hangs. In the first ten such cases the Go code has three seconds to
answer after all.

The first difference ends the run. Its case is made small, printed step by step, and written to a
file that can be replayed. Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from conformance.subjects.exec import drivers
from conformance.subjects.exec.program import Starved
from differential.command import parser_of
from differential.exactness.cases import Case, dumps, loads
from differential.exactness.drawing import draw
from differential.exactness.driver import Driver
from differential.exactness.script import Difference, End, Script
from differential.exactness.shrink import shrink
from differential.exactness.walk import Model


def main() -> int:
    """Exit status: 0 no difference, 1 a difference, 3 no verdict: the Go code had no processor."""
    try:
        return _compared(_arguments())
    except Starved as error:
        print(f"exactness: no verdict: {error}", file=sys.stderr)
        return 3


def _compared(asked: argparse.Namespace) -> int:
    if asked.replay:
        case = loads(asked.replay.read_bytes())
        with closing(Driver(asked.driver or drivers.build(case.release))) as driver:
            found, script = driver.compare(case)
        print(story(case, script, found))
        return 1 if found else 0
    with closing(Driver(asked.driver or drivers.build(asked.release))) as driver:
        return _walk(driver, asked)


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--release", default="1.36")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--hangs", type=int, default=10, help="how many hangs to make sure of")
    parser.add_argument("--driver", type=Path, help="a driver's path, instead of a built one")
    parser.add_argument("--replay", type=Path, help="walk the case in this file")
    parser.add_argument("--save", type=Path, default=Path("difference.json"))
    return parser.parse_args()


def _walk(driver: Driver, asked: argparse.Namespace) -> int:
    numbers = range(asked.first, asked.first + asked.cases)
    tally = Tally()
    cases = (draw(asked.seed, asked.release, number) for number in numbers)
    for number, (case, found, script) in zip(numbers, driver.walk(cases), strict=True):
        if found is None and script.end is End.HANGS and tally.sure < asked.hangs:
            tally.sure += 1
            found, script = driver.make_sure_it_hangs(case)
        if found is not None:
            _report(driver, case, asked, number, found)
            return 1
        tally.note(script)
        if tally.cases % 1000 == 0:
            print(tally, file=sys.stderr, flush=True)
    print(f"{asked.release} (seed {asked.seed}): {tally}, 0 differences")
    print(tally.ends_text())
    return 0


class Tally:
    """The outcomes of the cases so far. ``sure``: for how many hangs the Go code was asked."""

    def __init__(self) -> None:
        self.cases = self.sure = 0
        self._begun = time.monotonic()
        self._requests = 0
        self._ends: Counter[End] = Counter()
        self._outside: Counter[str] = Counter()

    def note(self, script: Script) -> None:
        self.cases += 1
        self._requests += len(script.asked)
        self._ends[script.end] += 1
        if script.end is End.OUTSIDE:
            self._outside[re.sub(r"\[[0-9, ]+\]", "[…]", script.outside)[:150]] += 1

    def __str__(self) -> str:
        took = time.monotonic() - self._begun
        return (
            f"{self.cases} cases, {self._requests} requests, {took:.0f} s, "
            f"{self.cases / max(took, 0.001):.0f} cases/s"
        )

    def ends_text(self) -> str:
        """How the cases ended; what the model does not know, most frequent first."""
        ends = [f"{count} {end.value}" for end, count in sorted(self._ends.items(), key=str)]
        if self.sure:
            ends.append(f"{self.sure} hangs made sure of")
        lines = [", ".join(ends)]
        lines += [
            f"  not known {count} times: {what}" for what, count in self._outside.most_common(8)
        ]
        return "\n".join(lines)


def _report(
    driver: Driver, case: Case, asked: argparse.Namespace, number: int, first: Difference
) -> None:
    small = shrink(case, lambda one: first.is_like(_seen(driver, one)[0]))
    found, script = _seen(driver, small)
    if found is None:  # not the same every time: chance, or a hang
        small = case
        found, script = _seen(driver, case)
    asked.save.write_text(dumps(small))
    print(f"case {number} of seed {asked.seed}, made small:")
    print(story(small, script, found))
    if found is None:
        print(f"it differed once: {first.asked}: model: {first.model}, Go: {first.go}")
    print(f"replay: python -m differential.exactness --replay {asked.save}")


def _seen(driver: Driver, case: Case) -> tuple[Difference | None, Script]:
    """As :meth:`Driver.compare`. Where the Go code has no processor it shows no difference. The one
    that was found before is reported even so."""
    try:
        return driver.compare(case)
    except Starved:
        return None, Model(case).script()


def story(case: Case, script: Script, found: Difference | None) -> str:
    """The case in words, and where the two differ."""
    lines = [f"release {case.release}", "machine: NUMA node/socket/core: CPUs (uncore cache)"]
    for node in case.machine.nodes:
        cores = ", ".join(
            f"{core.socket_id}/{core.core_id}: {','.join(map(str, core.thread_ids))}"
            + (f" (L3 {core.uncore_caches[0].id})" if core.uncore_caches else "")
            for core in node.cores
        )
        lines.append(f"  node {node.node_id} {list(node.distances)}: {cores or 'no CPUs'}")
    lines.append(
        f"  {case.machine.num_cores} CPUs, {case.machine.num_physical_cores} cores, "
        f"{case.machine.num_sockets} sockets"
    )
    lines.append(f"configuration: {case.config}")
    for step in script.asked:
        lines.append(f"  {step.words}")
        if found is not None and found.asked.startswith(step.words):
            break
    if found is None:
        return "\n".join([*lines, f"no difference; it {script.end.value}"])
    lines += [f"differs at: {found.asked}", f"  model: {found.model}", f"  Go:    {found.go}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
