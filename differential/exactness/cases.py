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
    """A pod that is there is resized in place to ``pod``."""

    pod: Pod


class Leave(_Action, frozen=True):
    """A pod and its containers are gone."""

    pod: str


class Round(_Action, frozen=True):
    """A reconcile round."""


class Ask(_Action, frozen=True):
    """The hints for a pod, which may be there, by container and for the whole pod."""

    pod: Pod


class Exit(_Action, frozen=True):
    """The containers of a pod end."""

    pod: str


class Again(_Action, frozen=True):
    """The containers of a pod that do not run are created again."""

    pod: str


class Restart(_Action, frozen=True):
    """The kubelet is started again, perhaps with another configuration, on a machine that has
    changed, or on a state file that is not its own; every pod is admitted again. ``rebooted``: no
    container has outlived it."""

    config: KubeletConfig | None = None
    machine: MachineInfo | None = None
    file: OtherFile | None = None
    rebooted: bool = False


class Drain(_Action, frozen=True):
    """Where the kubelet has given up: its pods leave, the state file is removed, and it is started
    again. Where it runs nothing happens."""


Action: TypeAlias = Arrive | Resize | Leave | Round | Ask | Exit | Again | Restart | Drain


@dataclass(frozen=True, slots=True)
class Case:
    """One story."""

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
