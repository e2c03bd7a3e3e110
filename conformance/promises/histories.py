"""The promises that a step can break, judged by the views before and after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from conformance.checks import kubelet_text
from conformance.promises.answers import misreported
from conformance.promises.placement import misplaced, split
from conformance.promises.situation import Situation, Violation
from reference import CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpumanager.policy_options import FULL_PCPUS, StaticOptions, is_true
from reference.errors import ConfigurationError
from reference.pods.pod_level_resources import as_decoded, has_pod_level_resources
from reference.pods.qos import as_judged, exclusive_cpus, pod_milli_cpus, total_request
from reference.releases import has
from reference.steps import Apply, AwaitReconcile, Delete, Kind, Pod, Resize, Start, Step
from reference.view import Phase, View

ANSWERS: Final = "The kubelet answers every step in time"
STARTS_AGAIN: Final = "The kubelet starts again after every sequence of steps that a user can take"
STARTS: Final = "The kubelet starts on an empty node with every documented configuration"
GOES_ON: Final = "A running pod keeps running over a restart of the kubelet"
KEEPS_CPUS: Final = "A running container keeps its exclusive CPUs until it ends"
BOOKED_AS_ASKED: Final = "A pod holds no more exclusive CPUs than it requests"
ADMITTED: Final = (
    "A pod that fits the free CPUs is admitted, unless a setting gives a reason to refuse it"
)
AS_NEW: Final = "Once every pod is deleted, no CPU is exclusive and the shared pool is whole"

TRUE_REASON: Final = "The reason that the kubelet gives for refusing a pod is true"
NO_QUOTA: Final = "A container with exclusive CPUs has no CFS quota"
LEFT_ALONE: Final = "A reconcile round does not update a container whose CPUs have not changed"

#: The promises that a kubelet need not keep on another machine or under another policy.
GOING_ON: Final = (STARTS_AGAIN, GOES_ON)
#: The limit without the option max-allowable-numa-nodes.
_MOST_NUMA_NODES: Final = 8
_NOT_MULTIPLE: Final = re.compile(r"requested ([0-9]+) cpus not multiple cpus per core = ([0-9]+)")
_NOT_ENOUGH: Final = re.compile(r"requested=([0-9]+), available=([0-9]+)")

#: The Topology Manager policies that refuse no pod.
_REFUSES_NO_POD: Final = ("none", "best-effort")


def broken_in_step(
    before: View | None, step: Step, after: View, situation: Situation
) -> list[Violation]:
    """Every promise that this step breaks, for a kubelet with policy static.

    ``before`` is the last view in which the kubelet ran, ``None`` if it never has;
    ``situation.pods`` are the pods that are applied after the step.
    """
    if situation.config.policy != "static":
        return []
    if after.hangs:
        return [Violation.of(ANSWERS, "kubelet", "answers", f"hangs: {after.hangs}")]
    if not after.running:
        if not isinstance(step, Start) or (before is None and _may_refuse(situation)):
            return []
        rule = STARTS if before is None else STARTS_AGAIN
        return [Violation.of(rule, "kubelet", "runs", kubelet_text(after))]
    broken = [*_booked(after, situation), *_untrue(after), *_bounded(after, situation)]
    if before is not None:
        if isinstance(step, Start):
            broken += _going_on(before, after, situation)
        if not isinstance(step, Resize):
            broken += _kept(before, after, situation)
    if isinstance(step, Apply):
        broken += _admission(before, step.pod, after, situation)
    broken += misreported(after, situation)
    if isinstance(step, AwaitReconcile) and before is not None:
        broken += _left_alone(before, after)
    if isinstance(step, Delete | Start) and not situation.pods:
        broken += _as_new(after)
    return broken


def _may_refuse(situation: Situation) -> bool:
    """Whether the kubelet may refuse its settings, because they do not fit the machine."""
    nodes = situation.topology.numa_masks if situation.topology else ()
    aligns = situation.config.topology_manager_policy != "none"
    listed = situation.config.reserved_system_cpus or CPUSet()
    if not listed <= situation.cpus or not _options_fit(situation):
        return True
    reserved = reserved_milli_cpus(situation.config, release=situation.release)
    return (aligns and len(nodes) > _MOST_NUMA_NODES) or reserved >= len(situation.cpus) * 1000


def _options_fit(situation: Situation) -> bool:
    """Whether the policy options are documented for these feature gates, this Topology Manager
    policy and this machine. ``align-by-socket`` is not for more sockets than NUMA nodes."""
    config = situation.config
    try:
        options = StaticOptions.parse(
            config.policy_options, config.feature_gates, release=situation.release
        )
        if situation.topology:
            options.require_suitable(situation.topology, config.topology_manager_policy)
    except ConfigurationError:
        return False
    return True


def _untrue(after: View) -> Iterator[Violation]:
    """Reasons that their own numbers contradict."""
    for name, pod in after.pods.items():
        found = _NOT_MULTIPLE.search(pod.message)
        if found and int(found[1]) % int(found[2]) == 0:
            expected = "another reason, as it is a multiple"
            yield Violation.of(TRUE_REASON, f"refusal of pod {name}", expected, found[0])
        found = _NOT_ENOUGH.search(pod.message)
        if found and int(found[1]) <= int(found[2]):
            expected = "another reason, as there are enough"
            yield Violation.of(TRUE_REASON, f"refusal of pod {name}", expected, found[0])


def _bounded(after: View, situation: Situation) -> Iterator[Violation]:
    """Judged only if the view has quotas."""
    for pod, containers in after.cfs.items():
        applied = situation.pods.get(pod)
        if applied is None or has_pod_level_resources(applied):
            continue
        for container, cfs in containers.items():
            if cfs.quota is not None and after.assignments.get(pod, {}).get(container):
                what = f"CFS quota of {pod}/{container}"
                yield Violation.of(NO_QUOTA, what, "none", f"{cfs.quota} of {cfs.period} us")


def _left_alone(before: View, after: View) -> Iterator[Violation]:
    """Judged only if the updates were counted in ``before`` too."""
    for pod, containers in after.asked.items():
        for container, asked in containers.items():
            earlier = before.asked.get(pod, {}).get(container)
            same = before.cpusets.get(pod, {}).get(container) == after.cpusets.get(pod, {}).get(
                container
            )
            if earlier is not None and same and asked.updates > earlier.updates:
                what = f"updates of {pod}/{container} in a round"
                yield Violation.of(LEFT_ALONE, what, "0", str(asked.updates - earlier.updates))


def _going_on(before: View, after: View, situation: Situation) -> Iterator[Violation]:
    for name in situation.pods:
        old, new = before.pods.get(name), after.pods.get(name)
        if old is None or old.phase is not Phase.RUNNING:
            continue
        if new is None or new.phase is not Phase.RUNNING:
            text = "not there" if new is None else f"{new.phase.value}: {new.reason}: {new.message}"
            yield Violation.of(GOES_ON, f"pod {name}", "running", text)


def _kept(before: View, after: View, situation: Situation) -> Iterator[Violation]:
    for name, containers in _held(before, situation).items():
        pod = after.pods.get(name)
        if name not in situation.pods or pod is None or pod.phase is not Phase.RUNNING:
            continue
        for container, held in containers.items():
            if container not in before.cpusets.get(name, {}):
                continue  # an init container that has ended
            seen = _held(after, situation).get(name, {}).get(container, CPUSet())
            if seen != held:
                yield Violation.of(KEEPS_CPUS, f"exclusive CPUs {name}/{container}", held, seen)


def _held(view: View, situation: Situation) -> Mapping[str, Mapping[str, CPUSet]]:
    """The exclusive CPUs by pod and container. For 1.8, which has no state file: the cpusets of
    running containers that have as many CPUs as the container requests."""
    if has(situation.release, Behaviour.STATE_FILE):
        return view.assignments
    sizes = {
        (name, one.name): exclusive_cpus(pod, one)
        for name, pod in situation.pods.items()
        for one in pod.containers
    }
    return {
        name: {
            one: cpus
            for one, cpus in containers.items()
            if cpus and len(cpus) == sizes.get((name, one))
        }
        for name, containers in view.cpusets.items()
    }


def _booked(after: View, situation: Situation) -> Iterator[Violation]:
    for name, containers in after.assignments.items():
        applied = situation.pods.get(name)
        if applied is None or has_pod_level_resources(applied):
            continue
        mask = 0
        for cpus in containers.values():
            mask |= cpus.mask
        asked = exclusive_total(applied, situation)
        if mask.bit_count() > asked:
            what, expected = f"exclusive CPUs of pod {name}", f"at most {asked} CPUs"
            seen = CPUSet.of_mask(mask)
            yield Violation.of(BOOKED_AS_ASKED, what, expected, f"{len(seen)} CPUs: {seen}")


def exclusive_total(applied: Pod, situation: Situation) -> int:
    """How many exclusive CPUs a pod may need at once: init containers run before the others."""
    pod = as_decoded(applied, situation.config.feature_gates, release=situation.release)
    return _exclusive_total(as_judged(pod, release=situation.release))


@lru_cache(maxsize=4096)
def _exclusive_total(judged: Pod) -> int:
    return total_request(judged, lambda one: exclusive_cpus(judged, one) if one.name else 0)


def _admission(
    before: View | None, pod: Pod, after: View, situation: Situation
) -> Iterator[Violation]:
    outcome = after.pods.get(pod.name)
    if outcome is None or before is None:
        return
    if outcome.phase is Phase.REJECTED and not _may_be_refused(before, pod, situation):
        seen = f"rejected: {outcome.reason}: {outcome.message}"
        yield Violation.of(ADMITTED, f"pod {pod.name}", "running", seen)
    taken = after.assignments.get(pod.name, {})
    if outcome.phase is not Phase.RUNNING or any(one.devices for one in pod.containers):
        return
    if len(pod.containers) == len(taken) == 1:
        (cpus,) = taken.values()
        yield from misplaced(cpus, _free(before, situation), situation)
    elif not has_pod_level_resources(pod):
        yield from split(taken.values(), situation)


def _free(before: View, situation: Situation) -> CPUSet:
    return before.shared_pool - (situation.reserved or CPUSet())


def _may_be_refused(before: View, pod: Pod, situation: Situation) -> bool:
    """Whether the kubelet may refuse the pod. Reasons are too few CPUs beside the requests of
    running pods; a request that is not whole physical cores, or too few free ones; a NUMA node that
    is too small. It is true, too, if the pod has settings that are not judged here."""
    if has_pod_level_resources(pod) or any(one.devices for one in pod.containers):
        return True
    running = [
        other
        for name, other in situation.pods.items()
        if name != pod.name and before.pods[name].phase is Phase.RUNNING
    ]
    reserved = reserved_milli_cpus(situation.config, release=situation.release)
    asked = sum(map(pod_milli_cpus, (*running, pod)))
    if asked > len(situation.cpus) * 1000 - reserved:
        return True
    options = situation.config.policy_options
    needed = exclusive_total(pod, situation)
    # Containers in the shared pool take no CPU from it; only whole CPUs are booked.
    booked = sum(exclusive_total(other, situation) for other in running)
    if needed > len(situation.cpus) + -reserved // 1000 - booked:
        return True
    free, topology = _free(before, situation), situation.topology
    if topology is None:
        return True
    if is_true(options.get(FULL_PCPUS, "")):
        return len(pod.containers) > 1 or _cores_may_refuse(free, needed, topology)
    if situation.config.topology_manager_policy in _REFUSES_NO_POD or not needed:
        return False
    several = sum(one.kind is not Kind.INIT for one in pod.containers) > 1
    masks = topology.numa_masks.values()
    return several or all((mask & free.mask).bit_count() < needed for mask in masks)


def _cores_may_refuse(free: CPUSet, needed: int, topology: CPUTopology) -> bool:
    """Whether full-pcpus-only may refuse so many CPUs; with several NUMA nodes one may be too
    small."""
    if not topology.even_cores or topology.num_numa_nodes > 1:
        return True
    if needed % max(topology.cpus_per_core, 1):
        return True
    whole = [mask for mask in topology.core_masks.values() if mask & ~free.mask == 0]
    return needed > sum(mask.bit_count() for mask in whole)


def _as_new(after: View) -> Iterator[Violation]:
    for name, containers in after.assignments.items():
        for container, cpus in containers.items():
            what = f"exclusive CPUs {name}/{container}, which is deleted"
            yield Violation.of(AS_NEW, what, CPUSet(), cpus)
