"""``pinproof certify``: machine lint, every core promise and all that only a node can show.

What belongs here: one run for each node, and the certificate of each. What never does: judging
(:mod:`conformance`), and the certificate's form (:mod:`reports.certificate`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.console import Console

import reports
import topologies
from conformance.session import options
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from hil.shell import NodeUsageError
from pinproof.busy import busy
from pinproof.dry import dry_run as show_commands
from pinproof.passing import ALONE, parsed
from pinproof.probe import risk_named
from pinproof.run import node_options, prepare_folder
from reports import certificate
from reports.certificate import Findings, Outcome
from reports.noise import Noise
from reports.text import clean

#: Which status says most, of several nodes'.
_GRAVITY = (
    ExitStatus.NOT_RESTORED,
    ExitStatus.NOT_CONFORMANT,
    ExitStatus.USAGE,
    ExitStatus.COULD_NOT_TELL,
    ExitStatus.TOO_FEW,
    ExitStatus.CONFORMANT,
)


def certify(
    context: typer.Context,
    nodes: Annotated[
        list[str],
        typer.Argument(help="ssh://user@host, or an inventory (node7.toml, lab.toml#node7)."),
    ],
    max_risk: Annotated[
        str,
        typer.Option(
            help="What may be done: read-only, pods, kubelet-restart, cpu-offline, reboot. "
            "Default: pods; everything on nodes of the lab."
        ),
    ] = "",
    image: Annotated[
        str, typer.Option(help="An image with a POSIX shell that is on the nodes.")
    ] = "",
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure scheduling noise as well; it is never judged."),
    ] = False,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Pods come through the API server that this file names."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the commands for the nodes, and send none."),
    ] = False,
    report: Annotated[
        Path, typer.Option(help="Where the certificates go: a folder for each node.")
    ] = Path("certificate"),
) -> None:
    """Certify nodes: each gets a certificate, as HTML and JSON, beside its report.

    Outcome: success; partial, where a required scenario was skipped (exit status 4); failure.
    Whatever else is given goes to pytest (-k EXPRESSION selects scenarios: the certificate is
    partial then).
    """
    if max_risk:
        risk_named(max_risk)
    words = node_options(max_risk, kubeconfig, image)
    places, extra = _parted(nodes, context.args)
    if extra:
        parsed(extra, [name for parameter in context.command.params for name in parameter.opts])
    targets = [
        f"{target}?{words}" if words else target for place in places for target in _each(place)
    ]
    if dry_run:
        statuses = [_show_one(target, noise, extra) for target in targets]
    else:
        console = Console(highlight=False)
        statuses = [_certify_one(target, noise, report, extra, console) for target in targets]
    raise typer.Exit(next(one for one in _GRAVITY if one in statuses))


def _parted(words: Sequence[str], more: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Nodes, and what goes to pytest: from the first option unknown to this command."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    if not first:
        raise SubjectUsageError(f"name a node before {words[0]}")
    return words[:first], [*words[first:], *more]


def _each(place: str) -> list[str]:
    """An inventory as its nodes, one by one."""
    from hil.transport import nodes as addresses

    if "#" in place or "://" in place or place == "local:":
        return [place]
    try:
        return [f"{place}#{one.name}" for one in addresses(place)]
    except NodeUsageError as error:
        raise SubjectUsageError(str(error)) from error


def _certify_one(
    target: str,
    noise: bool,
    report: Path,
    extra: Sequence[str],
    console: Console,
) -> ExitStatus:
    name, findings = _findings(target, noise, extra)
    folder = report / re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    stream = prepare_folder(folder, ("certificate.html", "certificate.json"))
    status = pytest.main(
        [
            *_chosen(target),
            *options.arguments(report=folder),
            *("-q", "--no-header", "--no-summary", "--tb=no", "--show-capture=no"),
            *extra,
        ]
    )
    if not stream.exists() or not stream.stat().st_size:
        typer.echo(f"pinproof: {target.partition('?')[0]}: nothing was run", err=True)
        return ExitStatus.USAGE if status == pytest.ExitCode.USAGE_ERROR else ExitStatus.TOO_FEW
    run = reports.load(stream, ended=int(status))
    certificate.write(run, findings, folder)
    reports.summarise(stream, console, ended=int(status))
    outcome = certificate.outcome_of(run, only=findings.only)
    _print_outcome(name, outcome, run, folder, console)
    return certificate.status_of(run, only=findings.only)


def _chosen(target: str) -> list[str]:
    """Which scenarios a certificate is about, in pytest's words."""
    return [
        *(*ALONE, "-p", "no:cacheprovider"),
        *options.arguments(subject=f"node:{target}", level=options.CERTIFICATE, no_smoke=True),
    ]


def _show_one(target: str, noise: bool, extra: Sequence[str]) -> ExitStatus:
    """``--dry-run`` of one node."""
    if noise:
        typer.echo(f"node:{target}: --noise creates two more pods, and measures how they run")
    return show_commands(f"node:{target}", [*_chosen(target), *extra])


def _findings(target: str, noise: bool, extra: Sequence[str]) -> tuple[str, Findings]:
    """The node's name, and what is known of it beside the scenarios."""
    from hil.isolation import measure
    from hil.subject import NodeSubject  # reaching nodes is not what other commands start for

    with busy(target) as say:
        subject = NodeSubject.open(target, say)
        try:
            machine = subject.machines[0]
            if noise:
                say("measuring scheduling noise")
            measured = measure(subject, machine) if noise else None
            found = dict(subject.info.facts)
            if measured is not None:
                found["reconcile latency"] = (
                    f"{measured.latency:.2f} s, its period is {measured.period:g} s"
                )
            return machine.name, Findings(
                node=found,
                lint=[str(one) for one in topologies.lint(machine.tree)],
                risk=subject.risks,
                only=" ".join(extra),
                noise=[
                    Noise(one.name, one.cpus, (one.gap,), (one.involuntary,), one.seconds)
                    for one in (measured.noise if measured else ())
                ],
            )
        finally:
            subject.close()


def _print_outcome(
    name: str, outcome: Outcome, run: reports.Run, folder: Path, console: Console
) -> None:
    console.print(f"{name}: {outcome.value}", markup=False)
    for result in certificate.open_ends(run)[:20]:
        console.print(f"  not known: {result.scenario}: {clean(result.reason)}", markup=False)
    sys.stderr.flush()
    typer.echo(str(folder / "certificate.html"))
