"""How large the page of a real run is: every scenario on every machine of the catalogue.

A scenario is run on one machine that it applies to. Its result stands for the others, because a run
on all of them takes most of a minute; why a scenario does not apply is asked on each machine.
``python -m benchmarks.report_size`` measures whole runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from conformance.catalogue import catalogue
from conformance.discovered import architecture_of, topology_of
from conformance.judge import Case, inapplicable, judge
from conformance.lockstep import machine_record
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.subject import Subject
from conformance.subjects.miniatures import miniature
from reference import NEWEST, CPUTopology
from reports import html
from reports.page import EVIDENCE
from tests.reports.conftest import fakes
from topologies import Machine, machine, names

LIMIT: Final = 1_000_000
#: The pages of whole runs are up to 7 % larger: verdicts differ more from machine to machine.
WHOLE: Final = 1.07
#: Most scenarios apply to it.
EXAMPLE: Final = "2s-2n-16c-smt2"


def results(subject: Subject) -> Iterator[Result]:
    """Those of a run on all machines."""
    machines = sorted(map(machine, names()), key=lambda one: one.name != EXAMPLE)
    topologies = {one.name: _topology(one, subject) for one in machines}
    records = {one.name: machine_record(one, topologies[one.name]) for one in machines}
    oracle = partial(ModelOracle, release=NEWEST)
    for scenario in catalogue():
        ran: Result | None = None
        for one in machines:
            if scenario.machine not in ("", one.name):
                continue
            if ran and not inapplicable(scenario, topologies[one.name], subject, NEWEST):
                yield msgspec.structs.replace(ran, machine=records[one.name])
                continue
            result = judge(Case(scenario, one), subject, oracle=oracle, release=NEWEST).result
            ran = ran if result.verdict == "skip" else result
            yield result


def _topology(one: Machine, subject: Subject) -> CPUTopology:
    return topology_of(one, release=NEWEST, architecture=architecture_of(subject.info))


def test_the_report_of_a_run_on_all_machines_is_under_a_megabyte() -> None:
    """Also where a third of all that ran is broken, and a kubelet wrote as much evidence as is
    shown."""
    found = sorted(results(miniature("splits-cores")), key=lambda one: one.machine.name)
    assert len(found) > 340 * len(names())
    verdicts = [one.verdict for one in found]
    assert verdicts.count("pass") > 9_000
    assert verdicts.count("skip") > 10_000
    assert verdicts.count("fail") > 5_000
    document = html.document(fakes.run(*found))
    assert WHOLE * len(document.encode()) + EVIDENCE < LIMIT
    assert document.count('class="row') == len({one.scenario for one in found})
