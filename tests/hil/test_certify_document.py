"""Certificates: what they say of a run, and what they refuse to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.results import Footer, Header, MachineRecord, Result, SubjectRecord
from conformance.verdict import ExitStatus
from reports.certificate import (
    Findings,
    Outcome,
    document,
    html,
    outcome_of,
    status_of,
    write,
)
from reports.noise import Noise, picture
from reports.run import Run

MACHINE = MachineRecord(
    name="node7", shape="", digest="sha256:0", cpus={0: (0, 0, 0, 0), 1: (0, 0, 1, 0)}
)


def result(verdict: str, *, level: str = "core", unable: bool = False, reason: str = "") -> Result:
    return Result(
        scenario=f"area/{verdict}-{level}-{unable}",
        title="A fact",
        area="area",
        level=level,
        source="KEP",
        source_url="https://example.org",
        machine=MACHINE,
        verdict=verdict,
        unable=unable,
        reason=reason,
    )


def run(*results: Result, status: int = 0) -> Run:
    counts: dict[str, int] = {}
    for one in results:
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    header = Header(
        schema=1,
        pinproof="0.1.0",
        subject=SubjectRecord(name="node:ssh://root@node7", release="1.36", version="v1.36.4"),
        started="2026-11-21T16:00:00+00:00",
        machines=["node7"],
    )
    footer = Footer(
        counts=counts, exit_status=status, finished="2026-11-21T16:10:00+00:00", seconds=600.0
    )
    return Run(header, results, footer)


@pytest.mark.parametrize(
    ("results", "status", "outcome", "exit_status"),
    [
        ([result("pass")], 0, Outcome.SUCCESS, 0),
        ([result("pass"), result("skip")], 0, Outcome.SUCCESS, 0),
        ([result("pass"), result("skip", unable=True)], 0, Outcome.PARTIAL, 4),
        ([result("pass"), result("skip", level="extended", unable=True)], 0, Outcome.SUCCESS, 0),
        ([result("pass"), result("unknown")], 3, Outcome.PARTIAL, 3),
        ([result("pass"), result("fail")], 1, Outcome.FAILURE, 1),
        ([result("pass")], 5, Outcome.FAILURE, 5),
        ([], 4, Outcome.PARTIAL, 4),
    ],
)
def test_the_outcome(
    results: list[Result], status: int, outcome: Outcome, exit_status: int
) -> None:
    """A skip cannot buy a certificate; what does not apply does not cost one."""
    made = run(*results, status=status)
    assert outcome_of(made) is outcome
    assert status_of(made) is ExitStatus(exit_status)
    assert document(made, Findings())["outcome"] == outcome.value


def test_a_part_of_the_scenarios_is_no_certificate() -> None:
    """``-k`` narrows it, so it is partial, and says to what."""
    made = run(result("pass"))
    assert outcome_of(made, only="-k qos") is Outcome.PARTIAL
    assert status_of(made, only="-k qos") is ExitStatus.TOO_FEW
    assert "-k qos" in html(made, Findings(only="-k qos"))


def test_it_names_what_is_required_and_not_known() -> None:
    """With the reason of the skip."""
    text = html(
        run(result("pass"), result("skip", unable=True, reason="max-risk is pods")), Findings()
    )
    assert "PARTIAL" in text
    assert "Required, and not known" in text
    assert "max-risk is pods" in text


def test_nothing_of_a_node_reaches_the_page_unescaped(tmp_path: Path) -> None:
    """Names, facts, reasons, lint: all of it comes from a stranger."""
    evil = "<script>alert(1)</script>\x1b[31m"
    findings = Findings(
        node={evil: evil}, lint=[evil], noise=[Noise(evil, evil, (5.0,), (1,), 1.0)]
    )
    write(run(result("fail", reason=evil), status=1), findings, tmp_path)
    page = (tmp_path / "certificate.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    written = json.loads((tmp_path / "certificate.json").read_text())
    assert written["outcome"] == "failure"
    assert "\x1b" not in json.dumps(written["lint"])


def test_a_node_that_was_not_restored_says_so() -> None:
    """In words, above everything else."""
    assert "NOT left as it was found" in html(run(result("pass"), status=5), Findings())
    assert document(run(result("pass"), status=5), Findings())["restored"] is False


def test_the_noise_is_drawn() -> None:
    """One bar a thread; a longer gap is a longer bar."""
    svg = picture([Noise("exclusive", "2-3", (10.0, 20000.0), (0, 7), 2.0)])
    assert svg.count("<rect") == 3
    assert "20,000 us, 7 involuntary switches" in svg
