"""``pinproof simulate``: what the kubelet would do with these pods on that machine, and why.

What belongs here: how an answer is printed. What never does: the answer (``simulation``), and the
options that it is asked with (``inputs``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import topologies
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof import inputs
from pinproof.completion import machine_names
from pinproof.inputs import Question
from pinproof.machine_change import Change, changed
from pinproof.output import AsJson, print_json
from pinproof.parameters import with_options
from pinproof.picture import Picture
from pinproof.settings import Given, settings_of
from pinproof.simulation import Answer, Kept, KubeletRefuses, Verdict
from reference import NEWEST
from reference.kubelet.reasons import Rule
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import pod_text
from reference.steps import Kind, Pod
from reports.text import few
from topologies.errors import one_line


@with_options
def simulate(
    question: Question,
    given: Given,
    machine: Annotated[
        str,
        typer.Option(
            help="Name, archive, directory or described spec.", autocompletion=machine_names
        ),
    ] = "2s-2n-16c-smt2",
    release: Annotated[
        str,
        typer.Option(
            help="The release to simulate.", show_default=f"{NEWEST}, or that of a collected node"
        ),
    ] = "",
    to_machine: Annotated[
        str | None,
        typer.Option(
            help="Then start the kubelet again on this machine, over the state file that it left.",
            autocompletion=machine_names,
            show_default=False,
        ),
    ] = None,
    to_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Then start the kubelet again with this KubeletConfiguration.",
            show_default=False,
        ),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Show the rule behind each reason, and its source.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Write an SVG picture to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show which CPUs each container would get, and why: as a table and a picture.

    pinproof simulate --policy-option full-pcpus-only=true --pods 3 --why

    kubectl get pods -A --field-selector spec.nodeName=node7 -o yaml | pinproof simulate --machine
    ./node7.tar.xz --config config.yaml --state cpu_manager_state --pods -
    """
    shown = topologies.machine(machine)
    asked = inputs.asked_of(machine, given, question, release)
    given, question, release = asked.given, asked.question, asked.release
    if question.pods is None and question.state is None:
        raise SubjectUsageError("simulate needs --pods, --state or both")
    try:
        found = inputs.answered(shown, given, question, release)
    except KubeletRefuses as refusal:
        if as_json:
            facts = {"starts": False, "error": refusal.error, "way out": refusal.way_out}
            print_json({"kubelet": {"release": release, **facts}})
        raise
    change = _change(found, to_machine, given, to_config)
    last = change.after or found if change else found
    picture = Picture.of(last.machine, last.topology, last.held, last.release)
    if as_json:
        print_json(_facts(found) if change is None else _change_facts(change))
    elif change is None:
        _show(found, picture, why=why)
    else:
        _show_change(change, picture)
    if svg is not None:
        picture.write(svg)
        typer.echo(svg, err=as_json)
    if change is not None and change.ended:
        raise typer.Exit(int(ExitStatus.NOT_CONFORMANT))


def _change(
    before: Answer, machine: str | None, given: Given, config: Path | None
) -> Change | None:
    if machine is None and config is None:
        return None
    after = before.machine if machine is None else topologies.machine(machine)
    settings = before.config
    if config is not None:
        topology = inputs.discovered(after, before.release)
        settings = settings_of(
            replace(given, config=config), topology, release=before.release
        ).config
    return changed(before, after, settings)


# -- for people --------------------------------------------------------------------------------


def _show(found: Answer, picture: Picture, *, why: bool) -> None:
    console = Console(highlight=False)
    head = f"kubelet {found.release} with {found.config}"
    console.print(Text(head), soft_wrap=True)
    for note in found.notes:
        console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    if found.hangs_over:
        console.print(Text(_hang_text(found)), soft_wrap=True)
    console.print(_table(found))
    if why:
        _explain(found, console)
    picture.show(console)


def _show_change(change: Change, picture: Picture) -> None:
    """Who holds CPUs before and after, side by side, and whom the change ends."""
    console = Console(highlight=False)
    before, after = change.before, change.after
    for title, one in (("before", before), ("after", after)):
        if one is not None:
            head = f"{title}: {one.machine.name}, kubelet {one.release} with {one.config}"
            console.print(Text(head), soft_wrap=True)
            for note in one.notes:
                console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    if change.refusal is not None:
        console.print(Text(f"after: {change.refusal}"), soft_wrap=True)
    table = Table("container", "before", "after", box=None, pad_edge=False)
    for owner, was, now in change.held():
        ended = owner.rpartition("/")[0] in change.ended
        table.add_row(Text(one_line(owner)), str(was), "ended" if ended else str(now or "none"))
    console.print(table)
    for note in change.notes():
        console.print(Text(f"note: {one_line(note)}"), soft_wrap=True)
    picture.show(console)
    console.print(Text(_ended_text(change)), soft_wrap=True)


