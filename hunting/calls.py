"""The call of a scenario's node by which it takes a step.

What belongs here: which method takes which step, and with what, as a scenario's source has it. What
never does: that source (``telling``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from reference import NotModelled, steps
from reference.steps import Step

_ASKS: Final = (
    steps.AskPodResources, steps.AskAllocatable, steps.AskMetrics, steps.FloodPodResources,
)  # fmt: skip
_OF_RUNTIME: Final = (
    steps.FailUpdates, steps.RegisterDevices, steps.RestartRuntime, steps.EndStopping,
)  # fmt: skip


class Call(NamedTuple):
    """A method of :class:`conformance.lockstep.LockstepNode`, and what it is given."""

    method: str
    values: tuple[object, ...] = ()
    named: Mapping[str, object] = {}


def _call(method: str, *values: object, **named: object) -> Call:
    return Call(method, values, named)


def call(step: Step) -> Call:
    """The call for this step; that of a reboot is given the machine's name, where it has one.
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
        case steps.ApplyTogether(pods=pods):
            return _call("apply", *pods)
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
            return _call("reboot", *([name] if name else []))
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
    if isinstance(step, steps.TakeOver):
        return _call("take", step)
    if isinstance(step, _ASKS):
        return _call("ask", step)
    if isinstance(step, _OF_RUNTIME):
        return _call("to_runtime", step)
    raise NotModelled(f"{type(step).__name__}: no step of an explored history")
