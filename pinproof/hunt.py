"""``pinproof hunt``: the model is searched for histories that break promises.

What belongs here: options, and what is printed. What never does: the search (``hunting``).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.crash_points import MACHINE, Tried
from conformance.crash_points import walk as points
from conformance.promises import PROMISES
from conformance.subject import SubjectError, SubjectUsageError
from conformance.subjects import open_subject
from conformance.verdict import ExitStatus
from hunting import campaign, families
from hunting.campaign import Campaign, Header, Progress, Shard
from hunting.confirming import Witnesses, confirmed
from hunting.families import FAMILIES, UPGRADES
from hunting.finds import Collection, Find
from hunting.upgrades import neighbours
from pinproof.output import note
from pinproof.parameters import A_YEAR, ShardText, option, read_options, with_options
from pinproof.progress import busy
from reference.releases import LATEST, OLDEST, Release
from reports.text import clean

app = typer.Typer(invoke_without_command=True)


@dataclass(frozen=True, slots=True)
class Asked:
    release: str = option("1.37", "The release whose model is searched.")
    machine: list[str] | None = option(None, "Search this machine alone; may be repeated.")
    cpus: int = option(8, "Without --machine: machines of at most this many CPUs.", min=2, max=16)
    shapes: str = option(
        campaign.EVERY,
        "Without --machine: regular machines, uneven ones, or all.",
        metavar="|".join((*campaign.SHAPES, campaign.EVERY)),
    )
    depth: int | None = option(
        None, "Moves in a history. Default: 3; 20 in random walks.", min=1, max=100
    )
    walk: str = option(
        campaign.BREADTH,
        "breadth: every history up to --depth. random: long histories drawn by --seed, on machines "
        "of the catalogue too, with all --moves.",
        metavar="HOW",
    )
    minutes: float | None = option(None, "Stop after this number of minutes.", "--time", max=A_YEAR)
    jobs: int = option(1, "How many processes search.", "-n", "--jobs", min=1, max=256)
    seed: int = option(0, "Shuffle the searches; 0: small machines first.")
    shard: ShardText = "1/1"
    output: Path = option(
        Path("hunt"), "Where to keep what is found.", "--report", metavar="FOLDER"
    )
    resume: Path | None = option(None, "Go on with the campaign in this folder.", metavar="FOLDER")
    alpha: bool = option(False, "Search options behind alpha feature gates too.")
    ignore: list[str] | None = option(
        None, "Do not report this promise, and search on; may be repeated."
    )
    moves: str = option(
        "",
        f"What else may happen in a history: {', '.join(FAMILIES)}, or all.",
        metavar="FAMILY,...",
    )
    upgrade_to: list[str] | None = option(
        None,
        "Let the kubelet of this release take over as well (--moves upgrades); may be repeated. "
        "Default: the minors before and after --release.",
        "--upgrade-to",
        metavar="RELEASE",
    )
    blind: bool = option(False, "Do not match finds with known defects.")
    confirm: list[str] | None = option(
        None,
        "Show each find on this subject, such as kubelet:1.37; may be repeated. kubelet: on the "
        "kubelet of each release that the find has.",
    )
    crashing: str = option(
        "",
        "Instead of searching: kill this kubelet before and after each rename of a file.",
        "--crash-points",
        metavar="SUBJECT",
    )


@app.callback(invoke_without_command=True)
@with_options
def hunt(context: typer.Context, asked: Asked) -> None:
    """Search every history up to a depth, on every machine and configuration, for a broken promise.

    Each find is shrunk, placed in releases, matched with known defects, and kept in a folder of
    its own: story.md, replay.py, scenario.py, report.md. The exit status is 1 if there is one.

    pinproof hunt --release 1.37 --machine 1s-1n-4c-smt2 --depth 3 --confirm kubelet:1.37
    """
    if context.invoked_subcommand is not None:
        return
    machines, folder = asked.machine or [], asked.resume or asked.output
    if asked.crashing:
        raise typer.Exit(
            int(_crash_points(asked.crashing, (machines or [""])[0], asked.depth or 3))
        )
    header, part = _header(asked, machines)
    is_there = (folder / campaign.FILE).exists()
    if asked.resume is None and is_there:
        raise SubjectUsageError(
            f"{folder} has a campaign: --resume {folder} goes on with it, and --report names "
            "another folder"
        )
    if asked.resume is not None and not is_there:
        raise SubjectUsageError(f"{folder} has no campaign to continue")
    searched = Campaign(header, part, folder)
    ended = _search(searched, asked.jobs, asked.minutes)
    finds = _confirmed(searched.finds, asked.confirm or [])
    campaign.write_told(finds, searched.folder)
    _print(finds, searched)
    raise typer.Exit(int(_status(finds, searched, interrupted=not ended)))


def _crash_points(subject: str, machine: str, depth: int) -> ExitStatus:
    """Kill the subject at every point of every history, and print those after which it broke a
    promise. What was found before an interruption is printed too. Raises
    :class:`conformance.subject.SubjectError`."""
    opened, tried = open_subject(subject), list[Tried]()
    try:
        with (
            busy("crash points") as say,
            closing(points(opened, machine=machine or MACHINE, depth=depth, say=say)) as walked,
        ):
            for one in walked:
                tried.append(one)
                for rule in one.broken:
                    typer.echo(clean(f"{one.point}\n  broken: {rule}"))
    except KeyboardInterrupt:
        note("pinproof: crash points: interrupted")
        return ExitStatus.COULD_NOT_TELL
    finally:
        opened.close()
        broken = [one.point for one in tried if one.broken]
        places = Counter(f"at {one.file}" if one.number else "without a kill" for one in broken)
        where = ", ".join(f"{count} {place}" for place, count in places.items()) or "none"
        killed = sum(bool(one.point.number) for one in tried)
        typer.echo(f"{opened.info.name}: killed at {killed} points; broken: {where}")
    return ExitStatus.NOT_CONFORMANT if places else ExitStatus.CONFORMANT


def _header(asked: Asked, machines: list[str]) -> tuple[Header, Shard]:
    """What is searched, and which part of it. Raises :class:`SubjectUsageError`."""
    ignored, walk, is_random = asked.ignore or [], asked.walk, asked.walk == campaign.RANDOM
    _require_known("--release", asked.release)
    _require_promises(ignored)
    if walk not in (campaign.BREADTH, campaign.RANDOM):
        raise SubjectUsageError(f"--walk {walk}: it is breadth or random")
    if asked.shapes not in (*campaign.SHAPES, campaign.EVERY):
        raise SubjectUsageError(f"--shapes {asked.shapes}: it is regular, uneven or all")
    part = Shard.parse(asked.shard)
    found = campaign.machines_named(machines, most=asked.cpus, walk=walk, shapes=asked.shapes)
    moves = families.named(asked.moves or ("all" if is_random else ""))
    if asked.upgrade_to:
        moves = tuple(dict.fromkeys((*moves, UPGRADES)))
    header = Header(
        release=asked.release,
        machines=found,
        depth=asked.depth or (20 if is_random else 3),
        alpha=asked.alpha,
        seed=asked.seed,
        shards=part.count,
        blind=asked.blind,
        ignored=sorted(ignored),
        moves=list(moves),
        walk=walk,
        others=_others(asked) if UPGRADES in moves else [],
    )
    return header, part


def searches(words: Sequence[str]) -> int:
    """How many searches a campaign of these options has, over all shards. Raises what the command
    raises for options that it refuses."""
    asked, _ = read_options(hunt, Asked, words, "pinproof hunt")
    header, _ = _header(asked, asked.machine or [])
    return campaign.searches(header)


def _others(asked: Asked) -> list[str]:
    """The releases whose kubelets may take over. Raises :class:`SubjectUsageError`."""
    for release in asked.upgrade_to or ():
        _require_known("--upgrade-to", release)
        if release == asked.release:
            raise SubjectUsageError(f"--upgrade-to {release}: every history begins with it")
    return list(dict.fromkeys(asked.upgrade_to or neighbours(asked.release)))


def _require_known(option: str, release: str) -> None:
    try:
        minor = Release.parse(release).minor
    except ValueError as error:
        raise SubjectUsageError(f"{option}: {error}") from error
    if not OLDEST <= minor <= LATEST:
        raise SubjectUsageError(f"{option} {release}: the model knows 1.{OLDEST} to 1.{LATEST}")


def _require_promises(ignored: list[str]) -> None:
    unknown = set(ignored) - {one.id for one in PROMISES}
    if unknown:
        known = ", ".join(one.id for one in PROMISES)
        raise SubjectUsageError(f"--ignore {min(unknown)}: the promises are {known}")


def _search(searched: Campaign, jobs: int, minutes: float | None) -> bool:
    """Search until all is done, the time is over, or the user interrupts; ``False`` for an
    interrupt."""
    end = None if minutes is None else time.monotonic() + minutes * 60
    try:
        with busy("hunt") as say:
            began, steps = time.monotonic(), searched.tally.steps
            for find in searched.run(
                jobs=jobs,
                progress=_progress(say, began, steps),
                stop=lambda: end is not None and time.monotonic() > end,
            ):
                say(f"found: {find.rule}, on {find.task}")
    except KeyboardInterrupt:
        note("pinproof: hunt: interrupted; what was found is kept, --resume goes on")
        return False
    return True


def _progress(say: Callable[[str], None], began: float, steps: int) -> Callable[[Progress], None]:
    due = 0.0

    def show(now: Progress) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + 1
        rate = (now.tally.steps - steps) / max(time.monotonic() - began, 0.01)
        say(
            f"{now.done} of {now.total} searches, {now.finds} finds, {rate:.0f} steps a second: "
            f"{now.task}"
        )

    return show


def _confirmed(finds: Collection, names: list[str]) -> Collection:
    """The finds, each with whether the subjects of these names show it. A note names a subject that
    fails."""
    with (
        busy("confirm") as say,
        closing(Witnesses(names, partial(open_subject, progress=say))) as by,
    ):
        return Collection([_confirm(find, by, say) for find in finds])


def _confirm(find: Find, witnesses: Witnesses, say: Callable[[str], None]) -> Find:
    shown = dict(find.confirmed)
    try:
        for name, subjects in witnesses.of(find):
            say(f"{name}: {find.rule}")
            shown[name] = confirmed(find, subjects) is not None
    except SubjectError as error:
        note(f"pinproof: hunt: {find.key} could not be shown: {error}")
    return msgspec.structs.replace(find, confirmed=shown)


def _status(finds: Collection, searched: Campaign, *, interrupted: bool) -> ExitStatus:
    if len(finds):
        return ExitStatus.NOT_CONFORMANT
    if interrupted:
        return ExitStatus.COULD_NOT_TELL
    return ExitStatus.CONFORMANT if searched.tally.states else ExitStatus.TOO_FEW


def _print(finds: Collection, searched: Campaign) -> None:
    tally = searched.tally
    every = searched.is_done and searched.header.walk == campaign.BREADTH
    extent = "every history" if every else "part of the histories"
    note(
        f"{extent} of {searched.header.depth} moves searched: {tally.states} states, "
        f"{tally.steps} steps; {len(finds)} finds"
    )
    _table(finds)
    typer.echo(searched.folder)


def _table(finds: Collection) -> None:
    table = Table("promise", "known as", "releases", "on", "shown on", box=None, pad_edge=False)
    for find in finds:
        table.add_row(
            find.promise,
            f"#{find.issue}" if find.issue else "",
            find.placed,
            Text(f"{find.machine}, {find.task.config}"),
            ", ".join(
                f"{name}: {'yes' if same else 'no'}" for name, same in find.confirmed.items()
            ),
        )
    Console(highlight=False, width=160).print(table)


@app.command("merge", epilog="Example: pinproof hunt merge hunt-1 hunt-2 --report hunt")
def merge(
    folders: Annotated[list[Path], typer.Argument(help="Folders of shards.", metavar="FOLDER")],
    output: Annotated[
        Path, typer.Option("--report", metavar="FOLDER", help="Where to write all finds.")
    ] = Path("hunt"),
) -> None:
    """Join the shards of one campaign: finds of one cause are one find."""
    finds = campaign.merged(folders, output)
    campaign.write_told(finds, output)
    _table(finds)
    typer.echo(output)
