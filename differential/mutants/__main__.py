"""The mutation score of the catalogue: how many planted faults it catches.

    python -m differential.mutants 1.36 --resume result.jsonl [--sample 300 --seed 1] [--minutes 30]

plants faults in the Go source of a release, builds one driver and one kubelet that hold them all
behind a switch, and runs the catalogue on each fault: the driver first, then, on what survives it,
the kubelet in the loop. docs/how-to/mutants.md.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

import topologies
from conformance.catalogue import catalogue
from conformance.verdict import ExitStatus
from differential.command import is_asked, parser_of, status_of, tell
from differential.mutants import report
from differential.mutants.equivalent import known_equivalents, reason_of
from differential.mutants.hunt import (
    CAUGHT,
    NOT_REACHED,
    OPEN,
    SURVIVED,
    Outcome,
    most_telling,
    reaching,
)
from differential.mutants.ledger import Header, Ledger, Row
from differential.mutants.planting import Mutant
from differential.mutants.programs import Programs, programs
from differential.mutants.reach import cases_kept, cases_that_pass
from differential.mutants.report import Score
from differential.mutants.witness import Passed, cases, catalogue_digest
from differential.mutants.workers import Workers

#: Two sockets; and eight NUMA nodes in two sockets with two uncore caches each.
_MACHINES: Final = ("2s-2n-8c-smt2", "2s-8n-128c-smt2-l3x2")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a score below the floor, 2 wrong usage, 3 a program could not be
    built or does not behave like the released one with no fault on, 4 nothing to try."""
    asked = _arguments(argv)
    return status_of("mutants", lambda: _run(asked))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "python -m differential.mutants")
    parser.add_argument("release", help="such as 1.36 or 1.36.4")
    parser.add_argument(
        "--machine", action="append", help="a machine of the catalogue; the first is the kubelet's"
    )
    parser.add_argument("--sample", type=int, help="take this many mutants at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--new-since", metavar="RELEASE", help="only in lines new since RELEASE")
    parser.add_argument("--only", action="append", default=[], help="ids, with * and ?")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep results in this file")
    parser.add_argument(
        "--witness",
        choices=["driver", "kubelet", "both", "none"],
        default="both",
        help="none: only report",
    )
    parser.add_argument(
        "--cached-kubelet", action="store_true", help="use the kubelet only if it was built before"
    )
    parser.add_argument("--scenario", action="append", default=[], help="try these scenarios only")
    parser.add_argument(
        "--without", action="append", default=[], help="leave this scenario out, on both witnesses"
    )
    parser.add_argument("--group", type=int, default=12, help="mutants in a kubelet at once")
    parser.add_argument("--cases", type=int, help="try each group on at most this many cases")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="try mutants so long on each witness"
    )
    parser.add_argument("--floor", type=float, default=0.0, help="the score in %% that is owed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as Markdown")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    return parser.parse_args(argv)


