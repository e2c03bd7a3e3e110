"""How large the catalogue is, and how long it takes to load and to discover all of it.

    python benchmarks/machines.py

Prints the catalogue's size, the processor time for loading and discovering every machine once in a
fresh process, and the slowest of them; then what a load costs against unpacking the same archive
with the standard library, a ratio that varies less from host to host. Nothing here passes or fails.
"""

from __future__ import annotations

import lzma
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import topologies
from reference import discover
from topologies.entries import CATALOGUE


def timed(action: Callable[[], object]) -> float:
    """Seconds of processor time that an action takes."""
    started = time.process_time()
    action()
    return time.process_time() - started


def unpacked(path: Path) -> list[bytes]:
    """Every file of an archive, as the standard library reads it."""
    with tarfile.open(path) as archive:
        return [
            stream.read()
            for member in archive
            if member.isfile() and (stream := archive.extractfile(member)) is not None
        ]


def found(name: str) -> object:
    """The CPU topology of a machine that is loaded already."""
    return discover(topologies.machine(name).tree).cpu_topology()


def main() -> None:
    names = topologies.names()
    size = sum(path.stat().st_size for path in CATALOGUE.iterdir())
    captured = sorted(CATALOGUE.glob("*.tar.xz"))
    print(f"{len(names)} machines, {len(captured)} of them captured, {size / 1e6:.2f} MB")
    loads = {name: timed(partial(topologies.machine, name)) for name in names}
    discoveries = {name: timed(partial(found, name)) for name in names}
    for what, times in (("load", loads), ("discover", discoveries)):
        slowest = max(times, key=lambda name: times[name])
        print(
            f"{what} all: {sum(times.values()):.2f} s; slowest: {slowest}, {times[slowest]:.3f} s"
        )
    print(f"both: {sum(loads.values()) + sum(discoveries.values()):.2f} s")
    largest = max(captured, key=lambda path: path.stat().st_size)
    ours = min(timed(partial(topologies.read_tree, largest)) for _ in range(5))
    theirs = min(timed(partial(unpacked, largest)) for _ in range(5))
    packed = largest.read_bytes()
    bare = min(timed(partial(lzma.decompress, packed)) for _ in range(5))
    print(
        f"{largest.name}: {ours:.3f} s, {ours / theirs:.2f} of tarfile's, "
        f"{ours / bare:.1f} times the decompression alone"
    )


if __name__ == "__main__":
    main()
