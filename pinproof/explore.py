"""``pinproof explore``: drawn histories on a subject, beside the model.

What belongs here: options, the result stream, and what is printed. What never does: the exploration
(``hunting.exploring``).
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

import reports
import topologies
from conformance.ending import ended_like_an_interrupt
from conformance.progress import Stage
from conformance.records import Header
from conformance.results import Result, ResultsError
from conformance.smoke import smoke
from conformance.stream import StreamWriter
from conformance.subject import Subject, SubjectUsageError, WaitsMost
from conformance.verdict import ExitStatus, Verdict, exit_status
from hunting.campaign import Shard
from hunting.exploring import telling
from hunting.exploring.campaign import MOST_CAUSES, Exploration, Outcome, Scope
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History, history_at
from hunting.exploring.plan import best_first, plan_at, write_plan
from hunting.exploring.settings import keep_machine
from pinproof.busy import busy
from pinproof.completing import machine_names, subject_names
from pinproof.output import note
from pinproof.run import prepare_folder
from pinproof.subjects import opened
from reference.releases import Release, newest_known

#: Where there is no ``--machine``: small ones on which values meet that do not meet on others.
MACHINES: Final = (
    "2s-2n-8c-smt2", "1s-1n-4c-smt2", "qemu-2s-4n-16c-smt2-near-l3s", "1s-1n-4c-smt1",
)  # fmt: skip
_FOLDER: Final = Path("explored")
_MINUTE: Final = 60.0
_SEED: Final = "explored with seed"


def explore(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="What is judged: kubelet:BINARY, kubelet:1.36, exec:PROGRAM, miniature:NAME.",
            autocompletion=subject_names,
        ),
    ],
    machine: Annotated[
        list[str] | None,
        typer.Option(
            help="On which machine; may be repeated. Default: four small ones.",
            metavar="MACHINE", autocompletion=machine_names, show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--time", min=0.01, help="Draw for so many minutes.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="The same seed draws the same histories.")] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-n", "--jobs", min=1, max=64, show_default=False,
            help="How many nodes are used at a time. Default: three for each CPU of this host.",
        ),
    ] = None,
    shard: Annotated[str, typer.Option(help="The K-th of N parts, as K/N.")] = "1/1",
    report: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where results, causes and coverage go.")
    ] = _FOLDER,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the exploration in --report.")
    ] = False,
    first: Annotated[
        bool, typer.Option("-x", help="End with the first cause of a difference.")
    ] = False,
    only: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Walk the N-th history alone.", show_default=False),
    ] = 0,
    shrink: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Shrink what differs, or tell it as it is.")
    ] = True,
    release: Annotated[
        str, typer.Option(help="Judge by this release instead of the subject's own.")
    ] = "",
    plan: Annotated[
        Path | None,
        typer.Option(help="Walk the histories of this plan, and draw none.", metavar="FILE",
                     show_default=False),
    ] = None,
    keep_plan: Annotated[
        Path | None,
        typer.Option(help="Write the histories that cover most as a plan.", metavar="FILE",
                     show_default=False),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Walk the one history in this file again.", metavar="FILE",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Draw histories, walk the subject through them beside the model, and shrink what differs.

    A history is a machine, a configuration, pods and what happens to them, so drawn that all pairs
    of values meet. Each is judged as a scenario is: by the model of its release and by the
    invariants. A difference is walked again, shrunk, and kept in a folder of its own: story.txt,
    history.json, scenario.py. The exit status is that of run.

    pinproof explore kubelet:1.36 --machine 2s-2n-8c-smt2 --time 10
    """
    part = Shard.parse(shard)
    one = history_at(replay) if replay else None
    planned = plan_at(plan) if plan else ()
    names = _kept(machine or ([] if one or planned else list(MACHINES)))
    with opened(subject) as tried:
        judged_by = str(Release.parse(release) if release else _newest(tried))
        smoke(tried)
        if one is not None:
            raise typer.Exit(_replayed(one, tried, judged_by))
        scope = Scope(
            tuple(names), judged_by, seed=seed, shard=part.number, of=part.count,
            most=1 if first else MOST_CAUSES, only=only, shrink=shrink,
        )  # fmt: skip
        at_a_time = jobs or (3 * (os.cpu_count() or 1) if isinstance(tried, WaitsMost) else 1)
        words = ["pinproof", "explore", subject]
        words += [word for name in machine or () for word in ("--machine", name)]
        words += ["--plan", str(plan)] if plan else ["--seed", str(seed)]
        words += ["--shard", shard] if part.count > 1 else []
        exploration = Exploration(
            tried, scope, at_a_time=at_a_time, plan=planned,
            replay=lambda number: shlex.join([*words, "--only", str(number)]),
        )  # fmt: skip
        run = _Run(exploration, tried, report, resume=resume)
        with run.written():
            status = run.through(minutes * _MINUTE)
        if keep_plan is not None:
            write_plan(best_first([*exploration.drawn.values()]), judged_by, keep_plan)
    run.print(status)
    raise typer.Exit(int(status))


