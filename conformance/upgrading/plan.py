"""What is rehearsed: the legs, how a kubelet ends before the next one, and the plan."""

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
    """A part of a rehearsal, in words that can be the subject of a sentence."""

    THERE = "the upgrade"
    BACK = "the way back"
    AGAIN = "the second upgrade"

    def __str__(self) -> str:
        return self.value


class Going(Enum):
    """How a kubelet ends before another one starts: it is stopped, it is killed (SIGKILL), the
    machine boots again, which ends all containers, or every pod is deleted first and applied again
    afterwards."""

    STOP = "stop"
    KILL = "kill"
    REBOOT = "reboot"
    DRAIN = "drain"


class Killed(NamedTuple):
    """A kubelet is killed at the ``number``-th rename of one of its files: just before it, or just
    ``after`` it."""

    number: int
    after: bool

    def __str__(self) -> str:
        """As ``before rename 2``."""
        return f"{'after' if self.after else 'before'} rename {self.number}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is rehearsed: a machine, a configuration, ``pods`` that are applied to the old kubelet,
    and ``later``, of which one is applied to each later kubelet. ``gone`` are those that are
    deleted before the upgrade. ``state``: the text of a state file over which the old kubelet first
    starts (``None`` without one); ``known`` are the pods that run then, and ``files`` those of
    other managers beside it (:data:`conformance.kept_files.FILES`). ``renewed`` are those of
    ``known`` that are static pods without a uid in their manifest: a kubelet of another release
    gives them another one. ``going``: how each kubelet ends. ``killed``: where the new kubelet is
    killed at its first start or with one more pod, before it is started again. ``emptied``: the leg
    on which the state file is removed before the kubelet starts. ``to_machine`` and ``to_config``:
    those of the new kubelet (``None``: the same)."""

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
        """Raises :class:`SubjectUsageError` if two machines have the same name."""
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
        """Whether containers may keep running in the whole rehearsal."""
        return not self.reboots and self.going is not Going.DRAIN

    def named(self, name: str) -> Machine:
        """The machine of this name: one of the plan's, which may be from a file, or any other."""
        own = (one for one in (self.machine, self.to_machine) if one and one.name == name)
        return next(own, None) or topologies.machine(name)

    @property
    def every_pod(self) -> tuple[Pod, ...]:
        """The pods that are not deleted, in the order in which they are applied."""
        return (*self.known, *(one for one in self.pods if one.name not in self.gone), *self.later)
