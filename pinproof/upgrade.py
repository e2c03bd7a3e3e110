"""``pinproof upgrade``: an upgrade of the kubelet on one machine, back, and again, rehearsed.

What belongs here: the options, and what is rehearsed by default. What never does: the rehearsal
(:mod:`conformance.upgrading`), and how the outcome is printed (:mod:`pinproof.upgrade_text`,
:mod:`pinproof.upgrade_facts`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

import topologies
from conformance.kubelets import releases
from conformance.kubelets.binary import program_at, version_of
from conformance.subject import Subject, SubjectUsageError
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrading import Going, Plan, rehearse, rehearse_killed, with_drained
from conformance.verdict import ExitStatus, worst
from pinproof import inputs, upgrade_matrix
from pinproof.completion import machine_names
from pinproof.inputs import Inputs, Question, changed_inputs, inputs_of, pods_given
from pinproof.kubelet_configuration import NO_MEMORY
from pinproof.memory_settings import with_memory
from pinproof.output import print_json
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
from pinproof.progress import busy
from pinproof.settings import Given, settings_of
from pinproof.simulation import assumed, known_pods, require_simulated
from pinproof.subjects import with_node_options
from pinproof.upgrade_facts import facts
from pinproof.upgrade_pods import later_pods, usual_pods
from pinproof.upgrade_text import show, tell
from pinproof.whole_node import notes_on_releases, static_pods, whole_node, with_files, without_cpus
from reference.releases import minor_of
from reference.steps import Pod
from topologies import Machine

_SCHEMES: Final = ("kubelet", "miniature")
_NODE: Final = "node:"
#: The parameters that the upgrade of a real node takes.
_OF_A_NODE: Final = frozenset(("old", "new", "going", "max_risk", "as_json"))
#: With one of these parameters FROM and TO may be one kubelet.
_RESTARTS: Final = frozenset(("to_machine", "to_config", "going", "reboot", "killed"))
#: The parameters that a matrix takes: its pods, settings and state file are its own.
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
        raise SubjectUsageError(
            "more releases than FROM and TO, --report and --resume need --matrix"
        )
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
        other, settings = changed_inputs(
            shown, node.given, asked.to_machine, asked.to_config, release
        )
        config = settings.config if settings is not None else None
        if node.archive and config and asked.to_config:
            config = with_memory(config, asked.to_config)
        going = Going.REBOOT if asked.reboot else asked.going
        plan = replace(plan, going=going, to_machine=other, to_config=config)
        with busy("upgrade") as say:
            found = rehearse(before, after, plan, say=say)
            found = with_drained(found, before, after, plan, say=say)
            killed = [*rehearse_killed(before, after, plan, say=say)] if asked.killed else []
    status = worst([found.status, *(one.status for _, one in killed)])
    replay = shlex.join(["pinproof", "upgrade", *given_words(context)])
    if asked.as_json:
        print_json(facts(found, plan, [*notes, *found.notes], replay, killed))
    else:
        show(found, plan, [*notes, *found.notes], release)
        tell(found, plan, replay, status, killed)
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
    found, plan, status = done.found, done.plan, done.found.status
    replay = shlex.join(["pinproof", "upgrade", *given_words(context)])
    if asked.as_json:
        print_json(facts(found, plan, found.notes, replay))
    else:
        show(found, plan, found.notes, done.release)
        tell(found, plan, replay, status, [])
    if done.unrestored:
        raise done.unrestored
    return status


def _check_name(name: str, *, model: bool) -> None:
    """Refuse what FROM or TO cannot be. Raises :class:`SubjectUsageError`."""
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
    """The subject that FROM or TO names, once :func:`_check_name` accepts it. Raises
    :class:`SubjectUsageError`."""
    _, colon, _ = name.partition(":")
    if model and not colon:
        return ReferenceSubject(f"the model of {name}", release=name)
    with busy(name) as say:
        return open_subject(name if colon else f"kubelet:{name}", progress=say)


def _plan(machine: Machine, node: Inputs) -> tuple[Plan, list[str]]:
    """The plan of all that was given, as the older of the two releases reads it; and notes."""
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