def _newest(subject: Subject) -> Release:
    return newest_known(Release.parse(subject.info.release))


def _kept(patterns: Sequence[str]) -> list[str]:
    """The names of these machines, whose objects are kept for histories to find them."""
    found = [one for pattern in patterns for one in topologies.find(pattern)]
    for one in found:
        keep_machine(one)
    return list(dict.fromkeys(one.name for one in found))


def _replayed(history: History, subject: Subject, release: str) -> ExitStatus:
    result = walked(Walk("replay", history), subject, release)
    if result.explanation:
        typer.echo(result.explanation)
    else:
        typer.echo(
            f"{result.verdict}: {len(result.steps)} steps as the model of {release} has them"
        )
    return exit_status({Verdict(result.verdict): 1})


def _so_far(text: str, done: int, total: int) -> Stage:
    """A stage of one kind, whatever its numbers."""
    stage = Stage(text, done, total, "seconds")
    stage.what = "exploring"
    return stage


class _Run:
    """One exploration with its files."""

    def __init__(
        self, exploration: Exploration, subject: Subject, folder: Path, *, resume: bool
    ) -> None:
        self._exploration, self._subject, self._folder = exploration, subject, folder
        scope = exploration.scope
        self._before = _earlier(folder, subject, scope.seed) if resume else None
        stream = prepare_folder(folder, (telling.COVERAGE,), resume=resume)
        self._stream = stream
        self._writer = StreamWriter(
            stream, subject.info, list(scope.machines), _environment(scope.release),
            before=self._before, command=list(sys.argv),
            configuration={_SEED: str(scope.seed)},
        )  # fmt: skip
        self._counts = dict.fromkeys(Verdict, 0)
        for result in self._before[1] if self._before else ():
            self._counts[Verdict(result.verdict)] += 1
        self._unsteady = 0
        self._told = 0

    @contextmanager
    def written(self) -> Iterator[None]:
        """What was found is in the folder at the end, however that comes."""
        try:
            yield
        finally:
            self._exploration.close()
            telling.write_coverage(self._exploration, self._folder)

    def through(self, seconds: float) -> ExitStatus:
        """Explore for so long; the status of what came of it."""
        began, done = time.monotonic(), True
        skip = [one.scenario.rpartition("/")[2] for one in (self._before or ((), ()))[1]]
        try:
            with ended_like_an_interrupt(), busy("explore") as say:
                stories = self._exploration.explore(
                    until=began + seconds, skip=skip, progress=self._shown(say, began, seconds)
                )
                with closing(stories):
                    for outcome in stories:
                        self._hear(outcome)
        except KeyboardInterrupt:
            note("pinproof: explore: interrupted; what was found is kept, --resume goes on")
            done = False
        status = exit_status(self._counts)
        if not done and status == ExitStatus.CONFORMANT:
            status = ExitStatus.COULD_NOT_TELL
        if done:
            self._writer.finish(self._counts, status)
        else:
            self._writer.abandon()
        return status

    def _hear(self, outcome: Outcome) -> None:
        self._told += 1
        result = self._as_kept(outcome)
        self._counts[Verdict(result.verdict)] += 1
        self._writer.add(result)
        if outcome.first:
            telling.write_cause(
                self._exploration.causes[outcome.cause - 1],
                self._folder,
                self._exploration.scope.release,
            )
        if outcome.unsteady:
            self._unsteady += 1
            telling.write_history(
                outcome.history, self._folder / "unsteady" / f"{outcome.name}.json"
            )

    def _as_kept(self, outcome: Outcome) -> Result:
        """The result with a command that walks the history again. A cause's first result has the
        shrunk history; that of another history of the cause has no pictures."""
        cause = next((one for one in self._exploration.causes if one.number == outcome.cause), None)
        result = outcome.result
        if cause is None:
            return result
        if outcome.first:
            result = msgspec.structs.replace(cause.result, scenario=result.scenario)
        replay = shlex.join(
            ["pinproof", "explore", self._subject.info.name, "--replay",
             str(telling.folder_of(cause, self._folder) / telling.HISTORY)]
        )  # fmt: skip
        cause.result = msgspec.structs.replace(
            cause.result,
            replay=replay,
            explanation=cause.result.explanation.replace(cause.result.replay, replay),
        )
        explanation = result.explanation.replace(result.replay, replay)
        return msgspec.structs.replace(result, replay=replay, explanation=explanation)

    def _shown(
        self, say: Callable[[str], None], began: float, seconds: float
    ) -> Callable[[str], None]:
        def show(stage: str = "") -> None:
            spent = max(time.monotonic() - began, 0.01)
            text = f"{self._told} histories, {self._told / spent:.1f} a second, {self._covered()}"
            causes = len(self._exploration.causes)
            text += f", {causes} {'cause' if causes == 1 else 'causes'}" if causes else ""
            text += f"; {stage}" if stage else ""
            say(_so_far(text, int(min(spent, seconds)), int(seconds)))

        return show

    def _covered(self) -> str:
        every = self._exploration.covering.values()
        met, possible = sum(one.met for one in every), sum(one.possible for one in every)
        return f"pairs met {100 * met // max(possible, 1)} %"

    def print(self, status: ExitStatus) -> None:
        """Summarise, as run does."""
        console = Console(highlight=False)
        reports.summarise(self._stream, console, ended=int(status), stories=True)
        reports.write_all(self._stream, self._folder)
        lines = self._exploration.lines
        note(
            f"{self._exploration.walked} histories; {self._covered()}; lines of the model "
            f"{lines.met} of {lines.total}; {len(self._exploration.refusals)} kinds of refusals"
        )
        if self._unsteady:
            note(
                f"{self._unsteady} differed once and not again (a busy host, or chance): "
                f"{self._folder / 'unsteady'}"
            )
        for cause in self._exploration.causes:
            note(f"cause {cause.number}: {telling.folder_of(cause, self._folder)}")
        note(f"report: {self._folder}")


def _earlier(folder: Path, subject: Subject, seed: int) -> tuple[Header, list[Result]] | None:
    """The part of this exploration that is in the folder. Raises :class:`SubjectUsageError` where
    it is of another one."""
    stream = folder / "result.jsonl"
    if not stream.exists():
        return None
    try:
        found = reports.load(stream)
    except ResultsError as error:
        raise SubjectUsageError(f"--resume: {error}") from error
    was = (found.header.subject.digest, found.header.configuration.get(_SEED))
    if was != (subject.info.digest, str(seed)):
        raise SubjectUsageError(f"--resume: {stream} is of another subject or seed")
    return found.header, list(found.results)


def _environment(release: str) -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus of the host": str(os.cpu_count() or 0),
        "pinproof": version("pinproof"),
        "judged by release": release,
    }
