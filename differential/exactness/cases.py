"""Cases: a machine, a configuration, and what happens to a kubelet on it.

What belongs here: what a case is, and how it is written down. What never does: drawing one
(``drawing``) or walking one (``walk``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from differential.exactness.files import OtherFile
from reference import CPUSet, MachineInfo
from reference.steps import KubeletConfig, Pod


@dataclass(frozen=True, slots=True)
class Arrive:
    """A pod is admitted, and its containers are created if it is."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Resize:
    """A pod that is there is resized in place to ``pod``."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Leave:
    """A pod and its containers are gone."""

    pod: str


@dataclass(frozen=True, slots=True)
class Round:
    """A reconcile round."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The hints for a pod, which may be there, by container and for the whole pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Exit:
    """The containers of a pod end."""

    pod: str


@dataclass(frozen=True, slots=True)
class Again:
    """The containers of a pod that do not run are created again."""

    pod: str


@dataclass(frozen=True, slots=True)
class Restart:
    """The kubelet is started again, perhaps with another configuration, on a machine that has
    changed, or on a state file that is not its own; every pod is admitted again. ``rebooted``: no
    container has outlived it."""

    config: KubeletConfig | None = None
    machine: MachineInfo | None = None
    file: OtherFile | None = None
    rebooted: bool = False


@dataclass(frozen=True, slots=True)
class Drain:
    """Where the kubelet has given up: its pods leave, the state file is removed, and it is started
    again. Where it runs nothing happens."""


Action: TypeAlias = Arrive | Resize | Leave | Round | Ask | Exit | Again | Restart | Drain


@dataclass(frozen=True, slots=True)
class Case:
    """One story."""

    release: str
    machine: MachineInfo
    config: KubeletConfig
    actions: tuple[Action, ...] = field(default=())


# --- writing down ----------------------------------------------------------------------------


def dumps(case: Case) -> str:
    """The case as JSON."""
    return json.dumps(msgspec.to_builtins(_tagged(case), enc_hook=_encode), indent=1)


def loads(path: Path) -> Case:
    """A case from JSON; raises :class:`msgspec.ValidationError`."""
    plain = json.loads(path.read_text())
    return Case(
        msgspec.convert(plain["release"], str),
        msgspec.convert(plain["machine"], MachineInfo, dec_hook=_decode),
        msgspec.convert(plain["config"], KubeletConfig, dec_hook=_decode),
        tuple(
            msgspec.convert(each, _KINDS[each.pop("action")], dec_hook=_decode)
            for each in plain["actions"]
        ),
    )


_KINDS: Final[Mapping[str, type[Any]]] = {
    kind.__name__.lower(): kind
    for kind in (Arrive, Resize, Leave, Round, Ask, Exit, Again, Restart, Drain)
}


def _tagged(case: Case) -> dict[str, Any]:
    plain = msgspec.to_builtins(replace(case, actions=()), enc_hook=_encode)
    plain["actions"] = [
        {"action": type(one).__name__.lower(), **msgspec.to_builtins(one, enc_hook=_encode)}
        for one in case.actions
    ]
    return dict(plain)


def _encode(value: object) -> object:
    if isinstance(value, CPUSet):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is CPUSet:
        return CPUSet.parse(value)
    raise NotImplementedError(kind.__name__)
