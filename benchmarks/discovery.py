"""How long it takes from a machine's archive to its CPU topology.

    python -m benchmarks.discovery [ARCHIVE]...

Without arguments, two sockets with 384 CPUs, and the three largest machines of the catalogue,
packed with xz. Prints milliseconds, the best of several rounds, of the whole way, of decompression
and of discovery alone, and the ratio of the whole way to reading the same archive with ``tarfile``,
which varies less from machine to machine than milliseconds do. Exit status 1 where the 384 CPUs
take more than 60 ms, which needs an idle machine to mean anything; a plain loop before and after
tells whether it was one.
"""

from __future__ import annotations

import lzma
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import topologies
from reference import CPUTopology, discover
from topologies.packing import pack

LARGEST = 3
#: A machine of 384 CPUs, and how many milliseconds its way may take.
MANY_CPUS, MOST_MILLISECONDS = "2s-8n-192c-smt2-l3x3", 60.0
LOOP = 500_000
RELEASES = ("1.18", "1.20", "1.28", "1.37")


def best(action: Callable[[], object], *, rounds: int = 20) -> float:
    """Milliseconds of the best round."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return min(taken) * 1000


def read_plainly(archive: Path) -> int:
    """Every file of an archive, read and thrown away."""
    with tarfile.open(archive) as opened:
        files = (opened.extractfile(member) for member in opened if member.isfile())
        return sum(len(file.read()) for file in files if file)


def topology_of(archive: Path, release: str) -> CPUTopology:
    """The whole way."""
    return discover(topologies.load(archive, check=False), release=release).cpu_topology()


def show(archive: Path) -> float:
    """The figures of one archive; returns the slowest whole way."""
    tree = topologies.load(archive, check=False)
    plain = best(partial(read_plainly, archive), rounds=5)
    packed = archive.read_bytes()
    bare = ""
    if archive.name.endswith("xz"):
        bare = f", decompression alone {best(partial(lzma.decompress, packed)):.1f} ms"
    print(f"{archive.name}: {len(tree)} files, tarfile alone {plain:.1f} ms{bare}")
    slowest = 0.0
    for release in RELEASES:
        whole = best(partial(topology_of, archive, release))
        alone = best(partial(discover, tree, release=release))
        print(f"  {release:>5}  {whole:7.1f} ms  {whole / plain:5.2f}  discovery {alone:6.1f} ms")
        slowest = max(slowest, whole)
    return slowest


def show_pace() -> None:
    """How fast the interpreter is just now."""
    print(f"a loop of {LOOP} steps: {best(partial(sum, range(LOOP))):.2f} ms")


def main() -> int:
    """Print the figures; the exit status."""
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            show(Path(name))
        return 0
    show_pace()
    machines = sorted(map(topologies.machine, topologies.names()), key=lambda one: len(one.tree))
    with tempfile.TemporaryDirectory() as scratch:
        times = {}
        for machine in (topologies.machine(MANY_CPUS), *machines[-LARGEST:]):
            archive = Path(scratch) / f"{machine.name}.tar.xz"
            pack(machine.tree, archive)
            times[machine.name] = show(archive)
    show_pace()
    return 0 if times[MANY_CPUS] <= MOST_MILLISECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
