"""``pinproof advise``: which known defects of the kubelet a node has.

What belongs here: the options, and how the answer is printed. What never does: the answer
(:mod:`hunting.advising`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import topologies
from conformance.catalogue import find as scenario_of
from conformance.discovered import topology_named
from conformance.promises import promise_of
from conformance.scenario import Scenario
from conformance.subject import SubjectError, SubjectUsageError
from conformance.subjects import open_subject
from conformance.verdict import ExitStatus
from hunting import telling
from hunting.advising.deciding import Shown, advice
from hunting.advising.known import mended_in, text_of, undecided
from hunting.confirming import Witnesses, confirmed
from hunting.finds import Find, found
from hunting.replaying import spans
from hunting.scope import Task
from pinproof import inputs
from pinproof.completion import machine_names
from pinproof.inputs import Question, inputs_of, pods_given
from pinproof.output import note, print_json, print_lines
from pinproof.parameters import option, with_options
from pinproof.progress import busy
from pinproof.settings import Given
from reference import NEWEST, DiscoveryError, NotModelled
from reference.releases import minor_of
from reference.steps import Pod
from topologies import Machine
from topologies.errors import one_line

#: Machines on which a scenario is shown where it does not apply to the one that was asked about.
_SMALL: Final = ("1s-1n-4c-smt2", "2s-2n-16c-smt2", "1s-1n-4c-smt2-off7")


class Format(Enum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "md"


@dataclass(frozen=True, slots=True)
class Asked:
    panel: ClassVar = "Node and answer"

    machine: str = option(
        "2s-2n-16c-smt2",
        "Name, archive, directory or described spec.",
        autocompletion=machine_names,
    )
    release: str = option("", "The release of the kubelet.", show_default=NEWEST)
    pods: str | None = option(
        None,
        "The pods of the node: CPU requests (4,2,1.5,1+1), a file of manifests, or - for stdin. "
        "Default: pods of one container and of every size come and go.",
    )
    confirm: list[str] | None = option(
        None,
        "Show each defect that applies on this subject too, such as kubelet:1.36; may be repeated.",
    )
    form: Format = option(Format.TEXT, "How to print the answer.", "--format")


@dataclass(frozen=True, slots=True)
class Advice:
    """A defect as it is printed. ``find``: the defect as the hunt keeps one, with what each subject
    of ``--confirm`` showed; ``command``: shows it on a kubelet."""

    shown: Shown
    find: Find
    command: str

    @property
    def title(self) -> str:
        """``kubernetes/kubernetes#129078: a restart …``; the broken promise where no issue is
        known."""
        defect = self.shown.defect
        if defect is None:
            return f"a broken promise without a known issue: {self.find.rule}"
        return f"kubernetes/kubernetes#{defect.number}: {defect.title}"

    @property
    def url(self) -> str:
        """The page of the issue; where no issue is known, the source of the broken promise."""
        defect = self.shown.defect
        return defect.url if defect else promise_of(self.find.rule).source.url


@with_options
def advise(given: Given, asked: Asked) -> None:
    """Say which known defects of the kubelet apply to a node: its release, settings and machine.

    Short stories of the node are walked on the model of the release, with these settings and on
    this machine. A defect applies if a story breaks a promise: the pods of --pods come and go, and
    the kubelet or the node starts again. Defects that need something else, such as a pod with an
    init container, are listed apart. Exit status 0: no known defect applies; 1: one applies; 2:
    wrong usage; 3: the model cannot answer.

    pinproof advise --release 1.36 --config kubelet.yaml --machine node7.tar.xz --format json
    """
    machine = topologies.machine(asked.machine)
    task, pods, notes = _question(machine, given, asked)
    try:
        with busy("advise") as say:
            answer = advice(task, pods, say=say)
    except (NotModelled, DiscoveryError) as error:
        raise SubjectError(f"no answer: {one_line(str(error))}") from error
    if not answer.is_answer:
        raise SubjectError("no answer: the model could not walk a story of this node")
    applies = [_advice(one, machine) for one in answer.applies]
    otherwise = [_advice(one, machine) for one in answer.otherwise]
    applies = _confirmed(applies, asked.confirm or [])
    left = undecided(task.release, machine) if task.config.policy == "static" else []
    head = f"kubelet {task.release} on {machine.name} with {task.config}"
    match asked.form:
        case Format.JSON:
            facts = _facts(task, machine, pods, notes, applies, otherwise)
            print_json(facts | {"undecided": [one.id for one in left]})
        case Format.MARKDOWN:
            typer.echo("\n".join(_markdown(head, notes, applies, otherwise, left)))
        case Format.TEXT:
            _show(head, notes, applies, otherwise, left)
    raise typer.Exit(int(ExitStatus.NOT_CONFORMANT if applies else ExitStatus.CONFORMANT))


def _question(
    machine: Machine, given: Given, asked: Asked
) -> tuple[Task, tuple[Pod, ...] | None, list[str]]:
    """The task for the model, the pods of ``--pods``, and notes. Raises :class:`SubjectUsageError`,
    with the kubelet's message where it would not start."""
    node = inputs_of(asked.machine, given, Question(asked.pods), asked.release)
    starting = inputs.answered(machine, replace(node, question=Question()))
    config, notes = starting.config, list(starting.notes)
    pods = None
    if node.question.pods is not None:
        read = pods_given(node.question.pods)
        pods = tuple(read.pods)
        notes += read.notes
        if not pods:
            raise SubjectUsageError(f"--pods {one_line(asked.pods or '')}: it has no pod")
    return Task(node.release, asked.machine, config), pods, notes


