"""Many nodes at once: connecting and gathering facts, one node against all.

``python -m benchmarks.fleet 50`` starts as many SSH servers on this host, each answering from a
node made of files of its own, and says how long one takes and how long all take. A node of ours
takes this machine's CPUs, which real ones do not: that part is measured, and told apart. ``WAIT``
seconds of each answer stand for what a node takes its time for.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from hil.inspection import gather
from hil.transport import NodeAddress, connected, each
from tests.support.fakenode import FakeNode
from tests.support.sshd import own_sshd

MACHINE = "1s-1n-4c-smt1"
WAIT = 5


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        addresses: list[NodeAddress] = []
        roots: dict[str, str] = {}
        for number in range(count):
            fake = FakeNode(Path(place) / f"node{number}" / "root", MACHINE)
            folder = Path(place) / f"node{number}" / "sshd"
            server = stack.enter_context(own_sshd(folder, path=fake.environment["PATH"]))
            name = f"node{number}"
            roots[name] = str(fake.root)
            addresses.append(
                NodeAddress(
                    name, server.url, identity=(server.key,), known_hosts=server.known_hosts
                )
            )

        def work(address: NodeAddress) -> int:
            with connected(address) as shell:
                shell.run(f"sleep {WAIT}")
                facts = gather(shell, root=roots[address.name])
                assert facts.kubelet is not None
                return shell.trips

        one, _ = _timed(lambda: each(addresses[:1], work))
        everything, trips = _timed(lambda: each(addresses, work))
        assert all(isinstance(trip, int) for trip in trips), trips
        mine = resource.getrusage(resource.RUSAGE_SELF)
        stack.close()
    theirs = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = len(os.sched_getaffinity(0))
    # Of all that ran since the start, count + 1 nodes' worth; the servers' start is in it, too.
    used = (mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime) / cores
    print(f"one node: {one:.2f} s; {count} nodes: {everything:.2f} s, {used:.2f} s of it CPU-bound")
    print(f"beyond CPU-bound work: {max(0.0, everything - used) / one:.2f} times one node's time")


def _timed(work: object) -> tuple[float, list[object]]:
    assert callable(work)
    began = time.monotonic()
    result = work()
    return time.monotonic() - began, result


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 50)
