"""``pinproof simulate``: what the kubelet would do with these pods on that machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import topologies
from conformance.describe import config_text, pod_text, topology_text
from conformance.discovered import beside_of, first_core, topology_named
from conformance.lockstep import holdings
from conformance.pods import guaranteed
from conformance.subject import SubjectUsageError
from reference import NEWEST, CPUSet, CPUSetParseError, CPUTopology, Node
from reference.behaviours import Behaviour
from reference.errors import QuantityError
from reference.releases import has, require_whole_node
from reference.settings import reserved_cpus, reserving
from reference.steps import Apply, KubeletConfig, Pod, Start
from reference.view import Phase, View
from topologies import drawing


def simulate(
    pods: Annotated[
        str,
        typer.Option(
            help="CPU requests of Guaranteed pods, in order; + joins containers: 4,2,1.5,1+1"
        ),
    ],
    machine: Annotated[
        str, typer.Option(help="Name, archive, directory or described spec.")
    ] = "2s-2n-16c-smt2",
    reserved: Annotated[
        str, typer.Option(help="reservedSystemCPUs. Default: the first physical core.")
    ] = "",
    release: Annotated[str, typer.Option(help="The release to simulate.")] = NEWEST,
    svg: Annotated[Path | None, typer.Option(help="Write an SVG picture to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which CPUs each pod would get, as a table and a picture."""
    try:
        require_whole_node(release)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    if not has(release, Behaviour.STATE_FILE):
        raise SubjectUsageError(
            f"release {release} keeps who holds which CPUs to itself; 1.9 chooses alike"
        )
    shown = topologies.machine(machine)
    topology = topology_named(shown, release=release)
    config = _config(reserved, topology, release)
    asked = _pods(pods)
    node = Node(lambda _name: shown.tree, shown.name, config, release=release)
    node.do(Start())
    if not node.view().running:
        raise SubjectUsageError(f"the kubelet would not start: {node.view().error}")
    for pod in asked:
        node.do(Apply(pod))
    view = node.view()
    held = {
        one.owner: CPUSet.parse(one.cpus)
        for one in holdings(view, _chosen(topology, config, release))
    }
    if as_json:
        typer.echo(json.dumps(_facts(view, asked, held), indent=2))
        return
    beside = beside_of(shown, release=release)
    title = f"{shown.name}: {topology_text(topology, beside)}"
    console = Console(highlight=False)
    console.print(f"kubelet {release} with {config_text(config)}", soft_wrap=True)
    console.print(_table(view, asked))
    console.print(
        drawing.text(topology.details, held, title=title, width=console.width, beside=beside)
    )
    if svg is not None:
        picture = drawing.svg(topology.details, held, title=title, beside=beside)
        svg.write_text(picture, encoding="utf-8")
        typer.echo(svg)


def _chosen(topology: CPUTopology, config: KubeletConfig, release: str) -> CPUSet:
    return reserved_cpus(topology, config, release=release) or CPUSet()


def _config(text: str, topology: CPUTopology, release: str) -> KubeletConfig:
    if not text:
        return reserving(first_core(topology), release=release)
    try:
        cpus = CPUSet.parse(text)
    except CPUSetParseError as error:
        raise SubjectUsageError(f"--reserved {text!r}: {error}") from error
    if not has(release, Behaviour.RESERVED_CPU_LIST):
        raise SubjectUsageError(f"--reserved {text}: {release} takes no list of reserved CPUs")
    return KubeletConfig(reserved_system_cpus=cpus)


def _pods(text: str) -> list[Pod]:
    made = []
    for number, part in enumerate(text.split(","), 1):
        pod = guaranteed(f"pod{number}", *(one.strip() for one in part.split("+")))
        try:
            pod_text(pod)
        except QuantityError as error:
            raise SubjectUsageError(f"--pods {text!r}: {error}") from error
        made.append(pod)
    return made


def _table(view: View, asked: list[Pod]) -> Table:
    table = Table("pod", "CPUs", "", box=None, pad_edge=False)
    for pod in asked:
        status = view.pods[pod.name]
        if status.phase is Phase.REJECTED:
            table.add_row(pod_text(pod), "rejected", f"{status.reason}: {status.message}")
            continue
        for container in pod.containers:
            cpus = view.assignments.get(pod.name, {}).get(container.name)
            kind = "exclusive" if cpus is not None else "shared pool"
            text = str(cpus if cpus is not None else view.shared_pool)
            table.add_row(f"{pod.name}/{container.name}: {container.cpu_request}", text, kind)
    return table


def _facts(view: View, asked: list[Pod], held: dict[str, CPUSet]) -> dict[str, object]:
    return {
        "pods": {
            pod.name: {
                "phase": view.pods[pod.name].phase.value,
                "reason": view.pods[pod.name].reason,
                "message": view.pods[pod.name].message,
                "exclusive": {
                    name: str(cpus) for name, cpus in view.assignments.get(pod.name, {}).items()
                },
            }
            for pod in asked
        },
        "shared pool": str(view.shared_pool),
        "holdings": {owner: str(cpus) for owner, cpus in held.items()},
        "state file": view.state_file,
    }
