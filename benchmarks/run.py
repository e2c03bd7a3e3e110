"""How long ``pinproof run`` takes: the whole catalogue on every machine, and one real kubelet.

    python benchmarks/run.py [KUBELET]

Prints wall times and what a scenario costs, reports included. On two idle processors a kubelet's
whole catalogue on one machine is to take less than 60 seconds; the reference in two processes has
3 seconds of reports beyond the budget of ``benchmarks.commands --all``.
Needs an idle machine to mean anything; nothing here passes or fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conformance.results import Footer, Result, read


def timed(*arguments: str) -> tuple[float, list[Result], Footer]:
    """Wall time of a run, its results and its footer."""
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pinproof", "run", *arguments, "--report", scratch],
            check=False,
            stdout=subprocess.DEVNULL,
        )
        took = time.perf_counter() - started
        records = list(read(Path(scratch) / "result.jsonl"))
    footer = records[-1]
    assert isinstance(footer, Footer)
    return took, [one for one in records if isinstance(one, Result)], footer


def show(title: str, *arguments: str) -> None:
    """One line for one kind of run."""
    took, results, footer = timed(*arguments)
    ran = [one for one in results if one.verdict != "skip"]
    slowest = max(ran, key=lambda one: one.seconds)
    print(
        f"{title}: {took:.1f} s for {len(ran)} scenarios ({took / len(ran) * 1000:.0f} ms each, "
        f"{sum(one.seconds for one in ran) / len(ran):.2f} s inside), exit status "
        f"{footer.exit_status}; slowest {slowest.scenario} on {slowest.machine.name}: "
        f"{slowest.seconds:.2f} s"
    )


def main() -> None:
    """Every kind of run, one after the other."""
    show("reference, all machines, one process", "-n", "0")
    show("reference, all machines, two processes", "-n", "2")
    if len(sys.argv) > 1:
        two = ("--machine", "2s-4n-64c-smt2", "--machine", "1s-1n-4c-smt2")
        subject = ("--subject", f"kubelet:{sys.argv[1]}")
        show("kubelet, two machines, one at a time", *subject, *two, "-n", "0")
        show("kubelet, two machines, two at a time", *subject, *two, "-n", "2")
        one = ("--machine", "2s-2n-16c-smt2", "-n", "2")
        show("kubelet, one machine, the whole catalogue", *subject, *one)
        show("kubelet, one machine, the core level", *subject, *one, "--level", "core")


if __name__ == "__main__":
    main()
