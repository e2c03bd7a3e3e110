"""``pinproof run``: the shipped suite, which is pytest underneath."""

from __future__ import annotations

import difflib
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

import topologies
from conformance.aliases import renamed
from conformance.catalogue import catalogue
from conformance.known import read as read_known
from conformance.scenario import Level
from conformance.session import options
from conformance.session.options import Option
from conformance.subject import Subject, SubjectSetupError, SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof.completion import machine_names, scenario_ids, subject_names
from pinproof.output import prepare_folder
from pinproof.password import AskSudoPassword, ask
from pinproof.subjects import with_options
from reference import NEWEST, NotModelled
from reference.releases import Release, newest_known, require_whole_node

#: Instead of a release: the one that the subject turns out to be, with what it has and lacks.
AUTO: Final = "auto"


def _declared(option: Option, **more: Any) -> Any:
    """An option of the run as the command's parameter has it."""
    flag = [f"--{option.name}"] if option.type is bool else []  # without --no-NAME
    return typer.Option(*flag, help=option.help, metavar=option.metavar, **more)


def run(
    context: typer.Context,
    subject: Annotated[str, _declared(options.SUBJECT, autocompletion=subject_names)] = (
        options.SUBJECT.default
    ),
    machine: Annotated[
        list[str] | None, _declared(options.MACHINE, autocompletion=machine_names)
    ] = None,
    keyword: Annotated[
        str,
        typer.Option(
            "-k",
            metavar="EXPRESSION",
            help="Only scenarios whose id contains this: pool/, 'qos or pool', 'not node'.",
            autocompletion=scenario_ids,
            show_default=False,
        ),
    ] = "",
    release: Annotated[str, _declared(options.RELEASE)] = "",
    behaviour: Annotated[list[str] | None, _declared(options.BEHAVIOUR)] = None,
    level: Annotated[Level, _declared(options.LEVEL)] = Level.EXTENDED,
    report: Annotated[Path | None, _declared(options.REPORT)] = None,
    resume: Annotated[bool, _declared(options.RESUME)] = False,
    shard: Annotated[str, _declared(options.SHARD)] = "",
    floor: Annotated[int, _declared(options.FLOOR, min=1)] = options.FLOOR.default,
    known: Annotated[Path | None, _declared(options.KNOWN)] = None,
    max_risk: Annotated[
        str,
        typer.Option(
            help="What may be done to a real node: read-only, pods, kubelet-restart, cpu-offline, "
            "reboot. Default: pods; everything on nodes of the lab."
        ),
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Pods of real nodes come through the API server that this file names."),
    ] = None,
    ask_sudo_password: AskSudoPassword = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the commands for a real node, and send none."),
    ] = False,
    explore: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            metavar="MINUTES",
            help="Then explore the subject for so many minutes (pinproof explore), on the machines "
            "that were named; what is found goes to explored/ in --report.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[Path | None, _declared(options.RECORD)] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show pytest's own output too.")
    ] = False,
) -> None:
    """Run the scenarios on a subject, and report.

    All other options go to pytest: -x stops at the first failure, --lf runs only the scenarios that
    failed in the last run on this subject, --ff runs these first. -rs lists why scenarios were
    skipped. -n 2 uses two processes, -n 0 one. Without -n every CPU of this host gets a process, at
    most eight, if that saves time.
    """
    import pytest

    import reports
    from conformance.smoke import smoke
    from pinproof import pytest_arguments
    from pinproof.dry_run import dry_run as show_commands
    from pinproof.explore import Wish, explored_after, require_explorable
    from pinproof.identify import judged_as
    from pinproof.run_progress import Following
    from pinproof.subjects import opened
    from reports.formats import formatted

    subject = with_options(subject, max_risk, kubeconfig, password=ask_sudo_password)
    keyword = renamed(keyword)
    more = [*(["-k", keyword] if keyword else []), *context.args]
    config = pytest_arguments.parsed(more, _options(context)) if more else None
    machines = machine or ["all"]
    found = {
        name
        for pattern in machines
        for name in topologies.matching(pattern) or [topologies.machine(pattern).name]
    }
    cases = [
        f"{one.id}@{name}"
        for one in catalogue()
        for name in ([one.machine] if one.machine else found)
    ]
    _check_keyword(keyword)
    if known is not None:
        read_known(known, [one.id for one in catalogue()])
    if resume and report is None:
        raise SubjectUsageError("--resume goes on in --report DIR, which is not given")
    if explore and report is None:
        raise SubjectUsageError("--explore writes to --report DIR, which is not given")
    if ask_sudo_password:
        ask()
    if release == AUTO:
        release, found_out = judged_as(subject)
        behaviour = [*found_out, *(behaviour or [])]
    chosen = [
        *pytest_arguments.ALONE,
        *pytest_arguments.memory(subject),
        *options.arguments(
            subject=subject,
            release=release,
            behaviour=behaviour,
            machine=machines,
            level=level.value,
            shard=shard,
            no_smoke=True,
        ),
    ]
    if dry_run:
        raise typer.Exit(show_commands(subject, [*chosen, *more]))
    console = Console(highlight=False)
    with opened(subject) as tried:
        _require_judge(release, behaviour or [], tried)
        smoke(tried)  # built, and proven to start, before any worker does
        if explore:
            require_explorable(tried, machine or [])
    stream = _stream(report, resume=resume)
    before = when_written(stream)
    arguments = [
        *chosen,
        *options.arguments(
            floor=floor,
            record=record,
            report=report,
            resume=resume,
            known=known and known.absolute(),
        ),
        *([] if report else options.arguments(stream=stream)),
        *_appearance(verbose),
        *pytest_arguments.workers(subject, cases, config),
        *pytest_arguments.brief(context.args),
        *(() if resume else pytest_arguments.together(subject, more)),
        *more,
    ]
    following = None if verbose else Following(console, sys.stderr)
    status = int(pytest.main(arguments, plugins=[following] if following else []))
    if when_written(stream) in (None, before):
        raise typer.Exit(_without_stream(status))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        typer.echo(formatted(reports.load(stream, ended=status), "github"), nl=False)
    skips = config is not None and "s" in config.getoption("reportchars")
    reports.summarise(stream, console, ended=status, stories=following is None, skips=skips)
    if report is not None:
        whole = (report / "report.html").exists()
        typer.echo(f"report: {report if whole else _unfinished(report)}", err=True)
    if explore and report and reports.load(stream, ended=status).footer is not None:
        wish = Wish(explore, machine or [], release, behaviour or [], shard, resume)
        status = _worse(status, explored_after(subject, wish, report / "explored"))
    raise typer.Exit(status)


