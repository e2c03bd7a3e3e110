"""Search the histories that tell named behaviours, and keep them.

    python -m differential.telling [-n 2]

It takes some minutes of processor time.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from conformance.identifying.telling import KEPT, SEARCHED, written
from differential.telling.search import Search, told
from differential.telling.seeds import length


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many processes")
    workers, began = parser.parse_args().workers, time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stderr.flush()

    search = Search(say)
    for release in SEARCHED:
        search.release(release)
    every = sorted({one for many in search.found.values() for one in many}, key=length)
    say(f"{len(every)} histories: what each tells in every release")
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(told, every, chunksize=4))
    KEPT.write_bytes(written(one for one in found if one.tells))
    say(f"{KEPT.name}: {len(found)} histories")


if __name__ == "__main__":
    main()
