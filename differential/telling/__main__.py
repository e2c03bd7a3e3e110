"""Search the histories that tell named behaviours, and keep them.

    python -m differential.telling [-n 2] [--check]

The search is always the whole one, whatever was kept before: about half an hour of processor time.
The list in docs/how-to/identifying.md is written as well. With ``--check`` nothing is written, and
exit status 1 says that something else is kept than what was found.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from conformance.identifying.history import History
from conformance.identifying.telling import KEPT, SEARCHED, Kept, Reason, read, written
from conformance.verdict import ExitStatus
from differential.command import parser_of
from differential.telling.page import PAGE, with_list
from differential.telling.search import few, searched, telling_of
from differential.telling.seeds import length

#: How many histories are kept for each behaviour of a release, where there are so many.
_EACH = 3


def main() -> ExitStatus:
    parser = parser_of(__doc__)
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many processes")
    parser.add_argument("--check", action="store_true", help="compare with what is kept")
    chosen, began = parser.parse_args(), time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stderr.flush()

    new, untold = set[History](), dict[str, dict[str, Reason]]()
    with ProcessPoolExecutor(chosen.workers) as pool:
        ways = zip(SEARCHED, pool.map(searched, SEARCHED), strict=True)
        for release, (found, untold[release]) in ways:
            say(f"{release}: {len(found)} histories")
            new.update(found)
        say(f"{len(new)} histories: what each tells in every release")
        every = list(pool.map(telling_of, sorted(new, key=length)))
    tellings = few(every, _EACH)
    names = [{name for one in tellings for name in one.of(release)} for release in SEARCHED]
    reasons = {
        release: {
            title: reason for title, reason in untold[release].items() if title not in names_there
        }
        for release, names_there in zip(SEARCHED, names, strict=True)
    }
    found_now = Kept(tuple(tellings), reasons)
    as_kept = found_now == read(KEPT.read_bytes())
    if not chosen.check:
        KEPT.write_bytes(written(*found_now))
        PAGE.write_text(with_list(PAGE.read_text(encoding="utf-8"), found_now))
    counts = ", ".join(f"{len(there)} of {one}" for one, there in zip(SEARCHED, names, strict=True))
    say(f"{KEPT.name}: {len(tellings)} histories{', as it is kept' * as_kept}; told: {counts}")
    return ExitStatus.NOT_CONFORMANT if chosen.check and not as_kept else ExitStatus.CONFORMANT


if __name__ == "__main__":
    sys.exit(main())
