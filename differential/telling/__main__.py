"""Search the histories that tell named behaviours, and keep them.

    python -m differential.telling [-n 2] [--afresh]

What was kept is kept, and the search is for the rest: some minutes of processor time, with
``--afresh`` half an hour. The list in docs/identifying.md is written as well.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from conformance.identifying.history import History
from conformance.identifying.telling import KEPT, SEARCHED, Kept, Reason, kept, written
from differential.telling.page import PAGE, with_list
from differential.telling.search import few, searched, told
from differential.telling.seeds import length

#: How many histories are kept for each behaviour of a release, where there are so many.
_EACH = 3


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many processes")
    parser.add_argument("--afresh", action="store_true", help="forget what was kept")
    chosen, began = parser.parse_args(), time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stderr.flush()

    known = () if chosen.afresh else kept()
    new, untold = set[History](), dict[str, dict[str, Reason]]()
    with ProcessPoolExecutor(chosen.workers) as pool:
        ways = zip(SEARCHED, pool.map(partial(searched, known=known), SEARCHED), strict=True)
        for release, (found, untold[release]) in ways:
            say(f"{release}: {len(found)} more histories")
            new.update(found)
        say(f"{len(new)} histories: what each tells in every release")
        every = [*known, *pool.map(told, sorted(new, key=length))]
    tellings = few(every, _EACH)
    names = [{name for one in tellings for name in one.of(release)} for release in SEARCHED]
    reasons = {
        release: {
            title: reason for title, reason in untold[release].items() if title not in names_there
        }
        for release, names_there in zip(SEARCHED, names, strict=True)
    }
    KEPT.write_bytes(written(tellings, reasons))
    PAGE.write_text(with_list(PAGE.read_text(encoding="utf-8"), Kept(tuple(tellings), reasons)))
    counts = ", ".join(f"{len(there)} of {one}" for one, there in zip(SEARCHED, names, strict=True))
    say(f"{KEPT.name}: {len(tellings)} histories, {KEPT.stat().st_size} bytes; told: {counts}")


if __name__ == "__main__":
    main()