def _advice(shown: Shown, machine: Machine) -> Advice:
    number = shown.defect.number if shown.defect else 0
    find = found(shown.broken, number, releases=shown.releases)
    return Advice(shown, find, _command(shown, find, machine))


def _command(shown: Shown, find: Find, machine: Machine) -> str:
    """The command that shows the defect on a kubelet: its scenario, where one covers the
    release."""
    scenario = scenario_of(text_of(shown.defect).scenario) if shown.defect else None
    minor = minor_of(find.release)
    release = f"1.{minor}"
    if scenario and minor_of(scenario.since) <= minor <= minor_of(scenario.until or release):
        run = f"pinproof run --subject kubelet:{release}"
        if scenario.machine:
            return f"{run} -k {scenario.id}"
        for name, on in ((find.machine, machine), *((s, topologies.machine(s)) for s in _SMALL)):
            if not scenario.needs.missing(topology_named(on, release=release)):
                return f"{run} --machine {name} -k {scenario.id}"
    return f"the same pinproof advise with --confirm kubelet:{release}"


def _confirmed(advices: list[Advice], names: list[str]) -> list[Advice]:
    """The defects, each with whether the subjects of these names show it. A note names a subject
    that fails."""
    shown = []
    with (
        busy("confirm") as say,
        closing(Witnesses(names, partial(open_subject, progress=say))) as by,
    ):
        for one in advices:
            seen = {}
            try:
                for name, subjects in by.of(one.find):
                    seen[name] = confirmed(one.find, subjects) is not None
            except SubjectError as error:
                note(f"pinproof: advise: {one.title}: not shown: {one_line(str(error))}")
            shown.append(replace(one, find=msgspec.structs.replace(one.find, confirmed=seen)))
    return shown


# -- for people --------------------------------------------------------------------------------


def _paragraphs(one: Advice) -> Iterator[str]:
    """The text of a defect, without its title, steps and link."""
    if one.shown.defect is not None:
        text = text_of(one.shown.defect)
        yield text.story
        yield f"How to avoid it: {text.avoid}"
        mended = mended_in(one.shown.defect)
        if mended:
            yield f"Mended in {', '.join(mended)}."
    yield f"With these settings on this machine: {spans(one.find.releases) or one.find.release}."
    for name, same in one.find.confirmed.items():
        yield f"{name} {'does the same' if same else 'keeps the promise'}."


