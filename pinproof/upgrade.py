"""``pinproof upgrade``: an upgrade of the kubelet on one machine, back, and again, rehearsed.

What belongs here: the options, what is rehearsed where little is said, and how the outcome is
printed. What never does: the rehearsal (:mod:`conformance.upgrading`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import topologies
from conformance.accounts import broken
from conformance.explain import difference_lines
from conformance.kept_files import FILES, STATE, layout_of, whole_pods
from conformance.kubelets import releases
from conformance.kubelets.binary import program_at, version_of
from conformance.lockstep import holdings
from conformance.subject import Subject, SubjectUsageError
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrading import (
    Broken,
    Going,
    Kept,
    Leg,
    Plan,
    Rehearsed,
    Stage,
    Turn,
    rehearse,
    rehearse_killed,
    with_drained,
)
from conformance.verdict import ExitStatus, Verdict, worst
from pinproof import inputs, upgrade_matrix
from pinproof.completion import machine_names
from pinproof.inputs import Inputs, Question, changed_inputs, inputs_of, pods_given
from pinproof.kubelet_configuration import NO_MEMORY
from pinproof.machine_change import ended_text, held_before, renumbered
from pinproof.output import difference_facts, note, print_json, print_lines
from pinproof.parameters import (
    AsJson,
    MachineName,
    NodeArchive,
    argument,
    given_words,
    option,
    typed,
    with_options,
)
from pinproof.picture import Picture
from pinproof.progress import busy
from pinproof.settings import Given, settings_of
from pinproof.simulation import assumed, known_pods, require_simulated, reserved_of
from pinproof.subjects import with_node_options
from pinproof.upgrade_pods import later_pods, usual_pods
from pinproof.whole_node import (
    notes_on_releases,
    static_pods,
    whole_node,
    with_files,
    with_memory,
    without_cpus,
)
from reference import CPUSet
from reference.cpumanager.state.checkpoint import Layout
from reference.releases import minor_of
from reference.steps import Pod
from reference.view import Phase
from reports.text import clean, few
from topologies import Machine
from topologies.errors import one_line

_VERDICTS: Final = {
    ExitStatus.CONFORMANT: Verdict.PASS,
    ExitStatus.NOT_CONFORMANT: Verdict.FAIL,
    ExitStatus.COULD_NOT_TELL: Verdict.UNKNOWN,
}
_SCHEMES: Final = ("kubelet", "miniature")
_NODE: Final = "node:"
#: All that the upgrade of a real node takes.
_OF_A_NODE: Final = frozenset(("old", "new", "going", "max_risk", "as_json"))
#: With one of these it makes sense that one kubelet follows itself.
_RESTARTS: Final = frozenset(("to_machine", "to_config", "going", "reboot", "killed"))
#: All that a matrix takes; pods, settings and state file it has of its own.
_OF_A_MATRIX: Final = frozenset(
    ("old", "new", "more", "machine", "matrix", "report", "resume", "model", "as_json")
)


@dataclass(frozen=True, slots=True)
class Asked:
    old: str = argument(
        "A release, or kubelet:BINARY; or node:ADDRESS, a real node with its own kubelet, which is "
        "put back at the end.",
        metavar="FROM",
    )
    new: str = argument("A release, or kubelet:BINARY.", metavar="TO")
    more: list[str] | None = argument(
        "Further releases, with --matrix.", None, metavar="[RELEASE]..."
    )
    machine: MachineName = ""
    node: NodeArchive = None
    matrix: bool = option(
        False,
        "Rehearse each ordered pair of these releases, on unmodified kubelets where they are "
        "built, else on the models, with three configurations; one table says what each does.",
        "--matrix",
    )
    report: Path | None = option(None, "With --matrix: keep its cells and a page in this folder.")
    resume: bool = option(
        False, "With --matrix: do not rehearse again what --report has.", "--resume"
    )
    model: bool = option(False, "Ask the models of both releases; start no kubelet.", "--model")
    going: Going = option(
        Going.STOP,
        "How each kubelet goes: it is stopped or killed, the machine boots again, or every pod is "
        "deleted first and comes again afterwards.",
        "--by",
    )
    reboot: bool = option(False, "The same as --by reboot.", "--reboot")
    killed: bool = option(
        False,
        "Then rehearse it once more with TO killed at each file that it writes as it starts and is "
        "given a pod, before and after the rename.",
        "--killed",
    )
    to_machine: str | None = option(
        None, "TO finds this machine instead, after a boot.", autocompletion=machine_names
    )
    to_config: Path | None = option(None, "TO has this KubeletConfiguration instead.")
    max_risk: str = option(
        "", "With node:ADDRESS: what may be done. At least kubelet-restart is needed."
    )
    as_json: AsJson = False


@with_options
def upgrade(context: typer.Context, question: Question, given: Given, asked: Asked) -> None:
    """Rehearse an upgrade of the kubelet on one machine, the way back, and the upgrade once more:
    does each kubelet start, and do pods that run keep their CPUs?

    FROM starts and is given pods. FROM is stopped, and TO starts over its state file and running
    containers. TO is given one more pod and is stopped, FROM starts again and is given one more,
    and so is TO. A release stands for the unmodified kubelet of that release, which is built if it
    is not there yet. --node rehearses a captured node with all that it has. --to-machine and
    --to-config rehearse a change of the machine or of the settings. With node:ADDRESS all this is
    done on a real node, whose own kubelet is put back. Exit status 0: containers keep their CPUs;
    1: a promise is broken, or pods that hold CPUs would be ended; 3: there is no verdict; 5: a node
    was not restored.

    pinproof upgrade 1.36 kubelet:./kubelet --node node7.tar.xz
    """
    if asked.matrix:
        raise typer.Exit(_matrix(context, asked))
    if asked.old.startswith(_NODE):
        raise typer.Exit(_on_node(context, asked))
    if asked.max_risk:
        raise SubjectUsageError(
            f"--max-risk is for a real node (node:ADDRESS), not for {asked.old}"
        )
    if asked.more or asked.report or asked.resume:
        raise SubjectUsageError("FROM and TO are all; more releases, --report, --resume: --matrix")
    name_of_machine = asked.machine or "2s-2n-16c-smt2"
    shown = topologies.machine(str(asked.node) if asked.node else name_of_machine)
    if asked.node:
        node = whole_node(context, asked.node, shown, question)
    else:
        node = inputs_of(name_of_machine, given, question)
    restarts = any(one.name in _RESTARTS for one in typed(context))
    for name in (asked.old, asked.new):  # before the first of them is built, which takes minutes
        _check_name(name, model=asked.model)
    if asked.old == asked.new and not restarts:
        raise _same(asked.old)
    with ExitStack() as open_ones:
        before = _subject(asked.old, model=asked.model)
        open_ones.callback(before.close)
        after = _subject(asked.new, model=asked.model)
        open_ones.callback(after.close)
        if before.info.digest and before.info.digest == after.info.digest and not restarts:
            raise _same(f"{asked.old} and {asked.new}")
        release = min(before.info.release, after.info.release, key=minor_of)
        plan, notes = _plan(shown, replace(node, release=release))
        if node.archive is not None:
            notes += notes_on_releases(node.archive, plan, before.info, after.info)
        other, config = changed_inputs(
            shown, node.given, asked.to_machine, asked.to_config, release
        )
        if node.archive and config and asked.to_config:
            config = with_memory(config, asked.to_config)
        going = Going.REBOOT if asked.reboot else asked.going
        plan = replace(plan, going=going, to_machine=other, to_config=config)
        with busy("upgrade") as say:
            found = rehearse(before, after, plan, say=say)
            found = with_drained(found, before, after, plan, say=say)
            killed = [*rehearse_killed(before, after, plan, say=say)] if asked.killed else []
    status = worst([_status(found), *(_status(one) for _, one in killed)])
    replay = shlex.join(["pinproof", "upgrade", *given_words(context)])
    if asked.as_json:
        print_json(_facts(found, plan, [*notes, *found.notes], replay, killed))
    else:
        _show(found, plan, [*notes, *found.notes], release)
        _tell(found, plan, replay, status, killed)
    raise typer.Exit(int(status))


def _same(names: str) -> SubjectUsageError:
    return SubjectUsageError(
        f"FROM and TO are one kubelet ({names}): name another one, what changes (--to-machine, "
        "--to-config), or how it goes (--by, --killed)"
    )


def _matrix(context: typer.Context, asked: Asked) -> ExitStatus:
    others = [one.opts[0] for one in typed(context) if one.name not in _OF_A_MATRIX]
    if others:
        raise SubjectUsageError(f"--matrix has its own pods and settings: not {', '.join(others)}")
    releases = [asked.old, asked.new, *(asked.more or ())]
    machine = topologies.machine(asked.machine or upgrade_matrix.MACHINE)
    found, status = upgrade_matrix.matrix(
        releases, machine, model=asked.model, report=asked.report, resume=asked.resume
    )
    if asked.as_json:
        print_json({"machine": machine.name, "cells": upgrade_matrix.facts(found)})
    else:
        upgrade_matrix.show(found, machine, Console(highlight=False))
    return status


def _on_node(context: typer.Context, asked: Asked) -> ExitStatus:
    others = [one.opts[0] for one in typed(context) if one.name not in _OF_A_NODE]
    if others:
        raise SubjectUsageError(f"a node has its own machine and settings: not {', '.join(others)}")
    from pinproof.node_upgrade import upgraded

    target = with_node_options(asked.old, asked.max_risk, None).removeprefix(_NODE)
    with busy("upgrade") as say:
        done = upgraded(target, asked.new, say, going=asked.going)
    found, plan, status = done.found, done.plan, _status(done.found)
    replay = shlex.join(["pinproof", "upgrade", *given_words(context)])
    if asked.as_json:
        print_json(_facts(found, plan, found.notes, replay))
    else:
        _show(found, plan, found.notes, done.release)
        _tell(found, plan, replay, status, [])
    if done.unrestored:
        raise done.unrestored
    return status


def show_stages(found: Rehearsed, plan: Plan, console: Console) -> None:
    """Who holds which CPUs at each stage, and what was broken."""
    console.print(_table(found, plan))
    for one in found.broken:
        _echo(_broken_lines(one))


def _check_name(name: str, *, model: bool) -> None:
    """Whether FROM or TO can be such a name. Raises :class:`SubjectUsageError`."""
    scheme, colon, path = name.partition(":")
    if colon and scheme not in _SCHEMES:
        raise SubjectUsageError(f"{name}: upgrade takes a release such as 1.36, or kubelet:BINARY")
    if model and colon and scheme == "kubelet":
        raise SubjectUsageError(f"{name}: with --model it is a release such as 1.36")
    if model and not colon:
        require_simulated(name)
    if scheme == "kubelet" and not releases.parse(path):
        version_of(program_at(path))


def _subject(name: str, *, model: bool) -> Subject:
    """What FROM or TO names, which :func:`_check_name` let pass. Raises
    :class:`SubjectUsageError`."""
    _, colon, _ = name.partition(":")
    if model and not colon:
        return ReferenceSubject(f"the model of {name}", release=name)
    with busy(name) as say:
        return open_subject(name if colon else f"kubelet:{name}", progress=say)


# -- what is rehearsed -------------------------------------------------------------------------


def _plan(machine: Machine, node: Inputs) -> tuple[Plan, list[str]]:
    """All that was given, read as the release does, the older of the two."""
    release, question = node.release, node.question
    topology = inputs.discovered(machine, release)
    settings = settings_of(node.given, topology, release=release)
    config, notes = settings.config, list(settings.notes)
    pods, gone = usual_pods(topology, config, release)
    if question.pods is not None:
        found = pods_given(question.pods, oldest_first=question.oldest_first)
        pods, gone = found.pods, ()
        notes += found.notes
    state, known = None, list[Pod]()
    if question.state is not None:
        if question.pods is None:
            pods, gone = (), ()
        file = inputs.state_file(question.state)
        state, known = file.text, known_pods(file, pods, config, release)
        notes += assumed(known, pods)
    files: Mapping[str, str] = {}
    renewed: list[str] = []
    if node.archive is not None:
        known += without_cpus([pod for pod in pods if pod not in known], config, release)
        config, files, more = with_files(node.archive, config)
        notes = [one for one in notes if one != NO_MEMORY] + more
        renewed = [pod.name for pod in known if pod.uid in static_pods(node.archive)]
    fresh = [pod for pod in pods if pod not in known]
    later = later_pods(topology, [*known, *fresh])
    return Plan(machine, config, fresh, later, gone, state, known, files, renewed), notes


# -- for people --------------------------------------------------------------------------------


def _show(found: Rehearsed, plan: Plan, notes: Sequence[str], release: str) -> None:
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
    """Who holds which CPUs, and what became of the files, a column for each stage."""
    table = Table(Column("", no_wrap=True), box=None, pad_edge=False)
    for stage in found.stages:
        table.add_column(Text(one_line(stage.title)))
    table.add_row("kubelet", *(_kubelet(one) for one in found.stages))
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


def _kubelet(stage: Stage) -> str:
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


def _tell(
    found: Rehearsed,
    plan: Plan,
    replay: str,
    status: ExitStatus,
    killed: Sequence[tuple[str, Rehearsed]],
) -> None:
    """What was broken, and the verdict; and of each rehearsal in which TO was killed."""
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
    """Whether it helps to delete every pod first."""
    if not broken:
        return "Drained first (--by drain), nothing is broken."
    legs = [str(leg) for leg in broken]
    return f"Drained first (--by drain), {_and(legs)} still {_verb(legs, 'break')} a promise."


def _killed_lines(point: str, found: Rehearsed) -> Iterator[str]:
    """What came of a rehearsal in which TO was killed there."""
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
        parts.append(f"Broken besides: {_and(legs)}.")
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


def _status(found: Rehearsed) -> ExitStatus:
    """Where no container was pinned, none could lose its CPUs; and what is kept of another node
    than the state file's says nothing of that."""
    if found.broken or any(turn.ended for turn in found.turns):
        return ExitStatus.NOT_CONFORMANT
    tells = found.pinned and not found.unlike_file
    return ExitStatus.CONFORMANT if tells else ExitStatus.COULD_NOT_TELL


