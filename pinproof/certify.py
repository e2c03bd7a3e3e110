"""``pinproof certify``: machine lint, every core promise and all that only a node can show.

What belongs here: one run for each node or machine, and the certificate of each. What never does:
judging (:mod:`conformance`), the certificate's form (:mod:`reports.certificate`), and what it names
beside the results (:mod:`pinproof.certifiable`).
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec.structs
import pytest
import typer
from rich.console import Console

import reports
import topologies
from conformance.catalogue import catalogue
from conformance.scenario import Level
from conformance.session import options
from conformance.smoke import smoke
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus, worst
from hil.inspection import gather, marks
from hil.shell import NodeUsageError
from hil.transport import connected
from hil.transport import nodes as addresses
from hil.transport.inventory import HOST, LOCAL
from pinproof import certifiable, password, pytest_arguments
from pinproof.dry_run import dry_run as show_commands
from pinproof.output import note, prepare_folder
from pinproof.parallel import Job, run_each
from pinproof.parameters import (
    Kubeconfig,
    TransportImage,
    argument,
    given_words,
    option,
    run_option,
    with_options,
)
from pinproof.password import AskSudoPassword
from pinproof.probe import risk_named
from pinproof.progress import busy
from pinproof.pytest_arguments import ALONE, QUIET, parsed
from pinproof.run import when_written
from pinproof.run_progress import Unannounced
from pinproof.signing import comment_of, cosign_signature, sign, sign_with_cosign, ssh_signature
from pinproof.subjects import node_options, opened
from reports.certificate import CertificateError, Findings, Statement, encode, html, make, read
from reports.files import write_atomically
from reports.text import line

if TYPE_CHECKING:
    from reports.run import Run

CERTIFICATE = "certificate.json"
PAGE = "certificate.html"
LOG = "certify.log"
#: Parameters that say which certificates there are, and not how each is made.
_OF_ALL = ("nodes", "machine", "dry_run", "at_once")


@dataclass(frozen=True, slots=True)
class Asked:
    nodes: list[str] = argument(
        "ssh://user@host, kube://NODE, or an inventory (node7.toml, lab.toml#node7); kubelet:1.36 "
        "or kubelet:BINARY with --machine makes a pre-certificate."
    )
    machine: list[str] | None = option(
        None, "For a kubelet: the machine that the kubelet sees; repeatable."
    )
    level: Level = option(Level.CORE, "extended: claim the extended profile as well.")
    max_risk: str = option(
        "",
        "What may be done: read-only, pods, kubelet-restart, cpu-offline, reboot. Default: pods; "
        "everything on nodes of the lab.",
    )
    image: str = option("", "An image with a POSIX shell that is on the nodes.")
    noise: bool = option(
        False,
        "Measure as well what comes to exclusive CPUs: scheduling noise, tasks of others, "
        "interrupts. It is judged only where the node or --max-latency promises something.",
        "--noise",
    )
    max_latency: float = option(
        0.0,
        "With --noise: the longest time in which a container on exclusive CPUs may be kept from "
        "running.",
        metavar="MICROSECONDS",
        min=0.0,
    )
    upgrade_to: str = option(
        "",
        "After the scenarios, upgrade the node to this kubelet, a release or a binary, take it "
        "back, and upgrade it again, while pods run; then the node's own kubelet is put back.",
        metavar="KUBELET",
    )
    kubeconfig: Kubeconfig = None
    transport_image: TransportImage = ""
    ask_sudo_password: AskSudoPassword = False
    resume: bool = run_option(options.RESUME, False)
    dry_run: bool = option(False, "Print the commands for the nodes, and send none.", "--dry-run")
    report: Path = option(Path("certificate"), "Where the certificates go: a folder for each node.")
    valid: int = option(365, "Days until a certificate expires.", min=1, max=3650)
    operator: str = option(
        "", "Who certifies: a person or an organisation. Default: the comment of --sign's key."
    )
    sign: Path | None = option(None, "Sign with this SSH key (ssh-keygen -Y).", metavar="KEY")
    cosign_key: Path | None = option(None, "Sign with this key of cosign.", metavar="KEY")
    at_once: int = option(8, "How many nodes are certified side by side.", min=1, max=64)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What is asked for every certificate. ``extra``: arguments of pytest; ``words``: the options
    that say how each certificate is made."""

    asked: Asked
    extra: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def operator(self) -> str:
        key = self.asked.sign
        return self.asked.operator or (comment_of(key) if key else "")


