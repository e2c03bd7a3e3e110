"""What a distribution is: ways to deal with a node's kubelet, as scripts and changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hil.changes import Change
from hil.inspection import NodeFacts
from reference.steps import KubeletConfig


@dataclass(frozen=True, slots=True)
class Locations:
    """Where things are on the node; ``""`` for what it has not."""

    unit: str
    config: str
    config_dir: str
    root_dir: str
    state: str
    manifests: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Health:
    """How the kubelet does: ``running`` (a process is there), ``healthy`` (it answers ``ok``;
    ``None`` where nothing on the node could ask), ``crashing`` (its service manager starts it again
    and again, or has given up). ``since`` identifies the present process: another value is another
    start. ``restarts``: by the service manager, since a person started it; says nothing where the
    kubelet is a child of something else."""

    running: bool
    healthy: bool | None
    crashing: bool
    since: str
    restarts: int = 0


class Distribution(Protocol):
    """One kind of node. Scripts raise :class:`hil.shell.NodeUnfit` when they are asked
    for on a node without a service manager that is known here."""

    @property
    def name(self) -> str:
        """``"kubeadm"``"""

    def locate(self, facts: NodeFacts) -> Locations:
        """Where the kubelet and its files are."""

    def watched(self, facts: NodeFacts) -> tuple[str, ...]:
        """Files and folders beside those that decide what the kubelet is told."""

    def restart(self, facts: NodeFacts) -> str:
        """Script: restart the kubelet, and whatever it lives in; returns when it was asked to."""

    def stop(self, facts: NodeFacts) -> str:
        """Script: stop it, and keep it stopped."""

    def start(self, facts: NodeFacts) -> str:
        """Script: start it."""

    def kill(self, facts: NodeFacts) -> str:
        """Script: SIGKILL for the kubelet's process alone; the service manager does as it does."""

    def identity(self, facts: NodeFacts) -> str:
        """Script that prints one line that names the running process; nothing where it is down."""

    def health(self, facts: NodeFacts) -> str:
        """Script whose stdout :func:`hil.distributions.read_health` reads."""

    def evidence(self, facts: NodeFacts) -> str:
        """Script that prints the last lines of the kubelet's log."""

    def configure(self, facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        """The changes after which the kubelet, restarted, has ``config``.

        Raises :class:`hil.shell.NodeUnfit` where that cannot be done by files on this
        distribution.
        """
