"""``pinproof draw``: a machine as a picture, with the CPUs of each owner in its colour.

What belongs here: where owners come from (pods, a state file, the command line). How they are drawn
is :mod:`pinproof.picture`'s; what a kubelet gives to pods is :mod:`pinproof.simulation`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

import topologies
from conformance.subject import SubjectUsageError
from pinproof import inputs
from pinproof.completion import machine_names
from pinproof.inputs import Inputs, Question, inputs_of
from pinproof.parameters import argument, option, with_options
from pinproof.picture import Picture
from pinproof.settings import Given, settings_of
from pinproof.simulation import reserved_of
from reference import NEWEST, Checkpoint, CheckpointError, CPUSet, CPUTopology
from reference.steps import KubeletConfig
from topologies.boxes import RESERVED, SHARED_POOL
from topologies.errors import one_line


@dataclass(frozen=True, slots=True)
class Asked:
    machine: str = argument(
        "Name, archive, directory or described spec.", autocompletion=machine_names
    )
    svg: Path | None = option(None, "Write an SVG picture to this file.")
    held: list[str] | None = option(
        None,
        "Draw OWNER as the holder of CPUS: pod/container=2,10. May be repeated.",
        metavar="OWNER=CPUS",
    )
    release: str = option(
        "",
        "The release that reads machine, state file and pods.",
        show_default=f"{NEWEST}, or that of a collected node",
    )


@with_options
def draw(question: Question, given: Given, asked: Asked) -> None:
    """Draw a machine: sockets, NUMA nodes, uncore caches, physical cores, threads, and which
    containers hold CPUs. With --state alone the holders are those of that file; with --pods, those
    to which a kubelet would give CPUs.

    pinproof draw ./node7.tar.xz --state cpu_manager_state --reserved 0,4

    pinproof draw ./node7.tar.xz --config config.yaml --pods pods.yaml --svg node7.svg
    """
    shown = topologies.machine(asked.machine)
    node = inputs_of(asked.machine, given, question, asked.release)
    topology = inputs.discovered(shown, node.release)
    owners = _named(asked.held or ())
    if node.question.pods is not None:
        found = inputs.answered(shown, node)
        owners = {**owners, **found.held}
        for note in found.notes:
            typer.echo(f"pinproof: {one_line(note)}", err=True)
    else:
        owners = {**owners, **_of_state(node, topology)}
    picture = Picture.of(shown, topology, owners, node.release)
    if asked.svg is None:
        picture.show(Console(highlight=False))
    else:
        picture.write(asked.svg)
        typer.echo(asked.svg)


def _named(held: Sequence[str]) -> dict[str, CPUSet]:
    owners: dict[str, CPUSet] = {}
    for text in held:
        owner, equals, cpus = text.rpartition("=")
        if not equals or not owner:
            raise SubjectUsageError(f"--held {text!r}: it is OWNER=CPUS, as in web/app=2,10")
        try:
            owners[owner] = owners.get(owner, CPUSet()) | CPUSet.parse(cpus)
        except ValueError as error:
            raise SubjectUsageError(f"--held {cpus!r}: {error}") from error
    return owners


def _of_state(node: Inputs, topology: CPUTopology) -> dict[str, CPUSet]:
    """Owners in the order of the legend: as in the state file, reserved, shared pool."""
    config, kept, state = KubeletConfig(), CPUSet(), node.question.state
    if not node.given.nothing:
        config = settings_of(node.given, topology, release=node.release).config
        kept = reserved_of(topology, config, node.release)
    owners: dict[str, CPUSet] = {}
    checkpoint = _checkpoint(state, config, node.release) if state is not None else None
    if checkpoint is not None:
        for pod, containers in sorted(checkpoint.entries.items()):
            owners |= {f"{pod}/{name}": cpus for name, cpus in sorted(containers.items())}
    if kept:
        owners[RESERVED] = kept
    if checkpoint is not None:
        owners[SHARED_POOL] = checkpoint.default_cpuset - kept
    return owners


def _checkpoint(path: Path, config: KubeletConfig, release: str) -> Checkpoint:
    try:
        return Checkpoint.loads(
            inputs.state_file(path).text,
            policy=config.policy,
            release=release,
            feature_gates=config.feature_gates,
        )
    except (CheckpointError, ValueError) as error:
        raise SubjectUsageError(f"{path}: kubelet {release} cannot restore it: {error}") from error
