"""Histories: a machine, a configuration, and what happens to the kubelet there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final

import msgspec

from conformance.step_needs import needed
from conformance.subject import Capability
from conformance.written import default_of, made, read
from reference.cpuset import CPUSet
from reference.steps import (
    ApplyTogether,
    AskAllocatable,
    AskPodResources,
    Configure,
    FloodPodResources,
    Kind,
    KubeletConfig,
    Pod,
    ReplaceStopping,
    Resize,
    Start,
    Step,
    applied,
)

#: The first minor whose kubelets answer by default.
_SINCE: Final[dict[type[Step], int]] = {
    AskPodResources: 20,
    AskAllocatable: 23,
    FloodPodResources: 27,
    Resize: 33,
    ApplyTogether: 18,
    ReplaceStopping: 26,
}


@dataclass(frozen=True, slots=True)
class History:
    """What is done to a fresh node on ``machine`` (a name of the catalogue) with ``config``."""

    machine: str
    config: KubeletConfig
    steps: tuple[Step, ...]

    def __hash__(self) -> int:
        return hash((self.machine, str(self.config), len(self.steps)))

    def __str__(self) -> str:
        """The steps as sentences, after machine and configuration."""
        return "; ".join([f"on {self.machine}, {self.config}", *(s.sentence for s in self.steps)])

    @property
    def needs(self) -> frozenset[Capability]:
        """What a subject must be able to do for it."""
        found = {need for step in self.steps for need in needed(step)}
        configs = [self.config, *(s.config for s in self.steps if isinstance(s, Configure))]
        if any(one.api_server for one in configs):
            found.add(Capability.API_SERVER)
        if any(one.memory_manager_policy != "None" for one in configs):
            found.add(Capability.MEMORY)
        if any(one.devices for pod in self._pods for one in pod.containers):
            found.add(Capability.DEVICES)
        return frozenset(found)

    @property
    def oldest(self) -> int:
        """The first minor whose kubelets know all steps and fields of the history. In an earlier
        one the model may show what no kubelet can."""
        pods = self._pods
        containers = [one for pod in pods for one in pod.containers]
        return max(
            29 if any(one.kind is Kind.SIDECAR for one in containers) else 0,
            32 if any(pod.resources for pod in pods) else 0,
            36 if any(one.restarts_all_on for one in containers) else 0,
            35 if any(one.restart_policy for one in containers) else 0,
            *(_SINCE.get(type(step), 0) for step in self.steps),
            27 if any(isinstance(one, AskPodResources) and one.pod for one in self.steps) else 0,
        )

    @property
    def _pods(self) -> list[Pod]:
        resized = [step.pod for step in self.steps if isinstance(step, Resize)]
        return [*resized, *(pod for step in self.steps for pod in applied(step))]

    @property
    def starts(self) -> int:
        """How often a kubelet is started, which takes most of the time."""
        return sum(isinstance(step, Start) for step in self.steps)


def to_plain(history: History) -> dict[str, Any]:
    """A history as plain JSON values, without defaults."""
    return {
        "machine": history.machine,
        "config": _plain(history.config),
        "steps": [{type(step).__name__: _plain(step)} for step in history.steps],
    }


def from_plain(value: Mapping[str, Any]) -> History:
    """The history that :func:`to_plain` wrote. Raises ``ValueError`` for anything else."""
    try:
        steps = tuple(read({name: of}) for one in value["steps"] for name, of in one.items())
        return History(str(value["machine"]), made(KubeletConfig, value["config"]), steps)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise ValueError(f"not a history: {error}") from error


def _plain(value: Any) -> Any:
    """Plain JSON of a value of :mod:`reference.steps`."""
    if isinstance(value, CPUSet):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        fields = ((one, attrgetter(one.name)(value)) for one in dataclasses.fields(value))
        return {one.name: _plain(part) for one, part in fields if part != default_of(one)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value
