"""Cases: a machine, a configuration, and what happens to a kubelet on it.

What belongs here: what a case is, and how it is written down. What never does: drawing one
(``drawing``) or walking one (``walk``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from differential.exactness.files import OtherFile
from reference import CPUSet, MachineInfo
from reference.steps import KubeletConfig, Pod


class _Action(msgspec.Struct, frozen=True, tag=str.lower, tag_field="action"):
    """In JSON, ``action`` has the name of the class."""


class Arrive(_Action, frozen=True):
    """A pod is admitted, and its containers are created if it is."""

    pod: Pod


class Resize(_Action, frozen=True):
    """An admitted pod is resized in place to ``pod``."""

    pod: Pod


class Leave(_Action, frozen=True):
    """A pod and its containers are gone."""

    pod: str


class Round(_Action, frozen=True):
    """A reconcile round."""


class Ask(_Action, frozen=True):
    """The hints for a pod, which may be admitted, by container and for the whole pod."""

    pod: Pod


class Exit(_Action, frozen=True):
    """The containers of a pod end."""

    pod: str


class Again(_Action, frozen=True):
    """The containers of a pod, but for init containers, are created again."""

    pod: str


class Restart(_Action, frozen=True):
    """The kubelet is started again, perhaps with another configuration, on a machine that has
    changed, or on a changed state file. Every pod is admitted again. ``rebooted``: all containers
    are gone."""

    config: KubeletConfig | None = None
    machine: MachineInfo | None = None
    file: OtherFile | None = None
    rebooted: bool = False


class Drain(_Action, frozen=True):
    """If the kubelet has given up: its pods leave, the state file is removed, and it is started
    again. If it runs, nothing happens."""


Action: TypeAlias = Arrive | Resize | Leave | Round | Ask | Exit | Again | Restart | Drain


@dataclass(frozen=True, slots=True)
class Case:
    """A kubelet of a release on a machine, and what happens to it."""

    release: str
    machine: MachineInfo
    config: KubeletConfig
    actions: tuple[Action, ...] = ()


def dumps(case: Case) -> str:
    return msgspec.json.format(msgspec.json.encode(case, enc_hook=_encode), indent=1).decode()


def loads(text: str | bytes) -> Case:
    """A case from JSON; raises :class:`msgspec.ValidationError`."""
    return msgspec.json.decode(text, type=Case, dec_hook=_decode)


def _encode(value: object) -> object:
    if isinstance(value, CPUSet):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is CPUSet:
        return CPUSet.parse(value)
    raise NotImplementedError(kind.__name__)
