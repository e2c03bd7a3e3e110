"""``pinproof explore``: drawn histories on a subject, beside the model.

What belongs here: options, the result stream, and what is printed. What never does: the exploration
(``hunting.exploring``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import typer
from rich.console import Console

import reports
import topologies
from conformance.ending import ended_like_an_interrupt
from conformance.kubelets.put import with_files
from conformance.oracle import ModelOracle
from conformance.progress import Stage
from conformance.records import Header
from conformance.results import Result, ResultsError
from conformance.session import options
from conformance.smoke import smoke
from conformance.stream import StreamWriter, host
from conformance.subject import (
    Capability,
    CouldDoMore,
    HasOwnMachines,
    Subject,
    SubjectUsageError,
    WaitsMost,
    judging_release,
)
from conformance.subjects.reference import ReferenceSubject
from conformance.verdict import ExitStatus, Verdict, exit_status
from hunting.campaign import Shard
from hunting.exploring import telling
from hunting.exploring.campaign import MOST_CAUSES, Cause, Exploration, Outcome, Scope
from hunting.exploring.causes import Symptom
from hunting.exploring.driving import Walk, replayed
from hunting.exploring.history import History, history_at
from hunting.exploring.plan import best_first, plan_at, write_plan
from hunting.exploring.settings import keep_machine, machine_of
from hunting.exploring.turns import long_turns
from pinproof.completion import machine_names, subject_names
from pinproof.output import note, prepare_folder
from pinproof.parameters import (
    A_YEAR,
    Kubeconfig,
    ShardText,
    TransportImage,
    argument,
    option,
    run_option,
    with_options,
)
from pinproof.progress import busy
from pinproof.subjects import fork_at, opened, with_node_options
from reference.errors import NotModelled
from reference.releases import Release
from reference.steps import Start
from topologies import Machine

#: The machines without ``--machine``: small ones. Each lets values meet that do not meet on the
#: others.
MACHINES: Final = (
    "2s-2n-8c-smt2", "qemu-2s-4n-16c-smt2-near-l3s", "1s-1n-4c-smt2",
)  # fmt: skip
#: Machines of other kinds, which get some of the histories in that case: uneven cores and sockets,
#: NUMA nodes without CPUs or more than a Topology Manager takes, ids with gaps, several uncore
#: caches.
OTHERS: Final = (
    "1s-1n-4c-smt2-off7", "2s-2n-16c-smt2-mem2", "4s-2n-16c-smt2", "2s-2n-32c-smt2-l3x4",
    "1s-1n-14c-smt2-near-e8-i7-1370p", "2s-2n-8c-smt2-cpustep2-pkgstep2-nodestep4",
    "1s-2n-8c-smt4-near", "2s-2n-12c-smt2-interleaved", "qemu-8s-8n-16c-smt1",
    "2s-2n-16c-smt2-off3,7-8,19", "2s-4n-40c-smt2-interleaved", "qemu-4s-16n-32c-smt2-near-dies",
    "1s-1n-4c-smt1",
)  # fmt: skip
#: Without ``--jobs``: how many nodes are used at a time for each CPU of the host, and at most. One
#: process cannot draw histories for more.
_FOR_EACH_CPU, _MOST = 8, 24
#: A kubelet takes six inotify instances. Linux gives a user 128 by default, and the user's other
#: programs need some.
_INOTIFY_INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")
_INSTANCES_FOR_EACH: Final = 8
_MINUTE: Final = 60.0
_SEED: Final = "explored with seed"
_UNSTEADY: Final = "unsteady"


@dataclass(frozen=True, slots=True)
class Asked:
    subject: str = argument(
        "What is judged: kubelet:BINARY, kubelet:1.36, exec:PROGRAM, miniature:NAME, "
        "node:INVENTORY.",
        autocompletion=subject_names,
    )
    machine: list[str] | None = option(
        None,
        "On which machine; may be repeated. Default: three small ones, now and then one of another "
        "kind; or the nodes.",
        autocompletion=machine_names,
    )
    minutes: float = option(10, "Draw for this number of minutes.", "--time", min=0.01, max=A_YEAR)
    seed: int = option(1, "The same seed draws the same histories.")
    jobs: int | None = option(
        None,
        "How many nodes are used at a time. Default: eight for each CPU of this host.",
        *("-n", "--jobs"),
        min=1,
        max=64,
    )
    shard: ShardText = "1/1"
    report: Path = option(Path("explored"), "Where results, causes and coverage go.")
    resume: bool = option(False, "Go on with the exploration in --report.", "--resume")
    first: bool = option(False, "End with the first cause of a difference.", "-x")
    only: int = option(0, "Walk the N-th history alone.", min=0, metavar="N", show_default=False)
    shrink: bool = option(True, "Shrink what differs, or tell it as it is.")
    release: str = option("", "Judge by this release instead of the subject's own.")
    behaviours: Path | None = run_option(options.FORK_BEHAVIOURS)
    plan: Path | None = option(None, "Walk the histories of this plan, and draw none.")
    keep_plan: Path | None = option(None, "Write the histories that cover most as a plan.")
    replay: Path | None = option(None, "Walk the one history in this file again.")
    risk: str = option(
        "",
        "What may be done to a real node: kubelet-restart, cpu-offline or reboot. Required, except "
        "on nodes of the lab.",
        "--max-risk",
    )
    kubeconfig: Kubeconfig = None
    transport_image: TransportImage = ""


@with_options
def explore(asked: Asked) -> None:
    """Draw histories, walk the subject through them beside the model, and shrink what differs.

    A history is a machine, a configuration, pods and what happens to them, so drawn that all pairs
    of values meet. Each is judged as a scenario is: by the model of its release and by the
    invariants. A difference is walked again, shrunk, and kept in a folder of its own: story.txt,
    history.json, scenario.py. The exit status is that of run.

    pinproof explore kubelet:1.36 --machine 2s-2n-8c-smt2 --time 10
    """
    Shard.parse(asked.shard)  # before anything is opened
    one = history_at(asked.replay) if asked.replay else None
    planned = plan_at(asked.plan) if asked.plan else ()
    fork = fork_at(asked.behaviours)
    named = with_files(asked.subject, fork.files)
    subject = with_node_options(
        named, asked.risk, asked.kubeconfig, transport_image=asked.transport_image
    )
    if asked.keep_plan is not None and not os.access(asked.keep_plan.absolute().parent, os.W_OK):
        raise SubjectUsageError(f"--keep-plan {asked.keep_plan}: nothing can be written there")
    with opened(subject) as tried:
        default = () if one or planned else MACHINES
        names = _machines(tried, asked.machine or (), default=default)
        judged_by = str(_judge_of(asked.release, tried).overridden(*fork.overrides))
        _require_walkable(asked.replay or asked.plan, [one] if one else planned, judged_by)
        tried = _of_release(tried, asked.release)
        smoke(tried)
        if one is not None:
            again = shlex.join(["pinproof", "explore", subject, "--replay", str(asked.replay)])
            raise typer.Exit(_replayed(Walk("replay", one, again), tried, judged_by))
        asked = replace(asked, subject=subject)
        exploration, status = _explored(asked, tried, names, judged_by, planned)
        if asked.keep_plan is not None:
            write_plan(best_first([*exploration.drawn.values()]), judged_by, asked.keep_plan)
    raise typer.Exit(int(status))


def explored_after(asked: Asked, behaviours: Sequence[str]) -> ExitStatus:
    """Explore a subject after its run, judged by its release with these behaviours."""
    with opened(asked.subject) as tried:
        names = _machines(tried, asked.machine or ())
        judged_by = str(_judge_of(asked.release, tried).overridden(*behaviours))
        tried = _of_release(tried, asked.release)
        return _explored(asked, tried, names, judged_by)[1]


def _explored(
    asked: Asked,
    subject: Subject,
    names: Sequence[str],
    judged_by: str,
    planned: Sequence[History] = (),
) -> tuple[Exploration, ExitStatus]:
    part, machines = Shard.parse(asked.shard), asked.machine or ()
    # If no machine is named, machines of other kinds get some of the histories.
    others = () if planned or machines or isinstance(subject, HasOwnMachines) else OTHERS
    scope = Scope(
        tuple(names), judged_by, others, seed=asked.seed, shard=part.number, of=part.count,
        most=1 if asked.first else MOST_CAUSES, only=asked.only, shrink=asked.shrink,
    )  # fmt: skip
    words = ["--plan", str(asked.plan)] if asked.plan else ["--seed", str(asked.seed)]
    at_a_time = asked.jobs or (_nodes_of_host() if isinstance(subject, WaitsMost) else 1)
    exploration = Exploration(
        subject, scope, at_a_time=at_a_time, plan=planned,
        replay=_replay_command(asked.subject, machines, part, words),
    )  # fmt: skip
    run = _Run(exploration, subject, asked.report, resume=asked.resume)
    with run.written(), long_turns():
        status = run.through(asked.minutes * _MINUTE)
    run.print(status)
    return exploration, status


def require_explorable(subject: Subject, machines: Sequence[str]) -> None:
    """Raises :class:`SubjectUsageError` where this subject cannot be explored on these machines."""
    _machines(subject, machines)


def _nodes_of_host() -> int:
    """How many kubelets this host carries at a time."""
    instances = int(_INOTIFY_INSTANCES.read_text())
    of_cpus = _FOR_EACH_CPU * (os.cpu_count() or 1)
    return max(1, min(of_cpus, instances // _INSTANCES_FOR_EACH, _MOST))


def _replay_command(
    subject: str, machines: Sequence[str], part: Shard, words: Sequence[str]
) -> Callable[[int], str]:
    """The command that walks the history with a given number again."""
    every = ["pinproof", "explore", subject]
    every += [word for name in machines for word in ("--machine", name)]
    every += [*words, *(["--shard", f"{part.number}/{part.count}"] if part.count > 1 else [])]
    return lambda number: shlex.join([*every, "--only", str(number)])


def _of_release(subject: Subject, release: str) -> Subject:
    """The subject; the model and a miniature are switched to ``release``, if one is given."""
    if isinstance(subject, ReferenceSubject) and release:
        return subject.of(str(Release.parse(release)))
    return subject


def _judge_of(release: str, subject: Subject) -> Release:
    """The release to judge by. Raises :class:`SubjectUsageError`."""
    try:
        return Release.parse(release) if release else judging_release(subject.info)
    except ValueError as error:
        raise SubjectUsageError(f"--release: {error}") from error


def _machines(
    subject: Subject, patterns: Sequence[str], *, default: Sequence[str] = MACHINES
) -> list[str]:
    """The names of these machines, whose objects are kept for histories to find them. A subject of
    real nodes has its own: those that are named, or all. Raises :class:`SubjectUsageError`."""
    if isinstance(subject, HasOwnMachines):
        found = _nodes(subject, patterns)
    else:
        found = [one for pattern in patterns or default for one in topologies.find(pattern)]
    for one in found:
        keep_machine(one)
    return list(dict.fromkeys(one.name for one in found))


def _nodes(subject: HasOwnMachines, names: Sequence[str]) -> list[Machine]:
    own = {one.name: one for one in subject.machines}
    if unknown := [one for one in names if one not in own]:
        raise SubjectUsageError(f"--machine {unknown[0]}: the nodes are {', '.join(own)}")
    if isinstance(subject, CouldDoMore) and (need := subject.lacking.get(Capability.CONFIGURE)):
        raise SubjectUsageError(f"explore changes the configuration of a node's kubelet: it {need}")
    return [own[one] for one in names or own]


def _require_walkable(path: Path | None, histories: Sequence[History], release: str) -> None:
    """Refuse histories of a file that no node of the release can walk. Raises
    :class:`SubjectUsageError`."""
    for one in histories:
        if not one.steps or not isinstance(one.taken[0], Start):
            raise SubjectUsageError(f"{path}: the first step of a history is Start")
        try:
            machine = machine_of(one.machine)
            ModelOracle(machine, one.task(release).config, machines=machine_of, release=release)
        except (topologies.MachineError, NotModelled) as error:
            raise SubjectUsageError(f"{path}: {error}") from error


def _replayed(walk: Walk, subject: Subject, release: str) -> ExitStatus:
    result = replayed(walk, subject, release)
    if result.explanation:
        typer.echo(result.explanation)
    elif result.verdict == Verdict.PASS.value:
        typer.echo(f"pass: {len(result.steps)} steps as the model of {release} has them")
        if result.reason:
            typer.echo(result.reason)
    else:
        typer.echo(f"{result.verdict}: {result.reason}")
    return exit_status({Verdict(result.verdict): 1})


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _so_far(text: str, done: int, total: int) -> Stage:
    """The progress of an exploration. All its texts belong to one stage."""
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
        self._before = _earlier(folder, subject, scope) if resume else None
        stream = prepare_folder(folder, (telling.COVERED,), resume=resume)
        if resume:
            exploration.causes += _causes_in(
                folder, self._before[1] if self._before else (), scope.release
            )
        else:
            for name in (telling.CAUSES, _UNSTEADY):
                shutil.rmtree(folder / name, ignore_errors=True)
        self._stream = stream
        self._writer = StreamWriter(
            stream, subject.info, list(scope.every_machine), host(scope.release),
            before=self._before, command=list(sys.argv),
            configuration={_SEED: str(scope.seed)},
        )  # fmt: skip
        self._counts = dict.fromkeys(Verdict, 0)
        for result in self._before[1] if self._before else ():
            self._counts[Verdict(result.verdict)] += 1
        self._unsteady = 0
        self._walked = 0

    @contextmanager
    def written(self) -> Iterator[None]:
        """The block explores. At its end, also after an error, the coverage is written to the
        folder."""
        try:
            yield
        finally:
            self._exploration.close()
            telling.write_coverage(self._exploration, self._folder)

    def through(self, seconds: float) -> ExitStatus:
        """Explore for this time, and return the exit status of what was found."""
        began, done = time.monotonic(), True
        skip = [one.scenario.rpartition("/")[2] for one in (self._before or ((), ()))[1]]
        try:
            with ended_like_an_interrupt(), busy("explore") as say:
                stories = self._exploration.explore(
                    until=began + seconds, skip=skip, progress=self._progress(say, began, seconds)
                )
                with closing(stories):
                    for outcome in stories:
                        self._keep(outcome)
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

    def _keep(self, outcome: Outcome) -> None:
        self._walked += 1
        result = self._as_kept(outcome)
        self._counts[Verdict(result.verdict)] += 1
        self._writer.add(result)
        if outcome.shrunk:
            cause = self._exploration.causes[outcome.cause - 1]
            if outcome.first:
                telling.write_cause(cause, self._folder, self._exploration.scope.release)
            else:
                telling.add_history(cause, self._folder, outcome.name, *outcome.shrunk)
        if outcome.once:
            self._unsteady += 1
            kept = self._folder / _UNSTEADY / outcome.name
            telling.write_history(outcome.history, kept.with_suffix(".json"))
            kept.with_suffix(".txt").write_text(f"{outcome.once.explanation}\n")

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

    def _progress(
        self, say: Callable[[str], None], began: float, seconds: float
    ) -> Callable[[str], None]:
        def show(stage: str = "") -> None:
            spent = max(time.monotonic() - began, 0.01)
            walked = _counted(self._walked, "history", "histories")
            text = f"{walked}, {self._walked / spent:.1f} a second"
            text += f", {self._covered()}" if self._exploration.drawn else ""
            causes = len(self._exploration.causes)
            text += f", {_counted(causes, 'cause', 'causes')}" if causes else ""
            text += f"; {stage}" if stage else ""
            say(_so_far(text, int(min(spent, seconds)), int(seconds)))

        return show

    def _covered(self) -> str:
        exploration = self._exploration
        every = [exploration.covering[name] for name in exploration.scope.machines]
        met, possible = sum(one.met for one in every), sum(one.possible for one in every)
        return f"pairs met {100 * met // max(possible, 1)} %"

    def _reached(self) -> str:
        """What the drawn histories covered; ``""`` for a plan, whose histories are not drawn."""
        if not self._exploration.drawn:
            return ""
        lines, refusals = self._exploration.lines, len(self._exploration.refusals)
        return (
            f"; {self._covered()}; lines of the model {lines.met} of {lines.total}; "
            f"{_counted(refusals, 'kind', 'kinds')} of refusals"
        )

    def print(self, status: ExitStatus) -> None:
        console = Console(highlight=False)
        reports.summarise(self._stream, console, ended=int(status), stories=True)
        reports.write_all(self._stream, self._folder)
        note(f"{_counted(self._exploration.walked, 'history', 'histories')}{self._reached()}")
        if self._unsteady:
            note(
                f"{self._unsteady} differed once and not again (a busy host, or chance): "
                f"{self._folder / _UNSTEADY}"
            )
        for cause in self._exploration.causes:
            note(f"cause {cause.number}: {telling.folder_of(cause, self._folder)}")
        note(f"report: {self._folder}")


def _earlier(folder: Path, subject: Subject, scope: Scope) -> tuple[Header, list[Result]] | None:
    """The part of this exploration that is in the folder. Raises :class:`SubjectUsageError` where
    it is of another one."""
    stream = folder / "result.jsonl"
    if not stream.exists():
        return None
    try:
        found = reports.load(stream)
    except ResultsError as error:
        raise SubjectUsageError(f"--resume: {error}") from error
    header, info = found.header, subject.info
    for what, there, now in (
        ("subject", (header.subject.name, header.subject.digest), (info.name, info.digest)),
        ("seed", header.configuration.get(_SEED), str(scope.seed)),
        ("release to judge by", header.environment.get("judged by release"), scope.release),
        ("list of machines", tuple(header.machines), scope.every_machine),
    ):
        if there != now:
            raise SubjectUsageError(f"--resume: {stream} is of another {what}")
    return header, list(found.results)


def _causes_in(folder: Path, results: Sequence[Result], release: str) -> list[Cause]:
    """The causes that an exploration has left in its folder, by their numbers."""
    causes: list[Cause] = []
    while True:
        number = len(causes) + 1
        path = folder / telling.CAUSES / str(number) / telling.HISTORY
        met = [one for one in results if one.replay.endswith(shlex.join([str(path)]))]
        if not met or not path.exists():
            return causes
        names = [one.scenario.rpartition("/")[2] for one in met]
        history = history_at(path)
        symptom = Symptom.of(met[0], history, release)
        causes.append(Cause(number, history, met[0], {symptom}, names))
