"""The state file: removed, damaged, or of another node."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios.abilities import CONFIGURES, EDITS, START_ERROR
from conformance.scenarios.outcomes import restart_with
from conformance.scenarios.sources import BASELINES, CHANGING_POLICY, CHECKSUM, CPUS_CHANGED, KEP
from reference import Checkpoint, CPUSet

_state: Final = partial(promised, area="state")

_RESIZES = {"InPlacePodVerticalScalingExclusiveCPUs": True}
_of_checksum: Final = partial(
    promised, area="state", source=CHECKSUM, since="1.12", capabilities=EDITS
)


def _promise_recovery(node: LockstepNode, refused: str) -> None:
    """The file was left as it was; once it is removed, the kubelet starts on a fresh state."""
    left = node.view.state_file
    node.promise_equal("The refused file is left alone", "state file", refused, left)
    node.remove_state()
    node.start()
    seen = node.view.shared_pool | node.taken("a")
    node.promise_cpus("Without the file it starts afresh", "CPUs in the state", node.cpus, seen)


@_state(KEP, level=Level.CORE, since="1.10", needs=Needs(free=2), capabilities=EDITS)
def removed_starts_afresh(node: LockstepNode) -> None:
    """Without its state file the kubelet starts with every CPU shared, and admits its pods again.
    The pod gets CPUs as on an empty machine."""
    node.boot_with(guaranteed("a", 2))
    node.stop()
    node.remove_state()
    node.start()
    taken = node.taken("a")
    node.promise_equal("The pod has its CPUs again", "number of CPUs", 2, len(taken))
    node.promise_cpus("The rest is shared", "pool", node.cpus - taken, node.view.shared_pool)


def _damaged(node: LockstepNode, text: str, *errors: str) -> None:
    node.stop()
    node.write_state(text)
    node.start()
    node.promise_refusal("could not restore state from checkpoint", *errors)
    _promise_recovery(node, text)


@_of_checksum()
def truncated_is_refused(node: LockstepNode) -> None:
    """A truncated state file keeps the kubelet from starting, until it is removed.
    A crash of the file system may leave half a file."""
    node.boot()
    text = node.view.state_file or ""
    _damaged(node, text[: len(text) // 2])


@_of_checksum(level=Level.CORE)
def empty_is_refused(node: LockstepNode) -> None:
    """An empty state file keeps the kubelet from starting, until it is removed.
    A file of no bytes is not the same as no file."""
    node.boot()
    _damaged(node, "")


@_of_checksum(level=Level.CORE)
def wrong_checksum_is_refused(node: LockstepNode) -> None:
    """A state file whose checksum is wrong keeps the kubelet from starting, until it is removed.
    The contents are whole, but not what the kubelet wrote. From 1.37 on there are two checksums,
    and the one over the inner text counts."""
    node.boot()
    data = json.loads(node.view.state_file or "{}")
    for name in data.keys() & {"checksum", "dataChecksum"}:
        data[name] = data[name] % 0xFFFFFFFF + 1
    _damaged(node, json.dumps(data, separators=(",", ":")), "checkpoint is corrupted")


@_of_checksum()
def edited_is_refused(node: LockstepNode) -> None:
    """A state file edited by hand keeps the kubelet from starting, until it is removed.
    An edit without a matching checksum counts as damage, in the inner text of 1.37 too."""
    node.boot()
    data = json.loads(node.view.state_file or "{}")
    data["defaultCpuSet"] = str(node.reserved)
    if "data" in data:
        inner = json.loads(data["data"]) | {"defaultCpuSet": str(node.reserved)}
        data["data"] = json.dumps(inner, separators=(",", ":"))
    _damaged(node, json.dumps(data, separators=(",", ":")), "checkpoint is corrupted")


@_state(CHANGING_POLICY, level=Level.CORE, since="1.12", capabilities=(*EDITS, *CONFIGURES))
def other_policy_is_refused(node: LockstepNode) -> None:
    """A change of policy keeps the kubelet from starting, until the state file is removed.
    From static to none and, with the file removed, back to static."""
    node.boot()
    static = node.config
    restart_with(node, replace(static, policy="none"))
    node.promise_refusal('configured policy "none" differs from state checkpoint policy "static"')
    node.remove_state()
    node.start()
    node.promise_running("Without the file it starts under the new policy")
    restart_with(node, static)
    node.promise_refusal('configured policy "static" differs from state checkpoint policy "none"')


def _contradicts(node: LockstepNode, error: str, *, pool: CPUSet, **entries: CPUSet) -> None:
    """The kubelet refuses a file with a right checksum, in which these CPUs are shared, and those
    of these containers exclusive."""
    node.stop()
    named = {"pod": entries} if entries else {}
    made = Checkpoint(policy_name="static", default_cpuset=pool, entries=named)
    text = made.dumps(release=node.release)
    node.write_state(text)
    node.start()
    node.promise_refusal(error)
    _promise_recovery(node, text)


@_state(CPUS_CHANGED, capabilities=EDITS)
def of_other_cpus_is_refused(node: LockstepNode) -> None:
    """A state file of a machine with other CPUs keeps the kubelet from starting.
    A whole file with a right checksum, which has one CPU more than the machine."""
    node.boot()
    now, more = node.cpus, node.cpus | CPUSet([max(node.topology.details) + 1])
    error = f'current set of available CPUs "{now}" doesn\'t match with CPUs in state "{more}"'
    _contradicts(node, error, pool=more)


@_state(KEP, level=Level.CORE, capabilities=EDITS)
def overlap_is_refused(node: LockstepNode) -> None:
    """A state file in which a CPU is both exclusive and shared keeps the kubelet from starting.
    A whole file with a right checksum that contradicts itself."""
    node.boot()
    both = CPUSet([max(node.cpus)])
    error = f'pod: pod, container: c cpuset: "{both}" overlaps with default cpuset "{node.cpus}"'
    _contradicts(node, error, pool=node.cpus, c=both)


@_state(KEP, level=Level.CORE, capabilities=EDITS)
def reserved_cpus_must_be_shared(node: LockstepNode) -> None:
    """A state file in which a reserved CPU is exclusive keeps the kubelet from starting.
    As after an enlarged reservation, when its CPUs had been given away before."""
    node.boot()
    pool = node.cpus - node.reserved
    error = f'not all reserved cpus: "{node.reserved}" are present in defaultCpuSet: "{pool}"'
    _contradicts(node, error, pool=pool, c=node.reserved)


@_state(
    KEP, level=Level.CORE, since="1.18", needs=Needs(free=2),
    capabilities=(*CONFIGURES, *START_ERROR),
)  # fmt: skip
def a_cpu_of_a_pod_may_not_be_reserved(node: LockstepNode) -> None:
    """A reservation that has a CPU of a pod beside shared ones keeps the kubelet from starting.
    The CPUs that were reserved before are reserved again, so all others of the reservation are
    shared. With the first reservation it starts, and the pod has its CPU."""
    node.boot_with(guaranteed("a", 1))
    held, first = node.taken("a"), node.config
    enlarged = node.reserved | held
    restart_with(node, replace(node.default_config(), reserved_system_cpus=enlarged))
    pool = node.cpus - held
    error = f'not all reserved cpus: "{enlarged}" are present in defaultCpuSet: "{pool}"'
    node.promise_refusal(error)
    node.configure(first)
    node.start()
    node.promise_taken("With the first reservation the pod has its CPU", "a", held)


def _promise_baselines(node: LockstepNode, *pods: str) -> None:
    """The state file has just the CPUs of these pods' containers as what they were given first."""
    data = json.loads(json.loads(node.view.state_file or "{}").get("data", "{}"))
    entries = [one for named in data.get("baselines", {}).values() for one in named.values()]
    seen = sorted(one["baseline"] for one in entries)
    expected = sorted(str(node.taken(pod)) for pod in pods)
    node.promise_equal("The first CPUs are kept", "baselines", expected, seen)


@_state(BASELINES, since="1.37", needs=Needs(free=3), capabilities=[Capability.RESTART])
def first_cpus_are_remembered(node: LockstepNode) -> None:
    """With the gate for resizing exclusive CPUs the state file keeps what each container got first.
    Over a restart, and until the container is gone. Nothing is computed from it yet."""
    node.boot(replace(node.config, feature_gates=_RESIZES))
    node.apply(guaranteed("a", 1))
    node.apply(guaranteed("b", 2))
    _promise_baselines(node, "a", "b")
    node.restart(kill=False)
    _promise_baselines(node, "a", "b")
    node.delete("a")
    _promise_baselines(node, "b")


@_state(BASELINES, since="1.37", needs=Needs(free=3), capabilities=CONFIGURES)
def first_cpus_are_those_held_before(node: LockstepNode) -> None:
    """Once the gate for resizing exclusive CPUs is on, CPUs that are held count as those got first.
    The state file of before has none of them. Its next change brings those of every
    container."""
    node.boot_with(guaranteed("a", 2))
    restart_with(node, replace(node.config, feature_gates=_RESIZES))
    node.promise_running("The kubelet starts on its state file")
    node.apply(guaranteed("b", 1))
    _promise_baselines(node, "a", "b")
