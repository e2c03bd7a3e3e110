"""The certificate of one node: what was promised, what was shown, what was not asked.

What belongs here: the outcome of a run as a certificate has it, and its two forms. What never does:
markup of text that comes from a node (the template's environment cleans and escapes all of it).

The outcome is *failure* where a promise is broken or the node was not left as it was, *partial*
where a required scenario that applies was skipped, has no verdict or did not run, and *success*
otherwise: a skip cannot buy a certificate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from conformance.results import Result
from conformance.verdict import ExitStatus, Verdict
from reports.files import write_atomically
from reports.html import environment
from reports.noise import Noise, picture
from reports.page import page
from reports.run import Run, verdict_of
from reports.text import clean

SCHEMA: Final = 1
REQUIRED: Final = "core"
#: What the certificate does not claim.
DISCLAIMER: Final = (
    "Not claimed: performance, security, or any programme of the CNCF. It holds for this machine, "
    "kernel, runtime and kubelet as named here, on the day of the run."
)


class Outcome(Enum):
    """What a certificate says."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a certificate has beside the run: ``node`` is facts by name, ``lint`` what is odd about
    the machine, ``risk`` what the run was allowed to do, ``depth`` how the kubelet was reached,
    ``only`` what the run was narrowed to (``""``: everything was asked)."""

    node: Mapping[str, str] = field(default_factory=dict)
    lint: Sequence[str] = ()
    risk: str = ""
    depth: str = "a real kubelet on a real kernel, reached over SSH"
    noise: Sequence[Noise] = ()
    only: str = ""


def outcome_of(run: Run, *, only: str = "") -> Outcome:
    """The outcome of a run on one node; ``only`` says what was left to ask, if not everything."""
    if run.counts[Verdict.FAIL] or run.status is ExitStatus.NOT_RESTORED:
        return Outcome.FAILURE
    whole = run.counts[Verdict.PASS] and not (only or run.cut_off or run.contradiction)
    if open_ends(run) or not whole:
        return Outcome.PARTIAL
    return Outcome.SUCCESS


def open_ends(run: Run) -> list[Result]:
    """Required scenarios that apply, of which nothing is known."""
    return [
        result
        for result in run.ordered
        if (verdict_of(result) is Verdict.SKIP and result.unable and result.level == REQUIRED)
        or verdict_of(result) is Verdict.UNKNOWN
    ]


def status_of(run: Run, *, only: str = "") -> ExitStatus:
    """The exit status of a certificate: what is partial for want of scenarios is ``TOO_FEW``."""
    if run.status is not ExitStatus.CONFORMANT or outcome_of(run, only=only) is Outcome.SUCCESS:
        return run.status
    return ExitStatus.TOO_FEW


def write(run: Run, findings: Findings, folder: Path) -> None:
    """Write ``certificate.json`` and ``certificate.html`` into ``folder``, each atomically. Raises
    :class:`OSError`."""
    text = json.dumps(document(run, findings), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "certificate.json", text)
    write_atomically(folder / "certificate.html", html(run, findings))


def document(run: Run, findings: Findings) -> dict[str, Any]:
    """The certificate as JSON's values."""
    subject = run.header.subject
    machine = run.results[0].machine if run.results else None
    return {
        "schema": SCHEMA,
        "outcome": outcome_of(run, only=findings.only).value,
        "only": clean(findings.only),
        "pinproof": run.header.pinproof,
        "issued": run.footer.finished if run.footer else "",
        "depth": findings.depth,
        "subject": {
            "name": clean(subject.name),
            "release": clean(subject.release),
            "version": clean(subject.version),
            "digest": clean(subject.digest),
        },
        "node": {clean(name): clean(value) for name, value in findings.node.items()},
        "machine": None
        if machine is None
        else {"name": clean(machine.name), "digest": machine.digest, "cpus": len(machine.cpus)},
        "lint": [clean(one) for one in findings.lint],
        "risk": findings.risk,
        "restored": run.status is not ExitStatus.NOT_RESTORED,
        "counts": {verdict.value: count for verdict, count in run.counts.items()},
        "scenarios": [_scenario(result) for result in run.ordered],
        "noise": [asdict(one) for one in findings.noise],
        "not claimed": DISCLAIMER,
    }


def _scenario(result: Result) -> dict[str, Any]:
    return {
        "id": clean(result.scenario),
        "title": clean(result.title),
        "level": result.level,
        "source": clean(result.source_url),
        "verdict": verdict_of(result).value,
        "reason": clean(result.reason),
        "seconds": result.seconds,
        "witness": clean(result.witness),
    }


def html(run: Run, findings: Findings) -> str:
    """The certificate as the text of one HTML document: no network, no script."""
    outcome = outcome_of(run, only=findings.only)
    tones = {Outcome.SUCCESS: "pass", Outcome.PARTIAL: "unknown", Outcome.FAILURE: "fail"}
    return (
        environment()
        .get_template("certificate.html.jinja")
        .render(
            run=run,
            page=page(run),
            findings=findings,
            outcome=outcome.value,
            tone=tones[outcome],
            open_ends=open_ends(run),
            restored=run.status is not ExitStatus.NOT_RESTORED,
            disclaimer=DISCLAIMER,
            plot=picture(findings.noise) if findings.noise else "",
        )
    )