@dataclass(frozen=True, slots=True)
class _Target:
    """One node, or a kubelet on one machine. ``name`` gives its folder; ``subject``: as in a run;
    ``place``: as on the command line; ``spec``: the value of ``--machine``."""

    name: str
    subject: str
    place: str
    machine: topologies.Machine | None = None
    spec: str = ""

    @property
    def folder(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]+", "_", self.name)

    @property
    def words(self) -> list[str]:
        """The options that name it on the command line, beside its place."""
        return [f"--machine={self.spec}"] if self.spec else []


@with_options
def certify(context: typer.Context, asked: Asked) -> None:
    """Certify nodes: each gets a certificate, as HTML and JSON, beside its report.

    Outcome: success; partial, where a required scenario was skipped (exit status 4); none, where
    no required scenario was run (4); not-restored, where no promise is broken and the node was not
    left as it was found (5); failure.
    Several nodes are certified side by side. All other options go to pytest (-k EXPRESSION selects
    scenarios: the certificate is partial then).
    """
    if asked.max_risk:
        risk_named(asked.max_risk)
    if asked.max_latency and not asked.noise:
        raise SubjectUsageError("--max-latency needs --noise: nothing is measured without it")
    places, extra = _parted(asked.nodes, context.args)
    if extra:
        parsed(extra, [name for parameter in context.command.params for name in parameter.opts])
    words = node_options(
        asked.max_risk, asked.kubeconfig, asked.image, transport_image=asked.transport_image
    )
    targets = _targets(places, asked.machine or [], words)
    for key in filter(None, (asked.sign, asked.cosign_key)):
        if not key.is_file():
            raise SubjectUsageError(f"{key}: there is no such key")
    if asked.ask_sudo_password:
        password.ask()
    wishes = _Wishes(asked, tuple(extra), tuple(given_words(context, but=_OF_ALL)))
    if asked.dry_run:
        statuses = [_show_one(target, wishes) for target in targets]
    elif len(targets) == 1:
        statuses = [_certify_one(targets[0], wishes, Console(highlight=False))]
    else:
        statuses = _side_by_side(targets, wishes)
    raise typer.Exit(worst(statuses))