# -- for programs ------------------------------------------------------------------------------


def _facts(
    found: Rehearsed,
    plan: Plan,
    notes: Sequence[str],
    replay: str,
    killed: Sequence[tuple[str, Rehearsed]] = (),
) -> Mapping[str, Any]:
    return {
        "machine": plan.machine.name,
        "settings": str(plan.config),
        "verdict": _VERDICTS[_status(found)].value,
        "pinned": found.pinned,
        "unlike the state file": difference_facts(found.unlike_file),
        "notes": [*notes],
        "stages": [_stage_facts(one) for one in found.stages],
        "broken": [_broken_facts(one) for one in found.broken],
        "killed": [
            {
                "where": point,
                "verdict": _VERDICTS[_status(one)].value,
                "broken": [_broken_facts(each) for each in one.broken],
            }
            for point, one in killed
        ],
        "ended": [name for turn in found.turns if turn.leg is Leg.THERE for name in turn.ended],
        "turns": [
            {
                "kubelet": turn.kubelet.name,
                "leg": turn.leg.value,
                "ended": turn.ended,
                "refusal": turn.refusal,
                "starts without the state file": turn.recovered,
                "hold other CPUs then": list(turn.moved),
            }
            for turn in found.turns
        ],
        "broken if drained": None if found.drained is None else list(map(str, found.drained)),
        "not rehearsed": list(found.unrehearsed),
        "replay": replay,
    }