def _run(asked: argparse.Namespace) -> int:
    made = programs(asked.release, tell)
    chosen = _chosen(made, asked)
    if not chosen:
        tell("mutants: none was chosen")
        return ExitStatus.TOO_FEW
    if asked.list:
        for one in chosen:
            print(f"{one.id}\n    {one.before}  =>  {one.after or 'left out'}")
        print(f"{len(chosen)} mutants of {made.version}")
        return ExitStatus.CONFORMANT
    machines = [topologies.machine(name).name for name in asked.machine or _MACHINES]
    header = Header(
        str(made.version), made.folder.name, catalogue_digest(), machines, len(made.planted.mutants)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = asked.resume or Path(folder, "results.jsonl")
        results = Ledger(path, header, reading=asked.witness == "none")
        return _try_all(_Session(made, chosen, results, asked, machines), header)


def _try_all(session: _Session, header: Header) -> int:
    asked, chosen = session.asked, session.chosen
    if asked.witness in ("driver", "both"):
        session.drive()
    if asked.witness in ("kubelet", "both"):
        session.loop()
    rows = [session.ledger.rows[one.id] for one in chosen if one.id in session.ledger.rows]
    print(report.summary(rows, known_equivalents(), len(chosen)))
    if asked.report:
        text = report.page(header, rows, known_equivalents(), len(chosen), how=_choice_text(asked))
        asked.report.write_text(text)
    score = Score(rows, known_equivalents()).percent
    if score < asked.floor:
        tell(f"mutants: the score {score:.1f} % is below {asked.floor:g} %")
        return ExitStatus.NOT_CONFORMANT
    return ExitStatus.CONFORMANT


def _choice_text(asked: argparse.Namespace) -> str:
    new = f", of those in lines that {asked.new_since} does not have" if asked.new_since else ""
    return (
        f"They were chosen at random with seed {asked.seed}{new}. The catalogue had "
        f"{len(catalogue())} scenarios then. A mutant that an earlier catalogue caught was not "
        "tried again."
    )


def _chosen(made: Programs, asked: argparse.Namespace) -> list[Mutant]:
    mutants = list(made.planted.mutants)
    if asked.new_since:
        mutants = list(made.planted.new_since(programs(asked.new_since, tell).planted))
    mutants = [one for one in mutants if is_asked(one.id, asked.only)]
    # In random order, so that the mutants of a short run are a sample, too.
    random.Random(asked.seed).shuffle(mutants)
    if asked.sample is not None:
        mutants = mutants[: asked.sample]
    return mutants


@dataclass(frozen=True)
class _Session:
    """One run: the driver tries every mutant, the kubelet those that the driver leaves."""

    _made: Programs
    chosen: Sequence[Mutant]
    ledger: Ledger
    asked: argparse.Namespace
    _machines: Sequence[str]

    @cached_property
    def _by_number(self) -> dict[int, Mutant]:
        return {one.number: one for one in self.chosen}

    def drive(self) -> None:
        """Try each mutant that was not tried yet on the driver."""
        with closing(Workers("driver", self._made.driver(tell), self.asked.workers)) as workers:
            passed = self._passed(workers, self._machines)
            todo = [one.number for one in self.chosen if one.id not in self.ledger.rows]
            groups = [([number], reaching([number], passed)) for number in todo]
            for outcomes in workers.hunt(groups, self._until()):
                # The kubelet may catch what survives the driver or is not part of it.
                self._note([_open(one) for one in outcomes])

    def loop(self) -> None:
        """Try each mutant that is left on the kubelet, in groups."""
        path = self._made.ready_kubelet()
        if path is None and self.asked.cached_kubelet:
            tell("no kubelet with these mutants was built before: the driver alone has judged")
            return
        path = path or self._made.kubelet(tell)
        with closing(Workers("kubelet", path, self.asked.workers)) as workers:
            passed = self._more_than_the_driver(self._passed(workers, self._machines[:1]))
            if not self.asked.scenario:
                self._note(self._out_of_reach(passed))
            groups = self._groups(passed)
            tell(f"{len(groups)} groups of at most {self.asked.group} mutants for the kubelet")
            for outcomes in workers.hunt(groups, self._until()):
                # Other scenarios may still catch what these do not.
                self._note([_open(one) for one in outcomes] if self.asked.scenario else outcomes)

    def _until(self) -> float:
        return time.monotonic() + float(self.asked.minutes) * 60

    def _left(self) -> list[int]:
        """The mutants that the driver has left, without those that are known to be equivalent."""
        known = known_equivalents()
        asked = (one for one in self.chosen if reason_of(one, known) is None)
        rows = (self.ledger.rows.get(one.id) for one in asked)
        return [row.mutant.number for row in rows if row and row.outcome.status == OPEN]

    def _out_of_reach(self, passed: Sequence[Passed]) -> list[Outcome]:
        """The outcomes of the mutants that are left and that no case would try on the kubelet: they
        survived the driver, or no case of either witness reaches them."""
        reached = {number for each in passed for number in each.reached}
        missed = [number for number in self._left() if number not in reached]
        tried = {row.mutant.number: row.outcome.tried for row in self.ledger.rows.values()}
        return [
            Outcome(one, SURVIVED if tried.get(one) else NOT_REACHED, tried=tried.get(one, 0))
            for one in missed
        ]

    def _groups(self, passed: Sequence[Passed]) -> list[tuple[list[int], list[Passed]]]:
        """Mutants of one group are far apart in the source: those seldom hide one another."""
        left = sorted(self._left())
        count = -(-len(left) // self.asked.group)
        groups = [left[first::count] for first in range(count)]
        return [
            (group, most_telling(group, reaching(group, passed))[: self.asked.cases])
            for group in groups
        ]

    def _passed(self, workers: Workers, machines: Sequence[str]) -> list[Passed]:
        wanted = [
            one
            for one in cases(machines)
            if one.scenario not in self.asked.without
            and is_asked(one.scenario, self.asked.scenario)
        ]
        return cases_that_pass(workers, wanted, self._reached(workers.name), tell)

    def _reached(self, witness: str) -> Path:
        return self._made.folder / f"reached-{witness}.jsonl"

    def _more_than_the_driver(self, passed: Sequence[Passed]) -> list[Passed]:
        """The kubelet's cases, each without the mutants with which the driver passed that case: it
        runs the same code, and the same promises are judged."""
        known = cases_kept(cases(self._machines), self._reached("driver"))
        on_driver = {each.case: set(each.reached) for each in known}
        untold = {row.mutant.number for row in self.ledger.rows.values() if row.outcome.case}
        return [
            msgspec.structs.replace(
                each,
                reached=tuple(
                    number
                    for number in each.reached
                    if number in untold or number not in on_driver.get(each.case, ())
                ),
            )
            for each in passed
        ]

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        rows = [Row(self._by_number[one.number], one) for one in outcomes]
        self.ledger.note(rows)
        done = sum(self.ledger.is_final(one) for one in self.chosen)
        for row in rows:
            if row.outcome.status not in (OPEN, NOT_REACHED):
                by = f" by {row.outcome.case}" if row.outcome.case else ""
                tell(f"{done}/{len(self.chosen)} {row.outcome.status}{by}: {row.mutant.id}")


def _open(outcome: Outcome) -> Outcome:
    return outcome if outcome.status == CAUGHT else msgspec.structs.replace(outcome, status=OPEN)


if __name__ == "__main__":
    sys.exit(main())