def _parted(words: Sequence[str], more: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The nodes, and the arguments of pytest, which begin at the first option unknown to this
    command."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    if not first:
        raise SubjectUsageError(f"name a node before {words[0]}")
    return words[:first], [*words[first:], *more]


def _targets(places: Sequence[str], machines: Sequence[str], words: str) -> list[_Target]:
    """What is certified, one by one. Raises :class:`SubjectUsageError`."""
    found = []
    for place in places:
        if place.startswith("kubelet:"):
            found += _kubelets(place, machines, words)
        elif machines:
            raise SubjectUsageError(f"--machine is for a kubelet (kubelet:1.36), not for {place}")
        else:
            found += _nodes(place, words)
    folders = [one.folder for one in found]
    if twice := next((name for name in folders if folders.count(name) > 1), ""):
        raise SubjectUsageError(f"two certificates would go to the folder {twice}")
    return found


def _kubelets(place: str, machines: Sequence[str], words: str) -> list[_Target]:
    if words:
        raise SubjectUsageError(f"{place}: options of real nodes are not for a kubelet")
    if not machines:
        raise SubjectUsageError(f"{place}: name the machine that it is shown with --machine")
    name = place.rpartition("/")[2].removeprefix("kubelet:")
    found = []
    for pattern in machines:
        several = topologies.find(pattern)
        for one in several:
            spec = pattern if len(several) == 1 else one.name  # an archive is found by its path
            found.append(_Target(f"kubelet-{name}-{one.name}", place, place, one, spec))
    return found


def _nodes(place: str, words: str) -> list[_Target]:
    where, _, chosen = place.partition("#")
    try:
        named = [one.name for one in addresses(where) if chosen in ("", one.name)]
    except NodeUsageError as error:
        raise SubjectUsageError(str(error)) from error
    if not named:
        raise SubjectUsageError(f"{where} has no node {chosen!r}")
    single = "://" in place or place in (LOCAL, HOST)
    each = [(name, place if single else f"{where}#{name}") for name in named]
    return [_Target(name, f"node:{at}?{words}" if words else f"node:{at}", at) for name, at in each]


def _certify_one(target: _Target, wishes: _Wishes, console: Console) -> ExitStatus:
    _require_replaceable(target, wishes)
    found, workers = _findings(target, wishes)
    folder = wishes.asked.report / target.folder
    files = (CERTIFICATE, PAGE)
    signatures = [one(folder / CERTIFICATE).name for one in (ssh_signature, cosign_signature)]
    stream = prepare_folder(folder, (*files, *signatures), resume=wishes.asked.resume)
    before = when_written(stream)
    status = pytest.main(
        [
            *_chosen(target, wishes),
            *options.arguments(report=folder, resume=wishes.asked.resume),
            *QUIET,
            *workers,
            *wishes.extra,
        ],
        plugins=[Unannounced()],
    )
    if when_written(stream) in (None, before):
        note(f"pinproof: {target.name}: nothing was run")
        return ExitStatus.USAGE if status == pytest.ExitCode.USAGE_ERROR else ExitStatus.TOO_FEW
    run = reports.load(stream, ended=int(status))
    found = _upgraded(target, wishes, run, found, console)
    statement = make(run, found, stream)
    _write(statement, folder, wishes)
    _summarise(run, statement, folder, console)
    return ExitStatus(statement.facts.exit_status)


def _chosen(target: _Target, wishes: _Wishes) -> list[str]:
    """Which scenarios a certificate is about, in pytest's words."""
    level = options.CERTIFICATE if wishes.asked.level is Level.CORE else wishes.asked.level.value
    machine = [target.spec] if target.spec else None
    return [
        *(*ALONE, "-p", "no:cacheprovider"),
        *options.arguments(subject=target.subject, machine=machine, level=level, no_smoke=True),
    ]


def _show_one(target: _Target, wishes: _Wishes) -> ExitStatus:
    """``--dry-run`` of one node."""
    if wishes.asked.noise:
        typer.echo(f"{target.subject}: --noise creates two more pods, and measures how they run")
    if kubelet := wishes.asked.upgrade_to:
        _require_replaceable(target, wishes)
        typer.echo(
            f"{target.subject}: --upgrade-to replaces the kubelet's program by {kubelet} twice "
            "while pods run, and puts it back twice"
        )
    return show_commands(target.subject, [*_chosen(target, wishes), *wishes.extra])


def _require_replaceable(target: _Target, wishes: _Wishes) -> None:
    """Checks before anything runs. Raises :class:`SubjectUsageError` where the node cannot have the
    kubelet of the upgrade."""
    kubelet = wishes.asked.upgrade_to
    if not kubelet:
        return
    if target.machine is not None:
        raise SubjectUsageError(
            f"--upgrade-to is for real nodes, not for {target.place}: "
            "`pinproof upgrade` rehearses one without a node"
        )
    from pinproof.node_upgrade import require_replaceable

    with busy(target.name) as say:
        require_replaceable(target.subject.removeprefix("node:"), kubelet, say)


def _upgraded(
    target: _Target, wishes: _Wishes, run: Run, found: Findings, console: Console
) -> Findings:
    """The findings with the outcome of the upgrade, where one is asked for. It is not begun after a
    run that was interrupted or that did not restore the node."""
    if not wishes.asked.upgrade_to:
        return found
    from pinproof.node_upgrade import certified
    from pinproof.upgrade_text import show_stages

    with busy(target.name) as say:
        place = target.subject.removeprefix("node:")
        upgrade, done = certified(place, wishes.asked.upgrade_to, say, against=_against(run))
    if done is not None:
        show_stages(done.found, done.plan, console)
    return dataclasses.replace(found, upgrade=upgrade)


def _against(run: Run) -> str:
    """Why a node is not upgraded after a run; ``""``: nothing is against it."""
    if run.cut_off:
        return "the run was cut off before it"
    return "the node was not restored before it" if run.status is ExitStatus.NOT_RESTORED else ""


def _findings(target: _Target, wishes: _Wishes) -> tuple[Findings, list[str]]:
    """What is known beside the scenarios, and pytest's option for workers."""
    if target.machine is not None:
        with opened(target.subject) as subject:
            smoke(subject)
            found = certifiable.of_machine(target.machine, subject.info)
        names = [f"{one.id}@{target.machine.name}" for one in catalogue()]
        config = parsed(wishes.extra) if wishes.extra else None
        workers = pytest_arguments.workers(target.subject, names, config)
    else:
        found, workers = _of_node(target, wishes), []
    narrowed = "" if pytest_arguments.asks_all(wishes.extra) else " ".join(wishes.extra)
    return (
        dataclasses.replace(
            found,
            level="core" if wishes.asked.level is Level.CORE else "extended",
            narrowed=narrowed,
            valid=timedelta(days=wishes.asked.valid),
            operator=wishes.operator,
        ),
        workers,
    )


def _of_node(target: _Target, wishes: _Wishes) -> Findings:
    from hil.isolation import measure
    from hil.subject import NodeSubject, parse_target  # slow to import, and for nodes only

    place, name, asked = parse_target(target.subject.removeprefix("node:"))
    address = asked.applied(next(one for one in addresses(place) if name in ("", one.name)))
    with busy(target.name) as say:
        say("asking the node what it is")
        with connected(address) as shell:
            found = certifiable.of_node(gather(shell, paths=address.kubelet), marks(shell))
        found = dataclasses.replace(found, title=target.name, allowed=asked.risk_on(address).value)
        if not wishes.asked.noise:
            return found
        say("measuring scheduling noise")
        subject = NodeSubject.open(target.subject.removeprefix("node:"), say)
        try:
            measured = measure(subject, subject.machines[0])
        finally:
            subject.close()
    return certifiable.with_noise(found, measured, wishes.asked.max_latency)


def _write(statement: Statement, folder: Path, wishes: _Wishes) -> None:
    path = folder / CERTIFICATE
    write_atomically(path, encode(statement).decode())
    write_atomically(folder / PAGE, html(statement))
    if wishes.asked.sign is not None:
        sign(path, wishes.asked.sign)
    if wishes.asked.cosign_key is not None:
        sign_with_cosign(path, wishes.asked.cosign_key)


def _summarise(run: Run, statement: Statement, folder: Path, console: Console) -> None:
    """Print the run's summary and the certificate's line; both have the certificate's exit
    status."""
    from reports import html as report
    from reports import terminal

    status = statement.facts.exit_status
    if run.footer is not None and status != run.status:
        footer = msgspec.structs.replace(run.footer, exit_status=status)
        run = dataclasses.replace(run, footer=footer)
        write_atomically(folder / "report.html", report.document(run))
    terminal.summary(run, console)
    print_outcome(statement, folder)


def print_outcome(statement: Statement, folder: Path) -> None:
    """Print one line with what the certificate says, and the path of its page."""
    facts = statement.facts
    sys.stdout.flush()
    note(f"{facts.kind} of {facts.title}: {facts.verdict.upper().replace('-', ' ')}: {facts.words}")
    typer.echo(str(folder / PAGE))


def _side_by_side(targets: Sequence[_Target], wishes: _Wishes) -> list[ExitStatus]:
    """Certify each in a process of its own, since pytest runs once in a process. A line is printed
    as each ends."""
    asked = wishes.asked
    jobs = [
        Job(
            one.name,
            ["certify", one.place, *one.words, *wishes.words, *wishes.extra],
            asked.report / one.folder / LOG,
            password.line(),
        )
        for one in targets
    ]
    note(f"pinproof: {len(jobs)} certificates; what is done goes to {asked.report}/*/{LOG}")
    statuses = run_each(jobs, asked.at_once, _say_outcome)
    known = set(ExitStatus)
    return [ExitStatus(one) if one in known else ExitStatus.COULD_NOT_TELL for one in statuses]


def _say_outcome(job: Job, status: int) -> None:
    """Print what the certificate of a job that ended says, or why there is none."""
    folder = job.log.parent
    try:
        print_outcome(read((folder / CERTIFICATE).read_bytes()), folder)
    except (OSError, CertificateError):
        said = job.log.read_text("utf-8", "replace").strip().splitlines()
        why = line(said[-1]) if said else "no output"
        note(f"{job.name}: no certificate: {why} (exit status {status})")
