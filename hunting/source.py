"""A scenario as Python source: the calls by which it takes steps, and the values in them.

What belongs here: source. What never does: the text around it (``telling``), and its promise, which
is for a person to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final

from conformance.written import default_of
from reference import CPUSet, NotModelled, steps
from reference.steps import KubeletConfig, Pod, Step

#: Imports that a scenario of a find may need; ``ruff check --fix`` drops the unused ones.
IMPORTS: Final = '''"""Found by pinproof."""

from __future__ import annotations

import topologies
from conformance.lockstep import LockstepNode
from conformance.scenario import Level, Source, scenario
from reference import CPUSet
from reference.steps import (
    AskAllocatable, AskMetrics, AskPodResources, Container, Device, EndStopping, FailUpdates,
    FailWrites, KillAtRename, Kind, KubeletConfig, Pod, PodResources, RegisterDevices,
    RestartPolicy, RestartRuntime, TakeOver,
)

'''

_ASKS: Final = (
    steps.AskPodResources, steps.AskAllocatable, steps.AskMetrics, steps.FloodPodResources,
)  # fmt: skip
_OF_RUNTIME: Final = (
    steps.FailUpdates, steps.RegisterDevices, steps.RestartRuntime, steps.EndStopping,
)  # fmt: skip


def call_of(step: Step) -> str:
    """The call of :class:`conformance.lockstep.LockstepNode` by which a scenario takes a step.
    Raises :class:`NotModelled` for a step that no history has."""
    match step:
        case steps.Start():
            return _call("start")
        case steps.Stop(kill=kill):
            return _call("kill" if kill else "stop")
        case steps.KillAtRename():
            return _call("kill", at=step)
        case steps.Apply(pod=pod):
            return _call("apply", pod)
        case steps.ApplyTogether(pods=pods, slow=slow):
            return _call("apply", *pods, **({"slow": slow} if slow else {}))
        case steps.Delete(pod=name, force=force):
            return _call("delete", name, **({"force": True} if force else {}))
        case steps.Replace(gone=name, pod=pod):
            return _call("apply", pod, instead_of=name)
        case steps.ReplaceStopping(gone=name, pod=pod):
            return _call("apply", pod, instead_of=name, stopping=True)
        case steps.Resize(pod=pod):
            return _call("resize", pod)
        case steps.AddEphemeral(pod=name, container=container):
            return _call("add_ephemeral", name, container)
        case steps.Reboot(machine=name):
            return f"node.reboot({f'topologies.machine({name!r})' if name else ''})"
        case steps.Configure(config=config):
            return _call("configure", config)
        case steps.RemoveState():
            return _call("remove_state")
        case steps.WriteState(text=text):
            return _call("write_state", text)
        case steps.Tamper(pod=name, container=container, cpus=cpus):
            return _call("tamper", name, container, cpus)
        case steps.TamperQuota(pod=name, container=container, quota=quota):
            return _call("tamper_quota", name, container, quota)
        case steps.KillContainer(pod=name, container=container, exit_code=code):
            return _call("kill_container", name, container, exit_code=code)
        case steps.AwaitReconcile():
            return _call("await_reconcile")
    if isinstance(step, steps.TakeOver | steps.FailWrites):
        return _call("take", step)
    if isinstance(step, _ASKS):
        return _call("ask", step)
    if isinstance(step, _OF_RUNTIME):
        return _call("to_runtime", step)
    raise NotModelled(f"{type(step).__name__}: explored histories do not have this step")


def body_of(config: KubeletConfig, history: Sequence[Step]) -> str:
    """The lines of a scenario's function that boot a node with this configuration, and take the
    steps of a history after its first start."""
    calls = [f"node.boot({code_of(config)})", *map(call_of, history[1:])]
    return "\n".join(f"    {call}" for call in calls)


def _call(method: str, *values: object, **named: object) -> str:
    parts = [*map(code_of, values), *(f"{name}={code_of(value)}" for name, value in named.items())]
    return f"node.{method}({', '.join(parts)})"


def code_of(value: Any) -> str:
    """A value as Python source, without fields that have their default."""
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, CPUSet):
        return f"CPUSet({list(value)})"
    if isinstance(value, tuple):
        return f"({''.join(f'{code_of(one)}, ' for one in value)})"
    if not is_dataclass(value):
        return repr(value)
    given = {one.name: getattr(value, one.name) for one in fields(value)}
    plain = {one.name: default_of(one) for one in fields(value)}
    if isinstance(value, Pod):
        plain["uid"] = replace(value, uid="").uid  # which follows from the name
    parts = [f"{name}={code_of(held)}" for name, held in given.items() if held != plain[name]]
    return f"{type(value).__name__}({', '.join(parts)})"
