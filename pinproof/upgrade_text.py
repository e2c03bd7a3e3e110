"""The outcome of a rehearsed upgrade, for people: tables, pictures, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from conformance.accounts import broken
from conformance.explain import difference_lines
from conformance.kept_files import FILES, STATE, layout_of, whole_pods
from conformance.lockstep import holdings
from conformance.upgrading import Broken, Going, Kept, Leg, Plan, Rehearsed, Stage, Turn
from conformance.verdict import ExitStatus
from pinproof import inputs
from pinproof.machine_change import ended_text, held_before, renumbered
from pinproof.output import note, print_lines
from pinproof.picture import Picture
from pinproof.simulation import reserved_of
from reference import CPUSet
from reference.cpumanager.state.checkpoint import Layout
from reference.view import Phase
from reports.text import clean, few
from topologies.errors import one_line


def show_stages(found: Rehearsed, plan: Plan, console: Console) -> None:
    """Print which containers hold which CPUs at each stage, and what was broken."""
    console.print(_table(found, plan))
    for one in found.broken:
        _echo(_broken_lines(one))


def show(found: Rehearsed, plan: Plan, notes: Sequence[str], release: str) -> None:
    """Print the machine, the notes, who holds which CPUs at each stage, and a picture of the
    last."""
    console = Console(highlight=False)
    heads = [f"{plan.machine.name} with {plan.config}"]
    shown = [one for one in found.stages if one.leg is not Leg.BACK][-1]
    if plan.changes:
        heads.append(f"then {shown.machine.name} with {shown.config}")
    print_lines(console, *heads, notes=[*notes, *_renumbered(found, release)], most=1000)
    console.print(_table(found, plan))
    topology = inputs.discovered(shown.machine, release)
    reserved = reserved_of(topology, shown.config, release)
    held = {one.owner: CPUSet.parse(one.cpus) for one in holdings(shown.view, reserved)}
    Picture.of(shown.machine, topology, held, release).show(console)


def _renumbered(found: Rehearsed, release: str) -> Iterable[str]:
    """Containers that keep the numbers of their CPUs, which are on other NUMA nodes now."""
    first, second, *_ = found.stages
    if second.machine is first.machine or not second.view.running:
        return ()
    before, after = (inputs.discovered(one.machine, release) for one in (first, second))
    return renumbered(held_before(first.view, second.view), before, after)


def _table(found: Rehearsed, plan: Plan) -> Table:
    """Which containers hold which CPUs, and what became of the files; a column for each stage."""
    table = Table(Column("", no_wrap=True), box=None, pad_edge=False)
    for stage in found.stages:
        table.add_column(Text(one_line(stage.title)))
    table.add_row("kubelet", *(kubelet_state(one) for one in found.stages))
    for pod in plan.every_pod:
        for container in pod.containers:
            owner = one_line(f"{pod.name}/{container.name}: {container.requested_cpu or 'no cpu'}")
            table.add_row(Text(owner), *_cells(found, plan, pod.name, container.name))
    table.add_row("shared pool", *(str(one.view.shared_pool) for one in found.stages))
    names = [name for name in FILES if any(name in one.files for one in found.stages)]
    for name in names:
        cells = (_file(name, stage.files.get(name, Kept())) for stage in found.stages)
        table.add_row(Text(PurePosixPath(name).name), *map(Text, cells))
    return table


def kubelet_state(stage: Stage) -> str:
    if stage.view.hangs:
        return "hangs"
    return "runs" if stage.view.running else "gives up"


def _cells(found: Rehearsed, plan: Plan, pod: str, container: str) -> Iterator[Text]:
    before = CPUSet()
    for stage in found.stages:
        held = stage.view.assignments.get(pod, {}).get(container, CPUSet())
        words = [_cell(stage, pod, container)]
        if before and held and held != before and plan.going is not Going.DRAIN:
            words.append("moved")
        if (pod, container) in stage.restarted and plan.stays_up:
            words.append("restarted")
        before = held or before
        yield Text(" ".join(words))


def _file(name: str, kept: Kept) -> str:
    """What a kubelet left, and whether it changed what it had found."""
    if kept.left is None:
        return "" if kept.found is None else "removed"
    form = _form(kept.left) if name == STATE else f"{len(kept.left.encode())} B"
    if kept.found is None or kept.found == kept.left:
        return form
    before = _form(kept.found)
    lost = whole_pods(kept.found) - whole_pods(kept.left) if name == STATE else ()
    without = f", pod entries lost: {len(lost)}" if lost else ""
    if name == STATE and before != form:
        at_once = "" if kept.started == kept.found else " at once"
        return f"{before} to {form}{at_once}{without}"
    return f"{form} written{without}"


def _form(text: str) -> str:
    layout = layout_of(text)
    if layout is None:
        return "unreadable"
    return "no version" if layout is Layout.PLAIN else f"v{layout.value}"


def _cell(stage: Stage, pod: str, container: str) -> str:
    view = stage.view
    seen = view.pods.get(pod)
    if seen is not None and seen.phase is not Phase.RUNNING:
        return f"{seen.phase.value}"
    held = view.assignments.get(pod, {}).get(container)
    if held is not None:
        return str(held)
    if container in view.cpusets.get(pod, {}):
        return "shared"
    return ""


def tell(
    found: Rehearsed,
    plan: Plan,
    replay: str,
    status: ExitStatus,
    killed: Sequence[tuple[str, Rehearsed]],
) -> None:
    """Print what was broken, and the verdict; also of each rehearsal in which TO was killed."""
    if found.unlike_file:
        typer.echo(clean(f"{_named(found.stages[0])} does not show what the state file says:"))
        _echo(difference_lines(found.unlike_file))
    if status is ExitStatus.COULD_NOT_TELL:
        unlike = f"{found.stages[0].kubelet.name} began from something else than the state file"
        none = "no container ran on exclusive CPUs before the upgrade"
        note(clean(f"pinproof: upgrade: no verdict: {unlike if found.unlike_file else none}"))
        return
    for turn in found.turns:
        _echo(_turn_lines(turn))
    for one in found.broken:
        _echo(_broken_lines(one))
    for point, rehearsed in killed:
        _echo(_killed_lines(point, rehearsed))
    if found.drained is not None:
        typer.echo(clean(_drained_line(found.drained)))
    if status is ExitStatus.NOT_CONFORMANT:
        typer.echo(clean(f"replay\n  {replay}"))
    typer.echo(clean(_verdict(found, plan)))


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(clean(line))


def _drained_line(broken: Sequence[Leg]) -> str:
    """Whether the promises are kept if every pod is deleted first."""
    if not broken:
        return "Drained first (--by drain), nothing is broken."
    legs = [str(leg) for leg in broken]
    return f"Drained first (--by drain), {_and(legs)} still {_verb(legs, 'break')} a promise."


def _killed_lines(point: str, found: Rehearsed) -> Iterator[str]:
    """The outcome of a rehearsal in which TO was killed at ``point``."""
    legs = [str(leg) for leg in found.broken_legs]
    said = f"{_and(legs)} {_verb(legs, 'break')} a promise" if legs else "kept"
    yield f"{_named(found.stages[1])} killed {point}: {said}"
    for one in found.broken:
        yield from _broken_lines(one)


def _turn_lines(turn: Turn) -> Iterator[str]:
    """Why pods would be ended; and what becomes of them without the state file, where the kubelet
    refuses to start over it."""
    for pod, why in turn.ended.items():
        if why:
            yield f"{pod}{_on(turn.leg)}: {why}"
    if not turn.refusal:
        return
    yield f"{turn.kubelet.name} refuses to start{_on(turn.leg)}: {turn.refusal}"
    if not turn.recovered:
        yield "  It does not start without cpu_manager_state either."
        return
    holders = "1 pod holds" if len(turn.moved) == 1 else f"{len(turn.moved)} pods hold"
    moved = f"; {holders} other CPUs then: {few(turn.moved, 5)}"
    yield f"  It starts once cpu_manager_state is removed{moved if turn.moved else ''}."


def _on(leg: Leg) -> str:
    return "" if leg is Leg.THERE else f" on {leg}"


def _verdict(found: Rehearsed, plan: Plan) -> str:
    parts = [ended_text(turn.ended, _on(turn.leg), ".") for turn in found.turns if turn.ended]
    if not parts:
        parts.append(_outcome(found, plan))
    elif found.broken:
        legs = [f"a promise by {leg}" for leg in found.broken_legs]
        parts.append(f"Also broken: {_and(legs)}.")
    if found.unrehearsed:
        names = few(found.unrehearsed, 5)
        parts.append(f"Not rehearsed, as they did not run before: {names}.")
    return " ".join(parts)


def _outcome(found: Rehearsed, plan: Plan) -> str:
    first, second, *_ = found.stages
    way = f"from {_named(first)} to {_named(second)}{_elsewhere(first, second)}"
    broken = found.broken_legs
    if broken:
        unbroken = {one.leg for one in found.stages}.difference(broken)
        kept = [str(leg) for leg in Leg if leg in unbroken]
        said = f"{_and([str(leg) for leg in broken])} {_verb(broken, 'break')} a promise"
        rest = f"; {_and(kept)} {_verb(kept, 'break')} none" if kept else ""
        return f"Rehearsed {way}: {said}{rest}."
    count = f"{found.pinned} container{'' if found.pinned == 1 else 's'}"
    ways = " and back" if plan.changes else ", back and again"
    return f"Kept, {way}{ways}: {count} with exclusive CPUs{_restarts(found, plan)}."


def _and(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _verb(subjects: Sequence[object], verb: str) -> str:
    return f"{verb}s" if len(subjects) == 1 else verb


def _restarts(found: Rehearsed, plan: Plan) -> str:
    """How many containers were started again, where none had to be."""
    if not plan.stays_up:
        return ""
    count = sum(len(stage.restarted) for stage in found.stages)
    return f"; {count} of all containers started again" if count else "; none was started again"


def _elsewhere(first: Stage, second: Stage) -> str:
    """What changes beside the kubelet."""
    where = f" on {second.machine.name}" if second.machine is not first.machine else ""
    return f"{where} with other settings" if second.config is not first.config else where


def _named(stage: Stage) -> str:
    info = stage.kubelet
    return f"{info.name} ({info.version})" if info.version else info.name


def _broken_lines(one: Broken) -> Iterator[str]:
    yield f"broken  {broken(one.rule)}"
    yield f"        {one.witness}"
    yield f"  after {one.kubelet.name}: {one.step}"
    yield from difference_lines(one.differences)
