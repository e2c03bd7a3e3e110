"""Kubelets that are right about each of two settings, and wrong where these meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from reference import NEWEST, CPUManager, CPUSet
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpumanager.policy_options import STRICT, StaticOptions
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State
from reference.errors import ConfigurationError, SMTAlignmentError
from reference.golang.strconv import parse_bool
from reference.machine.machineinfo import MachineInfo
from reference.releases import AnyRelease
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topologymanager.hint import Hint
from reference.topologymanager.policy import Merger
from reference.topologymanager.topology_manager import TopologyManager
from reference.topologymanager.validation import TopologyPolicy

_NO_OPTIONS: Final = StaticOptions()


def reserving_lists_strictly(config: KubeletConfig) -> KubeletConfig:
    """Keeps shared containers off CPUs that are reserved by list, and not off those by amount."""
    if config.reserved_system_cpus is not None:
        return config
    left = {name: value for name, value in config.policy_options.items() if name != STRICT}
    return replace(config, policy_options=left)


def rounding_each_reservation(config: KubeletConfig) -> KubeletConfig:
    """Rounds systemReserved and kubeReserved up by themselves, and adds them then."""
    if config.reserved_system_cpus is not None:
        return config
    try:
        whole = [
            -(-reserved_milli_cpus(one) // 1000)
            for one in (replace(config, kube_reserved=None), replace(config, system_reserved=None))
        ]
    except ConfigurationError:
        return config
    return replace(config, system_reserved=str(sum(whole)), kube_reserved=None)


def knowing_one_word_for_true(config: KubeletConfig) -> KubeletConfig:
    """Takes a policy option to be on where its value is "true", and off for any other boolean."""
    words = {
        name: "false" if parse_bool(value) and value != "true" else value
        for name, value in config.policy_options.items()
    }
    return replace(config, policy_options=words)


def knowing_one_word_for_false(config: KubeletConfig) -> KubeletConfig:
    """Takes a policy option to be off where its value is "false", and on for any other boolean."""
    words = {
        name: "true" if parse_bool(value) is False and value != "false" else value
        for name, value in config.policy_options.items()
    }
    return replace(config, policy_options=words)


class KeepsQuotasOfSidecars(CPUManager):
    """Gives every sidecar a CFS quota."""

    def isolates(self, pod: Pod, container: Container) -> bool:
        return container.kind is not Kind.SIDECAR and super().isolates(pod, container)


class PartsInTurn(StaticPolicy):
    """Goes through the containers of a pod with CPUs as a whole once, and gives one that shares
    whatever is left at its turn."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """An exclusive container after it takes CPUs that it has."""
        super().allocate_pod(state, pod, hint)
        counts, left = self.counts(pod), state.pod_entries.get(pod.uid, CPUSet())
        for container in pod.containers if left else ():
            if counts[container.name] and container.kind is not Kind.INIT:
                left -= state.get(pod.uid, container.name) or CPUSet()
            elif not counts[container.name]:
                state.set(pod.uid, container.name, left)


class ForgetsOptionsNearHints(StaticPolicy):
    """Takes the CPUs that a hint names without a look at its options."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """As if none was set; without a hint as it should."""
        options = self.options
        if hint is not None:
            strict = replace(_NO_OPTIONS, strict_reservation=options.strict_reservation)
            self.options = strict
        try:
            super().allocate(state, pod, container, hint)
        finally:
            self.options = options


class IgnoresPreferenceUnderBestEffort(TopologyManager):
    """Takes the fewest NUMA nodes under best-effort, whichever the providers prefer."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        if self.policy is not TopologyPolicy.BEST_EFFORT:
            return super().merged(every)
        plain = [hints and [Hint(one.nodes, preferred=False) for one in hints] for hints in every]
        return super().merged(plain)


class CountsLaterSidecars(StaticPolicy):
    """Under scope pod, counts an init container beside every sidecar of its pod."""

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        first = sorted(pod.containers, key=lambda one: one.kind is not Kind.SIDECAR)
        return super().total(replace(pod, containers=tuple(first)), counts)


class AlignsWithOneSocket(StaticPolicy):
    """Forgets align-by-socket for what needs more than one socket."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        options = self.options
        if self.count(pod, container) > self.topology.num_cpus // self.topology.num_sockets:
            self.options = replace(options, align_by_socket=False)
        try:
            return super().hints(state, pod, container)
        finally:
            self.options = options


class CountsLargestCores(StaticPolicy):
    """Under full-pcpus-only, takes every core to be as large as the largest one."""

    def require_whole_cores(self, state: State, count: int) -> None:
        size = max(mask.bit_count() for mask in self.topology.core_masks.values())
        if count % size:
            raise SMTAlignmentError(count, size)
        super().require_whole_cores(state, count)


class CountsDistancesOfNodesWithCPUs(TopologyManager):
    """Reads distances by a NUMA node's place among those that have CPUs."""

    def __init__(
        self, info: MachineInfo, config: KubeletConfig, *, release: AnyRelease = NEWEST
    ) -> None:
        super().__init__(info, config, release=release)
        distances = self._merger.distances
        if distances is None:
            return
        rows = [distances[one] for one in sorted(distances)]
        places = {
            one: place
            for place, one in enumerate(sorted(node.node_id for node in info.nodes if node.cores))
        }
        misread = {
            one: [rows[place][places.get(other, 0)] for other in range(len(rows))]
            for one, place in places.items()
        }
        self._merger = Merger(self._merger.every, misread, release)