def _broken_facts(one: Broken) -> Mapping[str, Any]:
    return {
        "step": one.step,
        "leg": one.leg.value,
        "kubelet": one.kubelet.name,
        "rule": one.rule,
        "source": one.witness,
        "differences": difference_facts(one.differences),
    }


def _stage_facts(stage: Stage) -> Mapping[str, Any]:
    view = stage.view
    return {
        "title": stage.title,
        "leg": stage.leg.value if stage.leg else None,
        "machine": stage.machine.name,
        "settings": str(stage.config),
        "kubelet": {
            "name": stage.kubelet.name,
            "release": stage.kubelet.release,
            "version": stage.kubelet.version,
            "digest": stage.kubelet.digest,
            "state": _kubelet(stage),
            "error": view.error,
        },
        "pods": {name: pod.phase.value for name, pod in view.pods.items()},
        "exclusive": {
            pod: {name: str(cpus) for name, cpus in held.items()}
            for pod, held in view.assignments.items()
        },
        "shared pool": str(view.shared_pool),
        "restarted": [f"{pod}/{container}" for pod, container in stage.restarted],
        "files": {
            name: {"found": kept.found, "after the start": kept.started, "left": kept.left}
            for name, kept in stage.files.items()
        },
        "state file": view.state_file,
    }
