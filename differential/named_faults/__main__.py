"""Faults that an author of a fork makes by accident, tried on a kubelet that holds them all.

    python -m differential.named_faults [--only 'hint-*'] [--part alone] [--keep]
    python -m differential.named_faults --page > docs/tables/named-faults.md

tries each fault alone on the scenarios that must catch it, all allowed changes at once on the whole
catalogue, which must accuse none, and all faults at once, which must not be conformant.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial

from conformance.verdict import ExitStatus, Verdict
from differential.command import is_asked, parser_of, status_of, tell
from differential.mutants.witness import CaseName, Said, cases, is_caught
from differential.mutants.workers import Workers
from differential.named_faults import seen, trials
from differential.named_faults.faults import MACHINE, Fault, known_faults
from differential.named_faults.programs import programs
from differential.named_faults.trials import Judges, Tried

_PARTS = ("alone", "allowed", "together")
#: The trial of all faults at once ends after so many cases that fail.
_ENOUGH = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a fault lives or an allowed change was accused, 2 wrong usage, 3 a
    program could not be built or a scenario gave no verdict, 4 no fault was chosen."""
    asked = _arguments(argv)
    if asked.page:
        sys.stdout.write(seen.page(known_faults(), seen.read()))
        return ExitStatus.CONFORMANT
    chosen = [one for one in known_faults() if is_asked(one.name, asked.only)]
    if not chosen:
        tell("named faults: none was chosen")
        return ExitStatus.TOO_FEW
    return status_of("named faults", lambda: _run(chosen, asked))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "python -m differential.named_faults")
    parser.add_argument("--only", action="append", default=[], help="names, with * and ?")
    parser.add_argument(
        "--part", action="append", choices=_PARTS, default=[], help="all three by default"
    )
    parser.add_argument("-k", dest="scenarios", help="in the parts allowed and together: scenarios")
    parser.add_argument(
        "--witness",
        choices=["kubelet", "driver"],
        default="kubelet",
        help="the driver shows some of the faults, in seconds",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep what was caught for the page")
    page_help = "write docs/tables/named-faults.md and end"
    parser.add_argument("--page", action="store_true", help=page_help)
    return parser.parse_args(argv)


def _run(chosen: Sequence[Fault], asked: argparse.Namespace) -> int:
    made = programs(tell)
    path = made.kubelet(tell) if asked.witness == "kubelet" else made.driver(tell)
    # A kubelet that is late gives no verdict, and there are few trials.
    with closing(Workers(asked.witness, path, asked.workers, niceness=0)) as workers:
        return max(_part(part, chosen, workers, asked) for part in asked.part or _PARTS)


def _part(
    part: str, chosen: Sequence[Fault], judges: Judges, asked: argparse.Namespace
) -> ExitStatus:
    if part == "alone":
        return _alone(chosen, judges, asked)
    wanted = [one for one in chosen if one.allowed == (part == "allowed")]
    if not wanted:
        return ExitStatus.CONFORMANT
    every = [
        one
        for one in cases([MACHINE])
        if not asked.scenarios or any(word in one.scenario for word in asked.scenarios.split(","))
    ]
    return (_allowed if part == "allowed" else _together)(wanted, every, judges)


def _alone(chosen: Sequence[Fault], judges: Judges, asked: argparse.Namespace) -> ExitStatus:
    on_driver = asked.witness == "driver"
    if on_driver and not asked.keep:
        chosen = seen.for_driver(chosen, seen.read())
    rows = trials.alone(chosen, judges, _tell_tried)
    if asked.keep:
        (seen.keep_driver if on_driver else partial(seen.keep, known_faults()))(rows)
    real = [one for one in chosen if not one.allowed]
    caught = sum(all(row.caught for row in rows if row.fault == one.name) for one in real)
    print(f"{caught} of {len(real)} named faults are caught by each scenario that must catch them")
    return _status(rows, unnamed=any(not one.caught_by for one in real))


def _tell_tried(tried: Tried) -> None:
    word = "caught" if tried.caught else "LIVES" if tried.has_verdict else "no verdict"
    tell(f"{word:10} {tried.fault} by {tried.case}: {seen.sentence(tried)}")


def _status(rows: Iterable[Tried], *, unnamed: bool) -> ExitStatus:
    left = [row for row in rows if not row.caught]
    if unnamed or any(row.has_verdict for row in left):
        return ExitStatus.NOT_CONFORMANT
    return ExitStatus.COULD_NOT_TELL if left else ExitStatus.CONFORMANT


def _allowed(chosen: Sequence[Fault], every: Sequence[CaseName], judges: Judges) -> ExitStatus:
    rows = trials.accused(chosen, every, judges, _progress(len(every)))
    for row in rows:
        tell(f"ACCUSED    {row.fault} by {row.case}: {seen.sentence(row)}")
    print(f"{len(chosen)} allowed changes, {len(every)} cases: {len(rows)} accusations")
    return ExitStatus.NOT_CONFORMANT if rows else ExitStatus.CONFORMANT


def _together(chosen: Sequence[Fault], every: Sequence[CaseName], judges: Judges) -> ExitStatus:
    failed: list[CaseName] = []
    tried = 0
    for case, said in trials.together(chosen, every, judges):
        tried += 1
        if is_caught(said):
            failed.append(case)
        if len(failed) == _ENOUGH:
            break
    print(f"{len(chosen)} faults at once: {len(failed)} of the first {tried} cases fail")
    return ExitStatus.CONFORMANT if failed else ExitStatus.NOT_CONFORMANT


def _progress(total: int) -> Callable[[CaseName, Said], None]:
    done = itertools.count(1)

    def progress(case: CaseName, said: Said) -> None:
        number = next(done)
        if said.verdict not in (Verdict.PASS.value, Verdict.SKIP.value) or number % 20 == 0:
            tell(f"{number} of {total} cases: {case}: {said.verdict} {said.reason}")

    return progress


if __name__ == "__main__":
    sys.exit(main())