#: The worst first, where two parts of a run end differently.
_WORST_FIRST: Final = (
    ExitStatus.NOT_RESTORED,
    ExitStatus.NOT_CONFORMANT,
    ExitStatus.USAGE,
    ExitStatus.COULD_NOT_TELL,
    ExitStatus.TOO_FEW,
    ExitStatus.CONFORMANT,
)


def _worse(one: int, other: int) -> int:
    return min(one, other, key=_WORST_FIRST.index)


def _unfinished(report: Path) -> str:
    """What there is of a run that was cut off."""
    return f"none, the run was cut off; with --resume it goes on in {report}"


def _options(context: typer.Context) -> list[str]:
    """The options that the command itself has."""
    return [name for parameter in context.command.params for name in parameter.opts]


def when_written(stream: Path) -> tuple[int, int] | None:
    """Which file it is and when it was written last; ``None``: it has nothing."""
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


def _appearance(verbose: bool) -> list[str]:
    """Nothing of pytest's own: :class:`pinproof.run_progress.Following` writes the progress."""
    if verbose:
        return ["-ra"]
    return ["-qq", "--no-header", "--no-summary", "--tb=no", "--show-capture=no"]


def _without_stream(status: int) -> int:
    """What an early end means, when pytest ended before there was anything to report."""
    import pytest

    if status in (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.OK):
        typer.echo("pinproof: no scenario applies: nothing was run", err=True)
        return ExitStatus.TOO_FEW
    if status == pytest.ExitCode.USAGE_ERROR:
        return ExitStatus.USAGE
    return ExitStatus.COULD_NOT_TELL


def _require_judge(release: str | None, behaviours: list[str], subject: Subject) -> None:
    """Refuse a release that the model cannot judge, before anything is run."""
    try:
        base = (
            Release.parse(release) if release else newest_known(Release.parse(subject.info.release))
        )
        require_whole_node(base.overridden(*behaviours))
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    except NotModelled as error:
        if release:
            raise
        raise SubjectSetupError(
            f"{subject.info.name} cannot be judged: {error} "
            f"(--release {NEWEST} judges it by {NEWEST})"
        ) from error


_WORD = re.compile(r"[\w:+.\\/-]+")


def _check_keyword(word: str) -> None:
    """A ``-k`` of one word that no scenario's id contains is a slip, and the user's to mend."""
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
