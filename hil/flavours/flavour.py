"""What a flavour is: five ways to deal with a node's kubelet, as scripts and changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hil.facts import NodeFacts
from hil.safety.changes import Change
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
    """How the kubelet does: ``running`` (a process is there), ``healthy`` (it answers ``ok``),
    ``crashing`` (its service manager starts it again and again). ``since`` identifies the present
    process: another value is another start."""

    running: bool
    healthy: bool
    crashing: bool
    since: str
    restarts: int = 0


class Flavour(Protocol):
    """One kind of node."""

    #: ``"kubeadm"``
    name: str

    def locate(self, facts: NodeFacts) -> Locations:
        """Where the kubelet and its files are."""

    def restart(self, facts: NodeFacts) -> str:
        """Script: restart the kubelet, and whatever it lives in; returns when it was asked to."""

    def stop(self, facts: NodeFacts) -> str:
        """Script: stop it, and keep it stopped."""

    def start(self, facts: NodeFacts) -> str:
        """Script: start it."""

    def kill(self, facts: NodeFacts) -> str:
        """Script: SIGKILL for the kubelet's process alone; the service manager does as it does."""

    def health(self, facts: NodeFacts) -> str:
        """Script whose stdout :func:`read_health` reads."""

    def evidence(self, facts: NodeFacts) -> str:
        """Script that prints the last lines of the kubelet's log of its last start."""

    def configure(self, facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        """The changes after which the kubelet, restarted, has ``config``.

        Raises :class:`hil.shell.NodeUnfit` where that cannot be done by files on this flavour.
        """


def read_health(text: str) -> Health:
    """What a script of :meth:`Flavour.health` printed."""
    raise NotImplementedError


def flavour_of(facts: NodeFacts, *, named: str = "") -> Flavour:
    """The flavour of a node, by what is on it; ``named`` (of the inventory) instead.

    Raises :class:`hil.shell.NodeUsageError` for a name of none.
    """
    raise NotImplementedError
