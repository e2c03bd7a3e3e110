"""What is rehearsed: the parts of the way, how a kubelet goes, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import topologies
from conformance.subject import SubjectUsageError
from reference.steps import KubeletConfig, Pod
from topologies import Machine


class Leg(Enum):
    """A part of the way, in words that can be the subject of a sentence."""

    THERE = "the upgrade"
    BACK = "the way back"
    AGAIN = "the second upgrade"

    def __str__(self) -> str:
        return self.value


class Going(Enum):
    """How a kubelet goes, before another one starts: it is stopped, it is killed (SIGKILL), the
    machine boots again, so that no container goes on, or every pod is deleted first and comes again
    afterwards."""

    STOP = "stop"
    KILL = "kill"
    REBOOT = "reboot"
    DRAIN = "drain"


class Killed(NamedTuple):
    """A kubelet is killed at the ``number``-th rename of a file of its own: just before it, or just
    ``after`` it."""

    number: int
    after: bool

    def __str__(self) -> str:
        """As ``before rename 2``."""
        return f"{'after' if self.after else 'before'} rename {self.number}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is rehearsed: a machine, a configuration, ``pods`` that the old kubelet is given, and
    those of ``later``, of which each further kubelet is given the next, as far as there is one.
    ``gone`` are those that are deleted before the upgrade. ``state``: the text of a state file over
    which the old kubelet starts first (``None``: none); ``known`` are the pods that run by then,
    and ``files`` what the other managers keep beside it (:data:`conformance.kept_files.FILES`).
    ``renewed`` are those of ``known`` that are static pods without a uid in their manifest: a
    kubelet of another release gives them another one.
    ``going``: how each kubelet goes. ``killed``: where the new kubelet is killed as it starts for
    the first time and is given a pod more; it is started again then. ``emptied``: on which leg the
    state file is removed before the kubelet starts. ``to_machine`` and ``to_config``: what the new
    kubelet has instead (``None``: the same)."""

    machine: Machine
    config: KubeletConfig
    pods: Sequence[Pod]
    later: Sequence[Pod]
    gone: Sequence[str] = ()
    state: str | None = None
    known: Sequence[Pod] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    renewed: Sequence[str] = ()
    going: Going = Going.STOP
    killed: Killed | None = None
    emptied: Leg | None = None
    to_machine: Machine | None = None
    to_config: KubeletConfig | None = None

    def __post_init__(self) -> None:
        """A node knows a machine by its name. Raises :class:`SubjectUsageError` where two machines
        have the same."""
        other = self.to_machine
        if other and other.name == self.machine.name and other.digest != self.machine.digest:
            raise SubjectUsageError(f"both machines are called {other.name}: rename one of them")

    @property
    def changes(self) -> bool:
        """Whether the new kubelet has another machine or another configuration."""
        return self.to_machine is not None or self.to_config is not None

    @property
    def reboots(self) -> bool:
        """Whether the machine boots again before another kubelet starts."""
        return self.going is Going.REBOOT or self.to_machine is not None

    @property
    def stays_up(self) -> bool:
        """Whether containers may go on all the way."""
        return not self.reboots and self.going is not Going.DRAIN

    def named(self, name: str) -> Machine:
        """The machine of this name: one of the plan's own, which may be a file's, or any other."""
        own = (one for one in (self.machine, self.to_machine) if one and one.name == name)
        return next(own, None) or topologies.machine(name)

    @property
    def every_pod(self) -> tuple[Pod, ...]:
        """Those that stay, in the order in which they come."""
        return (*self.known, *(one for one in self.pods if one.name not in self.gone), *self.later)