def _ended_text(change: Change) -> str:
    pods = change.ended
    if not pods:
        return "No pod that holds CPUs would be ended."
    count = (
        f"{len(pods)} pod{'' if len(pods) == 1 else 's'} that hold{'s' if len(pods) == 1 else ''}"
    )
    return one_line(f"{count} CPUs would be ended: {few(pods, 5)}")


def _hang_text(found: Answer) -> str:
    return one_line(
        f"kubelet {found.release} hangs at {found.hangs_over} and never answers: "
        f"{found.view.hangs}: {Rule.ENDLESS_SEARCH.url}",
        limit=1000,
    )


def _table(found: Answer) -> Table:
    table = Table("pod", "CPUs", "", box=None, pad_edge=False)
    verdicts = found.verdicts()
    for pod in found.pods:
        of_pod = [next(verdicts) for _ in pod.containers]
        if found.refused(pod):
            table.add_row(
                Text(_words(found, pod)), "rejected", Text(_refusal(found, pod, of_pod[0]))
            )
            continue
        for verdict, container in zip(of_pod, pod.containers, strict=True):
            cpu = container.requested_cpu
            kind = "" if container.kind is Kind.APP else f"{container.kind.value} "
            name = one_line(f"{pod.name}/{container.name}: {kind}{cpu or 'no cpu request'}")
            table.add_row(Text(name), _cpus(verdict), Text(_in_short(verdict)))
    return table


def _words(found: Answer, pod: Pod) -> str:
    """The pod as the kubelet has it, whose class depends on the release."""
    decoded = as_decoded(pod, found.config.feature_gates, release=found.release)
    return one_line(pod_text(decoded))


def _refusal(found: Answer, pod: Pod, verdict: Verdict) -> str:
    """The reason, and below it the kubelet's own words."""
    status = found.view.pods[pod.name]
    return f"{verdict.reason.text}\n{one_line(f'{status.reason}: {status.message}')}"


def _cpus(verdict: Verdict) -> str:
    return "any" if verdict.kept is Kept.UNPINNED else str(verdict.cpus or "none")


def _in_short(verdict: Verdict) -> str:
    """Nothing is said of a container that gets what it asks for."""
    plain = verdict.kept is Kept.EXCLUSIVE and verdict.reason.rule is Rule.WHOLE_CPUS
    return verdict.kept.value if plain else f"{verdict.kept.value}: {verdict.reason.text}"


def _explain(found: Answer, console: Console) -> None:
    """Each rule that decided, once, under the containers that it decided about."""
    by_rule: dict[Rule, list[str]] = {}
    for verdict in found.verdicts():
        owner = f"{verdict.pod}/{verdict.container}"
        by_rule.setdefault(verdict.reason.rule, []).append(owner)
    for rule, owners in by_rule.items():
        console.print(Text(f"\n{one_line(', '.join(owners))}: by the rule {rule.title}"))
        console.print(Padding(Text(rule.statement), (0, 0, 0, 2)))
        console.print(Text(f"  {rule.url}"), soft_wrap=True)
    console.print()


# -- for programs ------------------------------------------------------------------------------


def _facts(found: Answer) -> dict[str, object]:
    return {
        "kubelet": {
            "release": found.release,
            "starts": True,
            "settings": str(found.config),
            "hangs": _hang_text(found) if found.hangs_over else "",
        },
        "machine": found.machine.name,
        "notes": list(found.notes),
        "pods": {pod.name: fact for pod, fact in _pod_facts(found)},
        "shared pool": str(found.view.shared_pool),
        "holdings": {owner: str(cpus) for owner, cpus in found.held.items()},
        "state file": found.view.state_file,
    }


def _change_facts(change: Change) -> dict[str, object]:
    after = change.after
    refusal = change.refusal
    kubelet = {
        "starts": False,
        "error": refusal.error if refusal else "",
        "way out": refusal.way_out if refusal else "",
    }
    return {
        "before": _facts(change.before),
        "after": {"kubelet": kubelet} if after is None else _facts(after),
        "ended": list(change.ended),
        "notes": list(change.notes()),
    }


def _pod_facts(found: Answer) -> Iterator[tuple[Pod, dict[str, object]]]:
    verdicts = found.verdicts()
    for pod in found.pods:
        status = found.view.pods[pod.name]
        held = found.view.assignments.get(pod.name, {})
        yield (
            pod,
            {
                "uid": pod.uid,
                "phase": status.phase.value,
                "qos": status.qos,
                "reason": status.reason,
                "message": status.message,
                "exclusive": {name: str(cpus) for name, cpus in held.items()},
                "containers": {
                    one.name: _container_facts(next(verdicts)) for one in pod.containers
                },
            },
        )


def _container_facts(verdict: Verdict) -> dict[str, object]:
    return {
        "verdict": verdict.kept.value,
        "cpus": None if verdict.cpus is None else str(verdict.cpus),
        "reason": verdict.reason.text,
        "rule": verdict.reason.rule.title,
        "statement": verdict.reason.rule.statement,
        "source": verdict.reason.rule.url,
    }