def _steps(one: Advice) -> list[str]:
    return [
        f"{number}. {text}" for number, (text, _) in enumerate(telling.steps(one.find), start=1)
    ]


def _headline(applies: list[Advice]) -> str:
    number = len(applies)
    return f"{number or 'No'} known {'defect applies' if number == 1 else 'defects apply'}"


_LEFT: Final = "Not decided by settings; pinproof explain says when each happens"


def _show(
    head: str,
    notes: list[str],
    applies: list[Advice],
    otherwise: list[Advice],
    left: list[Scenario],
) -> None:
    console = Console(highlight=False, emoji=False)
    print_lines(console, head, notes=notes)
    print_lines(console, "", f"{_headline(applies)}.")
    for one in applies:
        console.print()
        console.print(Text(one_line(one.title, 200)))
        for paragraph in _paragraphs(one):
            console.print(Padding(Text(one_line(paragraph, 1000)), (0, 0, 0, 2), expand=False))
        for step in _steps(one):
            console.print(Padding(Text(one_line(step, 1000)), (0, 0, 0, 4), expand=False))
        print_lines(console, f"  {one.command}", f"  {one.url}")
    if otherwise:
        print_lines(console, "", "Only if something else happens:")
    for one in otherwise:
        text = Text(f"if {one.shown.happens}: {one.title}")
        console.print(Padding(text, (0, 0, 0, 2), expand=False))
        print_lines(console, f"    {one.url}")
    if left:
        print_lines(console, "", f"{_LEFT}:")
    for scenario in left:
        print_lines(console, f"  {scenario.id}")


def _markdown(
    head: str,
    notes: list[str],
    applies: list[Advice],
    otherwise: list[Advice],
    left: list[Scenario],
) -> Iterator[str]:
    yield from (f"# {_headline(applies)}", "", f"{head[:1].upper()}{head[1:]}.")
    for each in notes:
        yield from ("", f"Note: {one_line(each)}.")
    for one in applies:
        yield from ("", f"## {one.title}", "")
        for paragraph in _paragraphs(one):
            yield from (one_line(paragraph, 1000), "")
        yield from _steps(one)
        yield from ("", "```console", one.command, "```", "", f"<{one.url}>")
    if otherwise:
        yield from ("", "## Only if something else happens", "")
        yield from ("| if | defect |", "| --- | --- |")
        for one in otherwise:
            title = re.sub(r"([|\\])", r"\\\1", one.title)
            yield f"| {one.shown.happens} | [{title}]({one.url}) |"
    if left:
        yield from ("", f"## {_LEFT}", "")
        yield from (f"- `{one.id}`: [{one.title}]({one.source.url})" for one in left)


# -- for programs ------------------------------------------------------------------------------


def _facts(
    task: Task,
    machine: Machine,
    pods: tuple[Pod, ...] | None,
    notes: list[str],
    applies: list[Advice],
    otherwise: list[Advice],
) -> dict[str, Any]:
    return {
        "release": task.release,
        "machine": machine.name,
        "settings": str(task.config),
        "pods": None if pods is None else [one.name for one in pods],
        "notes": notes,
        "applies": [_fact(one) for one in applies],
        "otherwise": [_fact(one) for one in otherwise],
    }


def _fact(one: Advice) -> dict[str, Any]:
    defect, find = one.shown.defect, one.find
    text = text_of(defect) if defect else None
    return {
        "issue": defect.number if defect else None,
        "title": defect.title if defect else find.rule,
        "url": one.url,
        "if": one.shown.happens,
        "promise": find.promise,
        "story": text.story if text else "",
        "avoid": text.avoid if text else "",
        "mended": list(mended_in(defect)) if defect else [],
        "releases": find.releases,
        "steps": [each for each, _ in telling.steps(find)],
        "what": find.what,
        "expected": find.expected,
        "seen": find.seen,
        "command": one.command,
        "confirmed": find.confirmed,
    }
