"""The Topology Manager: on which NUMA nodes a pod's containers get their CPUs, if anywhere.

What belongs here: its settings and the texts with which the kubelet refuses them, its policies and
scopes, and which pods it admits. What never does: hints (``cpumanager``), how they are merged
(``policy``), or the CPUs themselves (``cpumanager``).

At admission it asks for the hints of each container, or under scope ``pod`` of the whole pod,
makes one of them, refuses the pod if its policy says so, and has every provider allocate with the
nodes chosen. A manager that hands out a resource is a *hint provider*: the CPU manager, and the
device manager for each of its resources. A provider without a preference does not count.
Source: ``pkg/kubelet/cm/topologymanager``, ``pkg/kubelet/apis/config/validation``, 1.16 to 1.37.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from reference.behaviours import Behaviour
from reference.errors import (
    ConfigurationError,
    InvalidConfiguration,
    NotModelled,
    TopologyAffinityError,
)
from reference.machine.machineinfo import MachineInfo
from reference.pods.pod import Container, Pod
from reference.pods.pod_level_resources import has_pod_level_resources, pod_managers_on
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig
from reference.topologymanager.hint import ANY, Hint
from reference.topologymanager.policy import Merger
from reference.topologymanager.policy_options import (
    TopologyOptions,
    require_topology_options_allowed,
)
from reference.topologymanager.validation import TopologyPolicy, faults_of_settings, gate_on

_POD_LEVEL_TEXTS: Final = {
    "pod": "Pod Scope pod with pod-level resources failed admission under pod-scope topology "
    "manager",
    "container": "Pod Scope pod with pod-level resources failed admission with a container-level "
    "topology manager",
}
#: The kubelet holds a set of NUMA nodes in 64 bits. With another id the set of all nodes is nil,
#: and the kubelet panics when it merges hints: at the first pod of any kind (1.36.4).
_NODE_IDS: Final = range(64)


class HintProvider(Protocol):
    """``HintProvider``: hands out one resource that the Topology Manager aligns."""

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        """For a container. ``None``: no preference; an empty list: impossible."""

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        """The same for a whole pod."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        """Hand out, first from ``hint``'s nodes (``None``: from any). Raises
        :class:`reference.errors.KubeletError`."""

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        """:meth:`allocate` for a whole pod with pod-level resources (1.36 and later)."""


class TopologyManager:
    """``manager`` (``NewManager``): the Topology Manager of a kubelet that starts on the machine
    ``info``. It remembers nothing.

    ``policy`` and ``scope`` are those in force: ``none`` where the release has none, or a feature
    gate turns it off. Raises :class:`ConfigurationError` with the kubelet's text; its subclass
    :class:`InvalidConfiguration` where the settings alone are refused.
    """

    def __init__(
        self, info: MachineInfo, config: KubeletConfig, *, release: AnyRelease = NEWEST
    ) -> None:
        faults = faults_of_settings(config, release=release)
        if faults:
            raise InvalidConfiguration(faults, wrapped=has(release, Behaviour.SETTINGS_LIST_VALUES))
        self._release = release
        self.policy = _policy(config, release)
        self.scope = _scope(config, release)
        self._merger = Merger(0, release=release)
        self._serves_whole_pods = pod_managers_on(config.feature_gates, release=release)
        if gate_on(config, release):
            options = self._options(config)
            distances = _distances(info) if options.prefer_closest else None
            self._require_few_nodes(info, options)
            if self.policy is TopologyPolicy.SINGLE_NUMA_NODE:
                distances = None  # one node is as close to itself as another
            if self.policy is not TopologyPolicy.NONE:
                self._merger = Merger(_every_node(info), distances, release)

    def _options(self, config: KubeletConfig) -> TopologyOptions:
        if not has(self._release, Behaviour.TOPOLOGY_OPTIONS):
            return TopologyOptions()
        require_topology_options_allowed(config, self._release)
        if self._spares_none(Behaviour.NONE_SKIPS_TOPOLOGY_OPTIONS):
            return TopologyOptions()
        return TopologyOptions.parse(
            config.topology_manager_policy_options, config.feature_gates, release=self._release
        )

    def _require_few_nodes(self, info: MachineInfo, options: TopologyOptions) -> None:
        if self._spares_none(Behaviour.NUMA_LIMIT_SPARES_NONE):
            return
        if len(_node_ids(info)) > options.max_numa_nodes:
            raise ConfigurationError(
                f"unsupported on machines with more than {options.max_numa_nodes} NUMA Nodes"
            )

    def _spares_none(self, behaviour: Behaviour) -> bool:
        return self.policy is TopologyPolicy.NONE and has(self._release, behaviour)

    def admit(self, pod: Pod, *providers: HintProvider) -> None:
        """``Admit`` of ``containerScope`` (``admitUsingContainerResources``) and of ``podScope``
        (``admitUsingPodResources``): have what the pod requests handed out by each of the
        ``providers`` in turn, to its init containers first (1.18 and later).

        Raises :class:`TopologyAffinityError`, and what a provider raises; what earlier
        containers of the pod got before stays with them.
        """
        if self.policy is TopologyPolicy.NONE or self.scope != "pod":
            for container in pod.containers:
                hint = self._container_affinity(pod, container, providers)
                for one in providers:
                    one.allocate(pod, container, hint)
            return
        whole = self._affinity(pod, [one.pod_hints(pod) for one in providers])
        if self._is_served_whole(pod):
            for one in providers:
                one.allocate_pod(pod, whole)
            return
        for container in pod.containers:
            for one in providers:
                one.allocate(pod, container, whole)

    def _is_served_whole(self, pod: Pod) -> bool:
        return self._serves_whole_pods and has_pod_level_resources(pod)

    def affinities(self, pod: Pod, *providers: HintProvider) -> dict[str, Hint | None]:
        """The nodes that each container gets its CPUs from, by its name (up to 1.17, where CPUs are
        handed out later, and the hints of a container ignore the others). Raises
        :class:`TopologyAffinityError`."""
        return {
            container.name: self._container_affinity(pod, container, providers)
            for container in pod.containers
        }

    def _container_affinity(
        self, pod: Pod, container: Container, providers: Sequence[HintProvider]
    ) -> Hint | None:
        if self.policy is TopologyPolicy.NONE:
            return None
        return self._affinity(pod, [one.hints(pod, container) for one in providers])

    def _affinity(self, pod: Pod, every: Sequence[list[Hint] | None]) -> Hint | None:
        """``calculateAffinity`` and ``canAdmitPodResult``: the nodes for the hints of every
        resource; ``None`` for any. Raises :class:`TopologyAffinityError`."""
        best = self.merged(every)
        if not best.preferred and self.policy is not TopologyPolicy.BEST_EFFORT:
            raise self.refusal(pod)
        return None if best.nodes is ANY else best

    def refusal(self, pod: Pod) -> TopologyAffinityError:
        """The refusal of a pod (``NewPodLevelTopologyAffinityError`` where it is served as a
        whole)."""
        if self._is_served_whole(pod):
            return TopologyAffinityError(_POD_LEVEL_TEXTS[self.scope])
        return affinity_error(self._release)

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        """``Merge``: the one hint that the policy makes of those of every resource
        (``filterProvidersHints``)."""
        given = [hints or [Hint(ANY, preferred=hints is None)] for hints in every]
        if self.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
            return self._merger.merge(given)
        best = self._merger.merge([list(filter(_is_single, hints)) for hints in given])
        nodes = self._merger.every
        if not has(self._release, Behaviour.SINGLE_NUMA_SPARES_THE_REST) and nodes.bit_count() > 1:
            return Hint(nodes, preferred=False)  # every pod has a resource without preference
        return Hint(ANY, best.preferred) if best.nodes == nodes else best


def _is_single(hint: Hint) -> bool:
    """``filterSingleNumaHints``."""
    return hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)


def _node_ids(info: MachineInfo) -> set[int]:
    """The NUMA nodes of the machine: up to 1.19.8 those that the kubelet read itself."""
    if info.own_nodes is not None:
        return {node_id for node_id, _ in info.own_nodes}
    return {node.node_id for node in info.nodes}


def _every_node(info: MachineInfo) -> int:
    """``DefaultAffinityMask``: a bit for each NUMA node."""
    ids = _node_ids(info)
    strange = [one for one in sorted(ids) if one not in _NODE_IDS]
    if strange:
        raise NotModelled(
            f"a Topology Manager policy with NUMA node {strange[0]}: the kubelet holds nodes "
            f"{_NODE_IDS[0]} to {_NODE_IDS[-1]}, and panics at its first pod"
        )
    return sum(1 << one for one in ids)


def _distances(info: MachineInfo) -> dict[int, tuple[int, ...]]:
    """``NUMADistances`` (``NewNUMAInfo``)."""
    if any(not node.distances for node in info.nodes):
        raise ConfigurationError(
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
        )
    return {node.node_id: node.distances for node in info.nodes}


def _policy(config: KubeletConfig, release: AnyRelease) -> TopologyPolicy:
    if not gate_on(config, release):
        return TopologyPolicy.NONE
    try:
        return TopologyPolicy(config.topology_manager_policy)
    except ValueError:
        raise ConfigurationError(f'unknown policy: "{config.topology_manager_policy}"') from None


def _scope(config: KubeletConfig, release: AnyRelease) -> str:
    if not has(release, Behaviour.TOPOLOGY_SCOPE):
        return "container"
    return config.topology_manager_scope


def affinity_error(release: AnyRelease) -> TopologyAffinityError:
    """``TopologyAffinityError``: the refusal of a pod whose CPUs cannot lie where they must, in the
    words of the release."""
    if has(release, Behaviour.TOPOLOGY_REFUSAL_ONE_WORD):
        return TopologyAffinityError("Resources cannot be allocated with Topology locality")
    return TopologyAffinityError(
        "Resources cannot be allocated with Topology Locality", reason="Topology Affinity Error"
    )
