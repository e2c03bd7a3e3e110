"""``pinproof run``: the shipped suite, which is pytest underneath."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console

import topologies
from conformance.aliases import renamed
from conformance.catalogue import catalogue
from conformance.known import read as read_known
from conformance.kubelets.put import with_files
from conformance.recording import require_writable
from conformance.scenario import Level
from conformance.session import options
from conformance.session.keywords import may_match
from conformance.subject import Subject, SubjectSetupError, SubjectUsageError
from conformance.verdict import ExitStatus, worst
from pinproof.completion import machine_names, scenario_ids, subject_names
from pinproof.output import kept_if_refused, prepare_folder
from pinproof.parameters import (
    A_YEAR,
    Kubeconfig,
    TransportImage,
    option,
    read_options,
    run_option,
    with_options,
)
from pinproof.password import AskSudoPassword, ask
from pinproof.subjects import fork_at, with_node_options
from reference import NEWEST, NotModelled
from reference.releases import Release, newest_known, require_whole_node

if TYPE_CHECKING:
    from pinproof import explore

#: The release that has the subject identified: its release, with what it has and lacks.
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class Asked:
    subject: str = run_option(options.SUBJECT, "reference", autocompletion=subject_names)
    machine: list[str] | None = run_option(options.MACHINE, autocompletion=machine_names)
    keyword: str = option(
        "",
        "Only scenarios whose id contains this: pool/, 'qos or pool', 'not node'.",
        "-k",
        metavar="EXPRESSION",
        autocompletion=scenario_ids,
    )
    release: str = run_option(options.RELEASE, "")
    behaviour: list[str] | None = run_option(options.BEHAVIOUR)
    behaviours: Path | None = run_option(options.FORK_BEHAVIOURS)
    level: Level = run_option(options.LEVEL, Level.EXTENDED)
    report: Path | None = run_option(options.REPORT)
    resume: bool = run_option(options.RESUME, False)
    shard: str = run_option(options.SHARD, "")
    floor: int = run_option(options.FLOOR, options.FLOOR.default, min=1)
    known: Path | None = run_option(options.KNOWN)
    max_risk: str = option(
        "",
        "What may be done to a real node: read-only, pods, kubelet-restart, cpu-offline, reboot. "
        "Default: pods; everything on nodes of the lab.",
    )
    kubeconfig: Kubeconfig = None
    transport_image: TransportImage = ""
    ask_sudo_password: AskSudoPassword = False
    dry_run: bool = option(False, "Print the commands for a real node, and send none.", "--dry-run")
    explore: float | None = option(
        None,
        "Then explore the subject for this number of minutes (pinproof explore), on the machines "
        "that were named; what is found goes to explored/ in --report.",
        min=0.01,
        max=A_YEAR,
        metavar="MINUTES",
    )
    record: Path | None = run_option(options.RECORD)
    verbose: bool = option(False, "Show pytest's own output too.", "--verbose")


@with_options
def run(context: typer.Context, asked: Asked) -> None:
    """Run the scenarios on a subject, and report.

    All other options go to pytest: -x stops at the first failure, --lf runs only the scenarios that
    failed in the last run on this subject, --ff runs these first. -rs lists why scenarios were
    skipped. -n 2 uses two processes, -n 0 one. Without -n every CPU of this host gets a process, at
    most eight, if that saves time.
    """
    import reports
    from conformance.smoke import smoke
    from pinproof import explore, pytest_arguments
    from pinproof.dry_run import dry_run as show_commands
    from pinproof.identify import judged_as
    from pinproof.subjects import opened

    subject = with_node_options(
        asked.subject,
        asked.max_risk,
        asked.kubeconfig,
        transport_image=asked.transport_image,
        password=asked.ask_sudo_password,
    )
    keyword = renamed(asked.keyword)
    more = [*(["-k", keyword] if keyword else []), *context.args]
    own = [name for parameter in context.command.params for name in parameter.opts]
    config = pytest_arguments.parsed(more, own) if more else None
    machines = asked.machine or []
    cases = _cases(machines or ["all"])
    _check_keyword(keyword)
    _require_files(asked)
    if asked.ask_sudo_password:
        ask()
    release, behaviours = asked.release, asked.behaviour or []
    fork = fork_at(asked.behaviours)
    if release == AUTO:
        release, found_out = judged_as(subject)
        behaviours = [*found_out, *behaviours]
    own = [*fork.overrides, *behaviours]
    chosen = [
        *(*pytest_arguments.ALONE, *pytest_arguments.memory(subject)),
        *options.arguments(
            subject=subject,
            release=release,
            behaviour=behaviours,
            behaviours=asked.behaviours and asked.behaviours.absolute(),
            machine=machines or ["all"],
            level=asked.level.value,
            shard=asked.shard,
            no_smoke=True,
        ),
    ]
    if asked.dry_run:
        raise typer.Exit(show_commands(subject, [*chosen, *more]))
    with opened(with_files(subject, fork.files)) as tried:
        for idle in fork.idle(_judge(release, own, tried).plain):
            typer.echo(f"pinproof: {idle}", err=True)
        smoke(tried)  # built, and proven to start, before any worker does
        if asked.explore:
            explore.require_explorable(tried, machines)
    with kept_if_refused(asked.report):
        stream = _stream(asked.report, resume=asked.resume)
        arguments = [
            *chosen,
            *_written(asked, stream),
            *pytest_arguments.workers(subject, cases, config),
            *pytest_arguments.brief(context.args),
            *(() if asked.resume else pytest_arguments.together(subject, more)),
            *more,
        ]
        skips = config is not None and "s" in config.getoption("reportchars")
        status = _ran(arguments, asked, stream, skips=skips)
    if asked.explore and asked.report and reports.load(stream, ended=status).footer is not None:
        wish = _exploration(asked, subject, machines, release)
        status = worst([status, explore.explored_after(wish, own)])
    raise typer.Exit(status)


def _exploration(asked: Asked, subject: str, machines: list[str], release: str) -> explore.Asked:
    """What ``--explore`` asks for after a run."""
    from pinproof import explore

    assert asked.explore
    assert asked.report
    return explore.Asked(
        subject=subject,
        machine=machines,
        minutes=asked.explore,
        shard=asked.shard or "1/1",
        report=asked.report / "explored",
        resume=asked.resume,
        release=release,
    )


def cases(words: Sequence[str]) -> tuple[str, int]:
    """The subject and the number of cases of a run with these options. Raises what the command
    raises for a machine, a scenario or an option of pytest that is not there."""
    from pinproof import pytest_arguments

    asked, more = read_options(run, Asked, words, "pinproof run", takes_more=True)
    keyword = renamed(asked.keyword)
    more = [*(["-k", keyword] if keyword else []), *more]
    config = pytest_arguments.parsed(more) if more else None
    _check_keyword(keyword)
    found = _cases(asked.machine or ["all"])
    matches = may_match(config.getoption("keyword") if config is not None else "")
    return asked.subject, sum(map(matches, found))


def _cases(patterns: Sequence[str]) -> list[str]:
    found = {
        name
        for pattern in patterns
        for name in topologies.matching(pattern) or [topologies.machine(pattern).name]
    }
    return [
        f"{one.id}@{name}"
        for one in catalogue()
        for name in ([one.machine] if one.machine else found)
    ]


def _require_files(asked: Asked) -> None:
    """Refuse a list of known failures that cannot be read, a recording that cannot be written, and
    options that need ``--report``."""
    if asked.known is not None:
        read_known(asked.known, [one.id for one in catalogue()])
    if asked.resume and asked.report is None:
        raise SubjectUsageError("--resume goes on in --report DIR, which is not given")
    if asked.explore and asked.report is None:
        raise SubjectUsageError("--explore writes to --report DIR, which is not given")
    if asked.record is not None:
        require_writable(asked.record)


def _written(asked: Asked, stream: Path) -> list[str]:
    """The options that say what is written where. pytest's own output is off:
    :class:`pinproof.run_progress.Following` shows how far the run is."""
    from pinproof.pytest_arguments import QUIET

    return [
        *options.arguments(
            floor=asked.floor,
            record=asked.record,
            report=asked.report,
            resume=asked.resume,
            known=asked.known and asked.known.absolute(),
            stream=None if asked.report else stream,
        ),
        *(["-ra"] if asked.verbose else QUIET),
    ]


def _ran(arguments: Sequence[str], asked: Asked, stream: Path, *, skips: bool) -> int:
    """Run pytest and summarise; its status. Raises :class:`typer.Exit` where it wrote nothing."""
    import pytest

    import reports
    from pinproof.run_progress import Following
    from reports.formats import formatted

    console = Console(highlight=False)
    before = when_written(stream)
    following = None if asked.verbose else Following(console, sys.stderr)
    status = int(pytest.main([*arguments], plugins=[following] if following else []))
    if when_written(stream) in (None, before):
        raise typer.Exit(_without_stream(status))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        typer.echo(formatted(reports.load(stream, ended=status), "github"), nl=False)
    reports.summarise(stream, console, ended=status, stories=following is None, skips=skips)
    if asked.report is not None:
        whole = (asked.report / "report.html").exists()
        cut_off = f"none, the run was cut off; with --resume it goes on in {asked.report}"
        typer.echo(f"report: {asked.report if whole else cut_off}", err=True)
    return status


def when_written(stream: Path) -> tuple[int, int] | None:
    """The inode of the stream and when it was written last; ``None`` if it is missing or empty."""
    try:
        found = stream.stat()
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_mtime_ns) if found.st_size else None


def _stream(report: Path | None, *, resume: bool) -> Path:
    """Where the result stream will be. Without a report it is in memory, under a name that ends
    with this process, so that not even a killed run leaves a file. What an earlier run left in
    the report's directory goes: it must not be taken for this one's."""
    if report is None:
        return Path(f"/proc/{os.getpid()}/fd/{os.memfd_create('result.jsonl')}")
    return prepare_folder(report, resume=resume)


def _without_stream(status: int) -> int:
    """The exit status where pytest ended before there was anything to report."""
    import pytest

    if status in (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.OK):
        typer.echo("pinproof: no scenario applies: nothing was run", err=True)
        return ExitStatus.TOO_FEW
    if status == pytest.ExitCode.USAGE_ERROR:
        return ExitStatus.USAGE
    return ExitStatus.COULD_NOT_TELL


def _judge(release: str | None, behaviours: list[str], subject: Subject) -> Release:
    """The release that the run judges by. One that the model cannot judge is refused before
    anything is run."""
    try:
        base = (
            Release.parse(release) if release else newest_known(Release.parse(subject.info.release))
        )
        judge = base.overridden(*behaviours)
        require_whole_node(judge)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    except NotModelled as error:
        if release:
            raise
        raise SubjectSetupError(
            f"{subject.info.name} cannot be judged: {error} "
            f"(--release {NEWEST} judges it by {NEWEST})"
        ) from error
    return judge


_WORD = re.compile(r"[\w:+.\\/-]+")


def _check_keyword(word: str) -> None:
    """Refuse a ``-k`` of one word that no scenario's id contains: it is a typing error."""
    ids = [one.id for one in catalogue()]
    names = [*ids, *topologies.names()]
    if _WORD.fullmatch(word) and not any(word.lower() in f"{name}@".lower() for name in names):
        raise SubjectUsageError(unknown_scenario(word, ids))


def unknown_scenario(word: str, ids: list[str]) -> str:
    """One line for an unknown id, with similar ones."""
    near = difflib.get_close_matches(word, ids, n=3, cutoff=0.5)
    near = near or [one for one in ids if any(part in one for part in re.split(r"[/-]", word))][:3]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"unknown scenario {word!r}{hint} (pinproof explain lists them all)"
