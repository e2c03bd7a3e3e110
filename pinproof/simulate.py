"""``pinproof simulate``: what the kubelet would do with these pods on that machine, and why.

What belongs here: how an answer is printed. What never does: the answer (``simulation``), and the
options that it is asked with (``inputs``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import topologies
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof import inputs
from pinproof.answer_facts import (
    asked_text,
    beside_text,
    cpus_text,
    facts,
    hang_text,
    in_short,
    kubelets_words,
)
from pinproof.completion import machine_names
from pinproof.device_options import devices_given
from pinproof.inputs import Inputs, Question, changed_inputs, inputs_of
from pinproof.machine_change import Change, changed, ended_text
from pinproof.memory_settings import with_memory_where_modelled
from pinproof.output import print_json, print_lines
from pinproof.parameters import AsJson, MachineName, NodeArchive, option, with_options
from pinproof.picture import Picture
from pinproof.settings import Given
from pinproof.simulation import Answer, KubeletRefuses
from pinproof.whole_node import whole_node
from reference import NEWEST
from reference.kubelet.reasons import Rule
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import pod_text
from reference.steps import Pod
from topologies.errors import one_line


@dataclass(frozen=True, slots=True)
class Asked:
    machine: MachineName = "2s-2n-16c-smt2"
    node: NodeArchive = None
    release: str = option(
        "", "The release to simulate.", show_default=f"{NEWEST}, or that of a collected node"
    )
    to_machine: str | None = option(
        None,
        "Then start the kubelet again on this machine, over the state file that it left.",
        autocompletion=machine_names,
    )
    to_config: Path | None = option(
        None, "Then start the kubelet again with this KubeletConfiguration."
    )
    device: list[str] | None = option(
        None,
        "Devices of a plugin, by the NUMA node of each: nvidia.com/gpu=0,0,1 are three. A device "
        "near NUMA nodes 0 and 1 is 0+1, one that names none is -. May be repeated.",
        metavar="RESOURCE=NODES",
    )
    why: bool = option(False, "Show the rule behind each reason, and its source.", "--why")
    svg: Path | None = option(None, "Write an SVG picture to this file.")
    as_json: AsJson = False


@with_options
def simulate(context: typer.Context, question: Question, given: Given, asked: Asked) -> None:
    """Show which CPUs each container would get, and why: as a table and a picture.

    pinproof simulate --policy-option full-pcpus-only=true --pods 3 --why

    kubectl get pods -A --field-selector spec.nodeName=node7 -o yaml | pinproof simulate --machine
    ./node7.tar.xz --config config.yaml --state cpu_manager_state --pods -
    """
    shown = topologies.machine(str(asked.node or asked.machine))
    if asked.node:
        node = whole_node(context, asked.node, shown, question, asked.release)
    else:
        node = inputs_of(asked.machine, given, question, asked.release)
    if node.question.pods is None and node.question.state is None:
        raise SubjectUsageError("simulate needs --pods, --state or both")
    devices = devices_given(asked.device)
    _require_fresh(node, asked)
    try:
        found = inputs.answered(shown, node, devices)
    except KubeletRefuses as refusal:
        if asked.as_json:
            refused = {"starts": False, "error": refusal.error, "way out": refusal.way_out}
            print_json({"kubelet": {"release": node.release, **refused}})
        raise
    change = _change(found, node, asked)
    last = change.after or found if change else found
    picture = Picture.of(last.machine, last.topology, last.held, last.release)
    if asked.as_json:
        print_json(facts(found) if change is None else _change_facts(change))
    elif change is None:
        _show(found, picture, why=asked.why)
    else:
        _show_change(change, picture)
    if asked.svg is not None:
        picture.write(asked.svg)
        typer.echo(asked.svg, err=asked.as_json)
    if change is not None and change.ended:
        raise typer.Exit(int(ExitStatus.NOT_CONFORMANT))


def _require_fresh(node: Inputs, asked: Asked) -> None:
    """Refuse ``--device`` where pods ran before: no file says which devices these hold."""
    given = {
        "--node": asked.node,
        "--state": node.question.state,
        "--to-machine": asked.to_machine,
        "--to-config": asked.to_config,
    }
    names = [name for name, value in given.items() if value is not None]
    if asked.device and names:
        raise SubjectUsageError(f"--device with {names[0]}: which devices pods hold is not known")


def _change(before: Answer, node: Inputs, asked: Asked) -> Change | None:
    other, settings = changed_inputs(
        before.machine, node.given, asked.to_machine, asked.to_config, before.release
    )
    machine = other or before.machine
    if settings is None:
        return None if other is None else changed(before, machine, before.config)
    settings = with_memory_where_modelled(
        settings, replace(node.given, config=asked.to_config),
        release=before.release, has_state=node.question.state is not None,
    )  # fmt: skip
    return changed(before, machine, settings.config, settings.notes)


# -- for people --------------------------------------------------------------------------------


def _show(found: Answer, picture: Picture, *, why: bool) -> None:
    console = Console(highlight=False)
    print_lines(console, f"kubelet {found.release} with {found.config}", notes=found.notes)
    if found.hangs_over:
        print_lines(console, hang_text(found))
    console.print(_table(found))
    if why:
        _explain(found, console)
    picture.show(console)


def _show_change(change: Change, picture: Picture) -> None:
    """Print who holds CPUs before and after, side by side, and which pods the change ends."""
    console = Console(highlight=False)
    for title, one in (("before", change.before), ("after", change.after)):
        if one is not None:
            head = f"{title}: {one.machine.name}, kubelet {one.release} with {one.config}"
            print_lines(console, head, notes=one.notes)
    if change.refusal is not None:
        print_lines(console, f"after: {change.refusal}")
    table = Table("container", "before", "after", box=None, pad_edge=False)
    for owner, was, now in change.held():
        ended = owner.rpartition("/")[0] in change.ended
        table.add_row(Text(one_line(owner)), str(was), "ended" if ended else str(now or "none"))
    console.print(table)
    print_lines(console, notes=change.notes())
    picture.show(console)
    ended_pods = change.ended
    none = "No pod that holds CPUs would be ended."
    print_lines(console, ended_text(ended_pods) if ended_pods else none)


def _table(found: Answer) -> Table:
    table = Table("pod", "CPUs", "", box=None, pad_edge=False)
    for pod, of_pod in found.by_pod():
        if found.refused(pod):
            reason = of_pod[0].reason
            why = f"{reason.text}\n{kubelets_words(found, pod)}"
            ran = reason.rule is Rule.CRITICAL_PODS
            table.add_row(Text(_words(found, pod)), "ended" if ran else "rejected", Text(why))
            continue
        for verdict, container in zip(of_pod, pod.containers, strict=True):
            name = one_line(f"{pod.name}/{container.name}: {asked_text(container)}")
            kept = f"{in_short(verdict)}{beside_text(found, verdict)}"
            table.add_row(Text(name), cpus_text(verdict), Text(kept))
    return table


def _words(found: Answer, pod: Pod) -> str:
    """The pod as the kubelet has it, whose class depends on the release."""
    decoded = as_decoded(pod, found.config.feature_gates, release=found.release)
    return one_line(pod_text(decoded))


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


def _change_facts(change: Change) -> dict[str, object]:
    after = change.after
    refusal = change.refusal
    kubelet = {
        "starts": False,
        "error": refusal.error if refusal else "",
        "way out": refusal.way_out if refusal else "",
    }
    return {
        "before": facts(change.before),
        "after": {"kubelet": kubelet} if after is None else facts(after),
        "ended": list(change.ended),
        "notes": list(change.notes()),
    }
