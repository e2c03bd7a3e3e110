"""Random cases on the model and on the kubelet's own Go code.

    python -m benchmarks.exactness --release 1.36 --cases 100000 [--seed 1] [--first N]
    python -m benchmarks.exactness --replay case.json

Machines, options, Topology Manager policies, and histories of pods with removals, restarts and
hints are drawn; after each request the model and the driver (``pinproof driver build``) must say
the same, the state file to the byte. A case ends where the model says that the kubelet hangs; for
the first ten such cases the Go code is given three seconds to prove otherwise.

The first difference ends it, made small, told as a story and written to a file that can be
replayed. Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.exactness.cases import Case, draw, dumps, loads
from benchmarks.exactness.shrink import shrink
from benchmarks.exactness.walk import Difference, End, Script, compare
from conformance.describe import config_text
from conformance.subjects.exec import drivers
from conformance.subjects.exec.program import Program

#: For one answer of the Go code, which over 16 NUMA nodes takes a minute of processor time.
_PATIENCE, _HANG_PATIENCE = 900.0, 3.0


class Driver:
    """The driver of a release, started anew where it was lost."""

    def __init__(self, path: Path, *, hang_patience: float = _HANG_PATIENCE) -> None:
        self._path = path
        self._hang_patience = hang_patience
        self._program: Program | None = None

    def compare(self, case: Case, *, hangs: bool = False) -> tuple[Difference | None, Script]:
        """The first difference in a case, and the script that was walked."""
        if hangs:
            program = Program("driver", [str(self._path)], patience=_PATIENCE)
            try:
                return compare(case, program, hangs=self._hang_patience)
            finally:
                program.close()
        if self._program is None or self._program.lost:
            self._program = Program("driver", [str(self._path)], patience=_PATIENCE)
        return compare(case, self._program)

    def close(self) -> None:
        """End the program."""
        if self._program is not None:
            self._program.close()


def main() -> int:
    """Exit status: 0 no difference, 1 a difference."""
    asked = _arguments()
    if asked.replay:
        case = loads(asked.replay)
        driver = Driver(asked.driver or drivers.build(case.release))
        found, script = driver.compare(case)
        driver.close()
        print(story(case, script, found))
        return 1 if found else 0
    driver = Driver(asked.driver or drivers.build(asked.release))
    try:
        return _walk(driver, asked)
    finally:
        driver.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
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
    begun = time.monotonic()
    ends: Counter[End] = Counter()
    requests = sure = 0
    for number in range(asked.first, asked.first + asked.cases):
        case = draw(asked.seed, asked.release, number)
        found, script = driver.compare(case)
        if found is None and script.end is End.HANGS and sure < asked.hangs:
            sure += 1
            found, script = driver.compare(case, hangs=True)
        if found is not None:
            _tell(driver, case, asked, number)
            return 1
        ends[script.end] += 1
        requests += len(script.asked)
        done = number + 1 - asked.first
        if done % 1000 == 0:
            took = time.monotonic() - begun
            print(f"{done} cases, {requests} requests, {took:.0f} s", file=sys.stderr)
    took = time.monotonic() - begun
    told = ", ".join(f"{count} {end.value}" for end, count in sorted(ends.items(), key=str))
    print(
        f"{asked.release}: {asked.cases} cases (seed {asked.seed}), {requests} requests, "
        f"0 differences, {took:.0f} s: {told}; {sure} hangs made sure of"
    )
    return 0


def _tell(driver: Driver, case: Case, asked: argparse.Namespace, number: int) -> None:
    small = shrink(case, lambda one: driver.compare(one)[0] is not None)
    found, script = driver.compare(small)
    if found is None:  # not the same every time: chance, or a hang
        small = case
        found, script = driver.compare(case)
    asked.save.write_text(dumps(small))
    print(f"case {number} of seed {asked.seed}, made small:")
    print(story(small, script, found))
    print(f"replay: python -m benchmarks.exactness --replay {asked.save}")


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
    lines.append(f"configuration: {config_text(case.config)}")
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
