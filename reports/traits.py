"""What a result has that others may lack: its history, configuration, pods and machine, in words.

What belongs here: reading traits from the sentences of steps (:mod:`reference.steps`) and from the
machine's record. Each completes "it fails where …". What never does: what follows from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from conformance.results import MachineRecord, Result

_CONFIGURED: Final = re.compile(r"(?:on (?P<machine>\S+), with|configure the kubelet:) (?P<all>.*)")
_APPLIED: Final = re.compile(
    r"(?:apply|resize in place to) (?:(?P<qos>\w+) )?pod (?P<pod>[^ (]+) \((?P<containers>.*)\)"
)
_START: Final = "start the kubelet"
_PART: Final = re.compile(r"\d+m CPU")
_WHOLE: Final = re.compile(r"\b\d+ CPU")
_DEVICE: Final = re.compile(r", \d+ [^ ,/]+/")
#: What stands beside a pod's containers: its own resources, its restart policy.
_IN_ALL: Final = "in all "
_POLICY: Final = "restart policy "
#: How a pod's labels and annotations begin.
_MARKS: Final = ("label ", "annotation ")
_DELETE: Final = "delete pod "
_REBOOT: Final = "reboot the machine"
_WRITE: Final = "write the state file"
#: Steps that are a trait by themselves, by how their sentence begins.
_DONE: Final = {
    "delete pod": "a pod is deleted",
    "kill container": "a container is killed",
    "stop the kubelet (SIGTERM)": "the kubelet is stopped (SIGTERM)",
    "kill the kubelet (SIGKILL)": "the kubelet is killed (SIGKILL)",
    "wait for a reconcile round": "the scenario waits for a reconcile round",
    "resize in place": "a pod is resized in place",
    "restart the container runtime": "the container runtime is restarted",
    "let systemd read its units again": "systemd reads its units again",
    "set the cpuset of": "a container's cpuset is written behind the kubelet's back",
    "configure the kubelet": "the kubelet's configuration is changed",
    _REBOOT: "the machine is rebooted",
    _WRITE: "the kubelet starts over a state file that was written beforehand",
}


@lru_cache(maxsize=65_536)
def _of_words(steps: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        [*_of_history(steps), *_of_configuration(steps), *_of_pods(steps), *_of_the_pool(steps)]
    )


def traits(result: Result, steps: Sequence[str] = ()) -> frozenset[str]:
    """All traits of a result, up to the step where it failed if it did. ``steps`` are those of a
    result that has none of its own."""
    return _of_words(tuple(result.steps or steps)) | frozenset(_of_machine(result.machine))


def traits_of_passes(passed: Iterable[Result]) -> Iterator[frozenset[str]]:
    """The traits of each pass. A stream has the steps of a scenario's first pass alone: passes on
    other machines took the same ones."""
    passed = list(passed)
    stories = {result.scenario: result.steps for result in passed if result.steps}
    return (traits(result, stories.get(result.scenario, ())) for result in passed)


def _of_history(steps: Sequence[str]) -> Iterator[str]:
    has_file = False
    for step in steps:
        if step == _START:
            if has_file:
                yield "the kubelet starts over an existing state file"
            has_file = True
        elif step.startswith(_WRITE):
            has_file = True
        elif step == "remove the state file":
            has_file = False
            yield "the state file is removed while the kubelet is down"
        if step.startswith(f"{_REBOOT} as"):
            yield "the machine's CPUs change"
        yield from (trait for start, trait in _DONE.items() if step.startswith(start))


def _of_configuration(steps: Sequence[str]) -> Iterator[str]:
    for step in steps:
        if found := _CONFIGURED.match(step):
            for setting in found["all"].split(", "):
                if trait := _setting(setting):
                    yield trait


def _setting(setting: str) -> str:
    name, _, value = setting.rpartition(" ")
    match name:
        case "option":
            return f"the option {_set(value)}"
        case "Topology Manager option":
            return f"the Topology Manager's option {_set(value)}"
        case "Topology Manager":
            return f"the Topology Manager's policy is {value}"
        case "Topology Manager scope":
            return f"the Topology Manager's scope is {value}"
        case "memory manager":
            return f"the memory manager's policy is {value}"
        case "gate":
            gate, _, state = value.partition("=")
            return f"the feature gate {gate} is {'on' if state == 'True' else 'off'}"
        case "policy" if value != "static":
            return f"the CPU manager's policy is {value}"
        case "systemReserved cpu" | "kubeReserved cpu":
            return "CPUs are reserved by an amount (systemReserved, kubeReserved)"
    return "pods come from an API server" if setting == "pods from an API server" else ""


def _set(option: str) -> str:
    """The name of an option, and whether it is set to false. How ``true`` is spelt makes no
    difference."""
    name, _, value = option.partition("=")
    return f"{name} is set to false" if value.lower() == "false" else f"{name} is set"


def _of_pods(steps: Sequence[str]) -> Iterator[str]:
    for step in steps:
        if found := _APPLIED.match(step):
            if found["qos"] not in ("Guaranteed", None):  # nearly every scenario has one of those
                yield f"a {found['qos']} pod is applied"
            parts = found["containers"].split("; ")
            containers = [one for one in parts if not one.startswith((_IN_ALL, _POLICY, *_MARKS))]
            kinds = {one.split(" ")[0] for one in containers}
            if "init" in kinds:
                yield "a pod has an init container"
            if "sidecar" in kinds:
                yield "a pod has a sidecar"
            if len(containers) > 1:
                yield "a pod has several containers"
            if _PART.search(found["containers"]):
                yield "a container asks for a part of a CPU"
            if any(_DEVICE.search(one) for one in containers):
                yield "a container asks for a device"
            if parts[0].startswith(_IN_ALL):
                yield "a pod has resources of its own"
            for one in parts:
                if one.startswith(_MARKS):
                    yield f"a pod has the {one}"
            if parts[-1].startswith(_POLICY):
                yield f"a pod's {parts[-1].replace(_POLICY, f'{_POLICY}is ')}"


def _of_the_pool(steps: Sequence[str]) -> Iterator[str]:
    """A trait where pods take CPUs from the shared pool, or give them back, while a container runs
    in it."""
    static, sharing, holding = False, set[str](), set[str]()
    for step in steps:
        if configured := _CONFIGURED.match(step):
            static = configured["all"].startswith("policy static")
        changes = False
        if found := _APPLIED.match(step):
            whole = found["qos"] == "Guaranteed" and _WHOLE.search(found["containers"])
            if whole:
                changes = True
                holding.add(found["pod"])
            if found["qos"] != "Guaranteed" or _PART.search(found["containers"]):
                changes = changes and bool(sharing - {found["pod"]})
                sharing.add(found["pod"])
        elif step.startswith(_DELETE):
            pod = step.removeprefix(_DELETE).removesuffix(" by force")
            changes = pod in holding
            holding.discard(pod)
            sharing.discard(pod)
        if static and changes and sharing:
            yield "the shared pool changes while a container runs in it"


def _of_machine(machine: MachineRecord) -> Iterator[str]:
    yield f"the machine is {machine.name}"
    if not machine.cpus:
        return
    nodes, sockets, cores, caches = (set(ids) for ids in zip(*machine.cpus.values(), strict=True))
    yield "the machine has SMT" if len(cores) < len(machine.cpus) else "the machine has no SMT"
    for some, name in ((nodes, "NUMA node"), (sockets, "socket"), (caches, "uncore cache")):
        if len(some) > 1:
            yield f"the machine has several {name}s"
    if len(nodes) > len(sockets):
        yield "a socket has several NUMA nodes"
    if max(machine.cpus) >= len(machine.cpus):
        yield "the machine has CPUs that are offline"
