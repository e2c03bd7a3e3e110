"""Miniatures: the model, wrong in one way each. They test the suite: a scenario that no miniature
can make fail has never been seen to fail.

``miniature:NAME`` is one of :data:`MINIATURES`, or a named behaviour switched:
``miniature:true-sizes`` has a behaviour that its release has not, and
``miniature:ordered-allocation=off`` lacks one that its release has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Final

from conformance.discovered import info_of
from conformance.subject import SubjectUsageError
from conformance.subjects.miniatures import (
    devices,
    managers,
    meetings,
    memory,
    policies,
    repetition,
    settings,
)
from conformance.subjects.miniatures.switched import default_release, has_switched, switch
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUManager, CPUTopology, Node, NotModelled
from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import make_policy
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_static import StaticPolicy
from reference.devicemanager.manager import DeviceManager
from reference.kubelet.startup import PolicyFactory
from reference.memorymanager.policy_static import MemoryManager
from reference.releases import AnyRelease
from reference.steps import Configure, KubeletConfig, Reboot, RemoveState, Start, Step
from reference.topologymanager.topology_manager import TopologyManager


@dataclass(frozen=True, slots=True)
class Miniature:
    """A wrong policy, CPU manager, Topology Manager, device manager, memory manager, reading of the
    configuration (``settings``), maker of a policy (``making``), node (``node``) or release
    (``overrides``: behaviours that it has, or ``=off`` has not), and the scenario that is bound to
    catch it, on this machine and in this release; ``also`` are others that do. Of a behaviour that
    is switched no scenario is bound to."""

    policy: Callable[..., StaticPolicy] | None
    caught_by: str
    machine: str = "1s-1n-4c-smt2"
    also: tuple[str, ...] = ()
    manager: Callable[..., CPUManager] = CPUManager
    topology_manager: Callable[..., TopologyManager] = TopologyManager
    device_manager: Callable[..., DeviceManager] = DeviceManager
    memory_manager: Callable[..., MemoryManager] = MemoryManager
    settings: settings.Reading | None = None
    making: PolicyFactory = make_policy
    node: type[Reader] = field(default_factory=lambda: Reader)
    overrides: tuple[str, ...] = ()
    release: str = NEWEST

    @property
    def says(self) -> str:
        """What is wrong with it, in one sentence."""
        made: tuple[object, ...] = (self.policy, self.settings)
        if self.manager is not CPUManager:
            made += (self.manager,)
        if self.topology_manager is not TopologyManager:
            made += (self.topology_manager,)
        if self.device_manager is not DeviceManager:
            made += (self.device_manager,)
        if self.memory_manager is not MemoryManager:
            made += (self.memory_manager,)
        if self.making is not make_policy:
            made += (self.making,)
        if self.node is not Reader:
            made += (self.node,)
        lines = [" ".join((one.__doc__ or "").split("\n\n")[0].split()) for one in made if one]
        return " ".join([*lines, *(switch(one).says for one in self.overrides)])


class Reader(Node):
    """A node whose kubelet acts on another configuration than it is given."""

    reading: settings.Reading

    def do(self, step: Step) -> None:
        """Read each configuration that comes later, too."""
        super().do(Configure(self.reading(step.config)) if isinstance(step, Configure) else step)


class ForgetsAllocations(Reader):
    """At a start, admits pods with the size requested last, even if that resize was refused."""

    def do(self, step: Step) -> None:
        """It keeps no checkpoint of what it has allocated."""
        if isinstance(step, Start):
            self._manifests.update(self._in_cluster.wanted)
        super().do(step)


class ForgetsOverABoot(Reader):
    """Removes its state file when it starts for the first time after a boot of the machine."""

    _booted = False

    def do(self, step: Step) -> None:
        """It takes the containers of before for gone, and their CPUs for free."""
        if isinstance(step, Start) and self._booted:
            super().do(RemoveState())
        self._booted = isinstance(step, Reboot) or (self._booted and not isinstance(step, Start))
        super().do(step)


class FreesWhatStops(Reader):
    """Takes a pod for gone as soon as it is deleted, though its containers still run."""

    _active_while_stopping = staticmethod(lambda config: False)


class KeepsWhatStops(Reader):
    """Counts a static pod as active until its containers have ended."""

    _active_while_stopping = staticmethod(lambda config: True)


_TWO_NODES: Final = "2s-2n-16c-smt2"
_FOUR_NODES: Final = "2s-4n-64c-smt2"

MINIATURES: Final[dict[str, Miniature]] = {
    "splits-cores": Miniature(policies.SplitsCores, "packing/whole-core"),
    "forgets-to-give-back": Miniature(policies.ForgetsToGiveBack, "pool/deletion-returns-cpus"),
    "trusts-its-state": Miniature(
        policies.TrustsItsState,
        "machine/cpu-upgrade-incident",
        also=(
            "crash/half-taken-cpus-stop-the-kubelet",
            "crash/half-returned-cpus-stop-the-kubelet",
        ),
    ),
    "ignores-full-pcpus-only": Miniature(
        policies.IgnoresWholeCores, "options/full-pcpus-partial-core-is-rejected"
    ),
    "hangs-over-odd-requests": Miniature(
        policies.HangsOverOddRequests, "options/full-pcpus-partial-core-is-rejected"
    ),
    "ends-with-half-cores": Miniature(
        policies.EndsWithHalfCores, "options/numa-distribution-may-hang"
    ),
    "keeps-a-cpu-shared": Miniature(policies.KeepsACPUShared, "options/strict-empties-the-pool"),
    "ignores-the-hint": Miniature(
        policies.IgnoresTheHint,
        "topology/single-numa-node-keeps-together",
        machine=_TWO_NODES,
        also=("options/full-pcpus-splits-cores-of-its-hint",),
    ),
    "forgets-init-containers": Miniature(
        policies.ForgetsInitContainers,
        "topology/app-lies-with-its-init-container",
        machine=_TWO_NODES,
    ),
    "prefers-what-is-left": Miniature(
        policies.PrefersWhatIsLeft, "topology/restricted-refuses-scattered", machine=_TWO_NODES
    ),
    "forgets-who-holds": Miniature(
        policies.ForgetsWhoHolds, "topology/restart-keeps-full-pods", machine=_TWO_NODES
    ),
    "forgets-held-containers": Miniature(
        policies.ForgetsHeldContainers,
        "topology/restart-keeps-full-containers",
        machine=_TWO_NODES,
    ),
    "pins-pods-with-pod-level-resources": Miniature(
        policies.PinsPodsWithPodLevelResources,
        "pod-level/no-exclusive-cpus-by-default",
        machine=_TWO_NODES,
        also=("pod-level/restricted-admits-it-by-default",),
    ),
    "overlooks-empty-resources": Miniature(
        None,
        "pod-level/empty-resources-make-best-effort",
        overrides=("empty-pod-level-ignored",),
    ),
    "fills-no-requests-in": Miniature(
        None,
        "pod-level/limits-are-requests-too",
        machine=_TWO_NODES,
        overrides=("pod-level-requests-not-filled-in",),
    ),
    "reads-state-of-any-gate": Miniature(
        None,
        "pod-level/gate-off-refuses-the-state",
        machine=_TWO_NODES,
        overrides=("state-with-data",),
    ),
    "shares-exclusive-cpus": Miniature(
        policies.SharesExclusiveCPUs,
        "pod-level/pod-scope-shares-one-pool",
        machine=_TWO_NODES,
        also=("pod-level/init-containers-use-the-pool",),
    ),
    "keeps-the-pool": Miniature(
        policies.KeepsThePool, "pod-level/deletion-returns-the-pool", machine=_TWO_NODES
    ),
    "admits-empty-pools": Miniature(
        policies.AdmitsEmptyPools,
        "pod-level/empty-shared-pool-is-refused",
        machine=_TWO_NODES,
        also=(
            "pod-level/no-cpu-for-init-is-refused",
            "pod-level/restricted-names-pod-level-resources",
        ),
    ),
    "rounds-the-pod-up": Miniature(
        policies.RoundsThePodUp, "pod-level/odd-total-gets-nothing", machine=_TWO_NODES
    ),
    "keeps-its-pool": Miniature(
        None,
        "pod-level/restart-takes-another-pool",
        machine=_TWO_NODES,
        overrides=("pod-pool-kept",),
        also=("pod-level/restart-refuses-a-shared-pool",),
    ),
    "pools-under-any-scope": Miniature(
        policies.PoolsUnderAnyScope,
        "pod-level/container-scope-has-no-pool",
        machine=_TWO_NODES,
        also=(
            "pod-level/policy-none-has-no-pool",
            "pod-level/container-scope-leaves-the-first-container-shared",
        ),
    ),
    "splits-cores-of-pods": Miniature(
        policies.SplitsCoresOfPods, "pod-level/full-pcpus-applies-to-the-pod", machine=_TWO_NODES
    ),
    "makes-empty-resources-count": Miniature(
        None,
        "pod-level/empty-resources-are-ignored",
        overrides=("empty-pod-level-ignored=off",),
        release="1.37",
    ),
    "fills-requests-in": Miniature(
        None,
        "pod-level/limits-alone-are-burstable",
        machine=_TWO_NODES,
        overrides=("pod-level-requests-not-filled-in=off",),
        release="1.37",
    ),
    "refuses-state-of-another-gate": Miniature(
        None,
        "pod-level/gate-off-keeps-the-state",
        machine=_TWO_NODES,
        overrides=("state-with-data=off",),
        release="1.37",
    ),
    "forgets-baselines": Miniature(
        None,
        "state/first-cpus-are-remembered",
        also=("state/first-cpus-are-those-held-before",),
        manager=managers.ForgetsBaselines,
        release="1.37",
    ),
    "drops-pools-of-old-files": Miniature(
        None,
        "pod-level/version-3-file-is-read",
        machine=_TWO_NODES,
        manager=managers.DropsPoolsOfOldFiles,
        release="1.37",
    ),
    "tells-once": Miniature(
        None,
        "reconcile/every-round-repairs-a-changed-cpuset",
        overrides=("updated-on-change",),
        release="1.20",
    ),
    "gives-reserved-away": Miniature(
        policies.GivesReservedAway,
        "uneven/only-free-cpus-are-given",
        machine="1s-1n-4c-smt2-off7",
        release="1.20",
    ),
    "keeps-the-dead": Miniature(
        None, "restart/reboot-may-move-pods", manager=managers.KeepsTheDead, release="1.17"
    ),
    "lends-init-cpus": Miniature(
        None,
        "init/ended-container-is-given-cpus-again",
        overrides=("keyed-by-pod",),
        release="1.17",
    ),
    "mends-uneven-cores": Miniature(
        None,
        "uneven/reserved-cpu-is-given-away",
        machine="1s-1n-4c-smt2-off7",
        also=("uneven/busy-cpu-is-given-away",),
        overrides=("true-sizes",),
    ),
    "plain-words": Miniature(
        None,
        "pod-level/restricted-names-pod-level-resources",
        machine=_TWO_NODES,
        also=("pod-level/container-scope-refuses",),
        topology_manager=managers.PlainWords,
    ),
    # -- kubelets that start where they should refuse to ------------------------------------------
    "ignores-unknown-options": Miniature(
        None, "options/unknown-is-refused", settings=settings.ignoring_unknown_options
    ),
    "ignores-bad-option-values": Miniature(
        None, "options/bad-value-is-refused", settings=settings.ignoring_bad_values
    ),
    "ignores-bad-topology-values": Miniature(
        None,
        "topology/closest-takes-a-boolean",
        settings=settings.ignoring_bad_topology_values,
    ),
    "opens-option-gates": Miniature(
        None,
        "options/alpha-needs-its-gate",
        also=("options/beta-needs-its-gate",),
        settings=settings.opening_the_gates,
    ),
    "drops-options-under-none": Miniature(
        None,
        "options/none-policy-takes-no-options",
        settings=settings.dropping_options_under_none,
    ),
    "accepts-full-pcpus-with-cores": Miniature(
        None,
        "options/incompatible-pair-is-refused",
        settings=settings.accepting("full-pcpus-only", "distribute-cpus-across-cores"),
    ),
    "accepts-numa-with-cores": Miniature(
        None,
        "options/numa-and-cores-are-refused",
        settings=settings.accepting("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ),
    "accepts-uncore-with-cores": Miniature(
        None,
        "options/uncore-and-cores-are-refused",
        settings=settings.accepting(
            "prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"
        ),
    ),
    "accepts-uncore-with-numa": Miniature(
        None,
        "options/uncore-and-numa-are-refused",
        settings=settings.accepting(
            "prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"
        ),
    ),
    "ignores-align-by-socket": Miniature(
        None,
        "topology/align-by-socket-widens-restricted",
        machine="2s-4n-64c-smt2",
        also=(
            "topology/align-by-socket-excludes-single-numa-node",
            "options/align-by-socket-needs-large-sockets",
        ),
        settings=settings.ignoring_align_by_socket,
    ),
    "takes-unknown-policies-for-none": Miniature(
        None,
        "config/unknown-policy-is-refused",
        settings=settings.taking_unknown_policies_for_none,
    ),
    "ignores-topology-settings": Miniature(
        None,
        "topology/unknown-policy-is-refused",
        also=("topology/unknown-scope-is-refused",),
        settings=settings.passing_over_topology_settings,
    ),
    "ignores-topology-options": Miniature(
        None,
        "topology/unknown-option-is-refused",
        also=("topology/too-low-a-limit-is-refused",),
        settings=settings.passing_over_topology_options,
    ),
    "accepts-any-number-of-nodes": Miniature(
        None,
        "topology/nine-numa-nodes-are-refused",
        topology_manager=managers.AcceptsAnyNumberOfNodes,
    ),
    "starts-without-a-reservation": Miniature(
        None,
        "config/missing-reservation-is-refused",
        also=("config/zero-reservation-is-refused",),
        making=settings.without_reservation,
    ),
    "reserves-all-at-most": Miniature(
        None,
        "config/reservation-larger-than-the-machine-is-refused",
        making=settings.reserving_all_at_most,
    ),
    "believes-any-state-file": Miniature(
        None,
        "state/wrong-checksum-is-refused",
        also=("state/edited-is-refused", "state/truncated-is-refused", "state/empty-is-refused"),
        manager=managers.BelievesAnyFile,
    ),
    "forgets-over-a-boot": Miniature(
        None, "restart/reboot-keeps-cpus-above-free-ones", node=ForgetsOverABoot
    ),
    "frees-what-stops": Miniature(
        None,
        "stopping/keeps-its-cpus",
        also=("stopping/its-cpus-are-not-free", "stopping/shared-pod-stays-off-its-cpus"),
        node=FreesWhatStops,
    ),
    "keeps-what-stops": Miniature(
        None, "stopping/static-pods-cpus-are-given-away", node=KeepsWhatStops
    ),
    # -- kubelets that reserve other CPUs ---------------------------------------------------------
    "rounds-reservations-down": Miniature(
        None, "config/reserved-amounts-are-kept", settings=settings.rounding_reservations_down
    ),
    "ignores-kube-reserved": Miniature(
        None,
        "config/reserved-amounts-are-kept",
        also=("config/kube-reserved-counts",),
        settings=settings.ignoring_kube_reserved,
    ),
    "adds-list-and-amounts": Miniature(
        None, "config/list-wins-over-amounts", settings=settings.adding_list_and_amounts
    ),
    # -- kubelets that lose track of what they gave -----------------------------------------------
    "allocates-again": Miniature(
        None, "restart/keeps-assignments-beside-a-gap", manager=managers.AllocatesAgain
    ),
    "drops-init-entries": Miniature(
        None, "init/restart-keeps-init-entries", manager=managers.DropsInitEntries
    ),
    "lends-init-cpus-twice": Miniature(
        policies.LendsInitCPUsTwice, "init/app-containers-do-not-share-init-cpus"
    ),
    "lends-init-cpus-to-all": Miniature(
        policies.LendsInitCPUsToAll, "init/other-pods-stay-off-init-cpus"
    ),
    "erases-siblings": Miniature(policies.ErasesSiblings, "admission/several-containers"),
    # -- kubelets whose pool changes do not arrive ------------------------------------------------
    "never-updates": Miniature(None, "pool/shrinks-and-grows", manager=managers.NeverUpdates),
    "updates-what-shrinks": Miniature(
        None, "pool/shrinks-and-grows", manager=managers.UpdatesWhatShrinks
    ),
    "updates-the-first": Miniature(
        None, "pool/every-shared-container-follows", manager=managers.UpdatesTheFirst
    ),
    "updates-no-sidecars": Miniature(
        None, "init/sidecars-follow-the-pool", manager=managers.UpdatesNoSidecars
    ),
    # -- kubelets that take CPUs elsewhere --------------------------------------------------------
    "hints-before-taking": Miniature(
        None,
        "topology/hints-count-earlier-containers",
        machine=_TWO_NODES,
        topology_manager=managers.HintsBeforeTaking,
    ),
    "ignores-later-hints": Miniature(
        policies.IgnoresLaterHints, "topology/every-container-follows-its-hint", machine=_TWO_NODES
    ),
    "knows-two-nodes-at-most": Miniature(
        policies.KnowsTwoNodesAtMost,
        "topology/restricted-admits-three-numa-nodes",
        machine=_FOUR_NODES,
    ),
    "sums-without-init": Miniature(
        policies.SumsWithoutInit, "topology/pod-scope-counts-init-containers", machine=_TWO_NODES
    ),
    "sums-without-sidecars": Miniature(
        policies.SumsWithoutSidecars, "topology/pod-scope-counts-sidecars", machine=_TWO_NODES
    ),
    "adds-up-init": Miniature(
        policies.AddsUpInit,
        "topology/pod-scope-counts-the-largest-init-container",
        machine=_TWO_NODES,
    ),
    "deals-the-remainder-elsewhere": Miniature(
        policies.DealsTheRemainderElsewhere,
        "options/numa-distribution-of-a-remainder",
        machine=_FOUR_NODES,
        also=("options/numa-distribution-of-a-remaining-core",),
    ),
    "takes-the-last-of-equals": Miniature(
        policies.TakesTheLastOfEquals,
        "options/numa-distribution-keeps-the-first-of-equals",
        machine=_FOUR_NODES,
        release="1.37",
    ),
    "ignores-sockets-near-hints": Miniature(
        policies.IgnoresSocketsNearHints,
        "topology/align-by-socket-widens-the-hint",
        machine=_FOUR_NODES,
    ),
    "ignores-strict-reservation": Miniature(
        policies.IgnoresStrictReservation,
        "options/strict-keeps-shared-containers-off",
        also=("options/strict-refuses-an-older-file",),
    ),
    "accepts-any-reserved-cpus": Miniature(
        policies.AcceptsAnyReservedCPUs,
        "options/strict-switched-off-refuses-its-file",
        also=("options/strict-refuses-an-older-file",),
    ),
    # -- kubelets that are killed at a write of their state file ----------------------------------
    "loses-a-cpu-at-restarts": Miniature(
        None,
        "crash/before-a-pod-takes-cpus",
        also=(
            "crash/after-a-pod-is-entered",
            "crash/before-cpus-return",
            "crash/after-cpus-return",
            "crash/during-the-first-start",
        ),
        manager=managers.LosesACPUAtRestarts,
    ),
    "forgets-what-init-holds": Miniature(
        policies.ForgetsWhatInitHolds, "crash/between-init-and-app-container"
    ),
    "enters-before-taking": Miniature(
        policies.EntersBeforeTaking,
        "crash/no-version-shares-an-exclusive-cpu",
        also=("crash/half-taken-cpus-stop-the-kubelet",),
    ),
    # -- kubelets that are wrong about quotas, counters and the pod-resources socket ---------------
    "ignores-the-quota-period": Miniature(
        None,
        "quotas/custom-period-is-used",
        settings=settings.ignoring_the_quota_period,
    ),
    "lifts-quotas-of-pods": Miniature(
        None,
        "quotas/pod-scope-keeps-shared-quotas",
        machine=_TWO_NODES,
        also=(
            "quotas/container-scope-keeps-shared-quotas",
            "quotas/custom-period-spares-exclusive-cpus",
        ),
        manager=managers.LiftsQuotasOfPods,
    ),
    "keeps-quotas-of-pods": Miniature(
        None,
        "quotas/pod-scope-lifts-exclusive-quotas",
        machine=_TWO_NODES,
        also=("quotas/container-scope-lifts-exclusive-quotas",),
        manager=managers.KeepsQuotasOfPods,
    ),
    "returns-pools-early": Miniature(
        None,
        "pod-level/pool-outlives-one-container",
        machine=_TWO_NODES,
        manager=managers.ReturnsPoolsEarly,
    ),
    "counts-no-numa-node": Miniature(
        None,
        "metrics/numa-nodes-are-counted",
        machine=_TWO_NODES,
        also=(
            "metrics/pod-scope-is-counted",
            "metrics/container-scope-is-counted",
        ),
        manager=managers.CountsNoNUMANode,
        release="1.37",
    ),
    "lists-active-pods-alone": Miniature(
        None,
        "pod-resources/every-pod-is-listed-on-request",
        also=("pod-resources/ended-pods-are-listed-on-request",),
        settings=settings.listing_active_pods,
    ),
    "reports-the-shared-pool": Miniature(
        None,
        "pod-resources/container-scope-reports-own-cpus",
        machine=_TWO_NODES,
        also=("pod-resources/every-pod-is-listed-on-request",),
        overrides=("shared-pool-reported",),
        release="1.37",
    ),
    # -- kubelets of a cluster: resizes in place, ephemeral containers ----------------------------
    "forgets-allocations": Miniature(
        None,
        "resize/infeasible-over-a-restart",
        also=("resize/while-the-kubelet-is-down",),
        node=ForgetsAllocations,
    ),
    "resizes-any-pod": Miniature(
        None,
        "resize/exclusive-cpus-infeasible",
        also=("resize/fewer-cpus-infeasible", "resize/memory-infeasible-too"),
        overrides=("resize-refused=off",),
        release="1.32",
    ),
    "refuses-more-memory": Miniature(
        None,
        "resize/memory-of-exclusive-cpus",
        overrides=("resize-refused-for-cpu=off",),
        release="1.34",
    ),
    "leaves-resizes-alone": Miniature(
        None,
        "resize/restricted-defers-another-number",
        overrides=("resize-left-alone",),
    ),
    "admits-resizes-as-pods": Miniature(
        None,
        "resize/granted-then-rejected-at-a-start",
        overrides=("resize-left-alone=off",),
        release="1.37",
    ),
    "pins-whole-requests": Miniature(
        policies.PinsWholeRequests, "resize/shared-containers-stay-shared"
    ),
    "lends-to-ephemeral": Miniature(
        None,
        "ephemeral/beside-exclusive-cpus",
        also=("ephemeral/over-a-restart", "ephemeral/in-a-shared-pod"),
        manager=managers.LendsToEphemeral,
    ),
    "starts-ephemeral-anywhere": Miniature(
        None,
        "ephemeral/in-a-shared-pod",
        machine=_TWO_NODES,
        also=("ephemeral/beside-a-pod-pool",),
        manager=managers.StartsAnywhere,
    ),
    "visits-ephemeral": Miniature(
        None, "ephemeral/pool-changes-pass-it-by", manager=managers.VisitsEphemeral
    ),
    "pins-unequal-containers": Miniature(
        policies.PinsUnequalContainers,
        "pod-level/unequal-container-shares",
        machine=_TWO_NODES,
    ),
    "takes-pods-for-static": Miniature(
        None, "admission/out-of-cpu-is-named", settings=settings.taking_pods_for_static
    ),
    # -- kubelets that are wrong where two settings meet ------------------------------------------
    "reserves-lists-strictly": Miniature(
        None,
        "options/strict-keeps-off-reserved-amounts",
        settings=meetings.reserving_lists_strictly,
    ),
    "rounds-each-reservation": Miniature(
        None,
        "config/halves-reserve-one-cpu",
        also=("config/fractions-that-make-a-whole",),
        settings=meetings.rounding_each_reservation,
    ),
    "knows-one-word-for-true": Miniature(
        None,
        "options/other-words-for-true-switch-on",
        settings=meetings.knowing_one_word_for_true,
    ),
    "knows-one-word-for-false": Miniature(
        None,
        "options/other-words-for-false-switch-nothing-on",
        settings=meetings.knowing_one_word_for_false,
    ),
    "keeps-quotas-of-sidecars": Miniature(
        None,
        "quotas/sidecars-with-exclusive-cpus-have-none",
        manager=meetings.KeepsQuotasOfSidecars,
    ),
    "parts-in-turn": Miniature(
        meetings.PartsInTurn, "pod-level/shared-container-may-come-first", machine=_TWO_NODES
    ),
    "forgets-options-near-hints": Miniature(
        meetings.ForgetsOptionsNearHints,
        "options/numa-distribution-under-best-effort",
        machine="2s-2n-32c-smt2-l3x4",
        also=(
            "options/across-cores-keeps-to-a-numa-node",
            "options/uncore-cache-under-best-effort",
            "options/full-pcpus-under-best-effort",
        ),
    ),
    "ignores-preference-under-best-effort": Miniature(
        None,
        "topology/best-effort-aligns-by-socket",
        machine=_FOUR_NODES,
        topology_manager=meetings.IgnoresPreferenceUnderBestEffort,
    ),
    "prefers-unequal-hints": Miniature(
        None,
        "devices/restricted-refuses-devices-of-two-nodes",
        machine=_TWO_NODES,
        also=("memory/restricted-refuses-memory-of-two-nodes",),
        overrides=("unequal-hints-not-preferred=off",),
    ),
    "counts-largest-cores": Miniature(
        meetings.CountsLargestCores,
        "uneven/full-pcpus-gives-small-cores",
        machine="1s-1n-4c-smt2-off7",
        also=("uneven/full-pcpus-shares-large-cores",),
    ),
    "counts-distances-of-nodes-with-cpus": Miniature(
        None,
        "topology/closest-looks-past-a-node-without-cpus",
        machine=_FOUR_NODES,
        topology_manager=meetings.CountsDistancesOfNodesWithCPUs,
    ),
    # -- kubelets that are wrong about devices ----------------------------------------------------
    "aligns-shared-containers": Miniature(
        policies.AlignsSharedContainers,
        "devices/shared-container-uses-two-nodes",
        machine=_TWO_NODES,
    ),
    "gives-up-without-preference": Miniature(
        None,
        "devices/best-effort-fills-the-one-node-of-them",
        machine=_FOUR_NODES,
        topology_manager=managers.GivesUpWithoutPreference,
    ),
    "chooses-the-narrowest": Miniature(
        None,
        "devices/best-effort-fills-both-nodes-of-them",
        machine=_FOUR_NODES,
        also=(
            "devices/best-effort-keeps-to-the-first-nodes",
            "devices/best-effort-needs-two-nodes-of-them",
        ),
        topology_manager=managers.ChoosesTheNarrowest,
    ),
    "ignores-device-hints": Miniature(
        None,
        "devices/single-numa-node-follows-a-device",
        machine=_TWO_NODES,
        also=(
            "devices/restricted-follows-a-device",
            "devices/best-effort-follows-a-device",
            "devices/single-numa-node-refuses-without-room",
            "devices/restricted-refuses-without-room",
            "devices/two-far-apart-are-refused",
            "devices/deletion-returns-a-device",
            "devices/init-device-is-used-again",
        ),
        device_manager=devices.IgnoresDeviceHints,
    ),
    "asks-the-first-provider": Miniature(
        None,
        "devices/two-resources-agree",
        machine=_TWO_NODES,
        also=("devices/two-far-apart-are-refused", "devices/restricted-refuses-two-far-apart"),
        topology_manager=devices.AsksTheFirstProvider,
    ),
    "binds-by-every-device": Miniature(
        None,
        "devices/without-numa-nodes-do-not-bind",
        machine=_TWO_NODES,
        device_manager=devices.BindsByEveryDevice,
    ),
    "aligns-under-none": Miniature(
        None,
        "devices/none-does-not-align",
        machine=_TWO_NODES,
        topology_manager=devices.AlignsUnderNone,
    ),
    "admits-without-room": Miniature(
        None,
        "devices/single-numa-node-refuses-without-room",
        machine=_TWO_NODES,
        also=(
            "devices/restricted-refuses-without-room",
            "devices/two-far-apart-are-refused",
            "devices/restricted-refuses-two-far-apart",
        ),
        topology_manager=devices.AdmitsWithoutRoom,
    ),
    "refuses-without-room": Miniature(
        None,
        "devices/best-effort-runs-without-room",
        machine=_TWO_NODES,
        also=("devices/best-effort-runs-with-two-far-apart",),
        topology_manager=devices.RefusesWithoutRoom,
    ),
    "asks-for-the-first-container": Miniature(
        None,
        "devices/pod-scope-follows-any-container",
        machine=_TWO_NODES,
        device_manager=devices.AsksForTheFirstContainer,
    ),
    "binds-every-container": Miniature(
        None,
        "devices/container-scope-follows-its-own",
        machine=_TWO_NODES,
        device_manager=devices.BindsEveryContainer,
    ),
    "lends-no-init-devices": Miniature(
        None,
        "devices/init-device-is-used-again",
        machine=_TWO_NODES,
        device_manager=devices.LendsNoInitDevices,
    ),
    "gives-devices-twice": Miniature(
        None,
        "devices/more-than-free-are-refused",
        machine=_TWO_NODES,
        also=("devices/restart-keeps-the-device",),
        device_manager=devices.GivesDevicesTwice,
    ),
    "keeps-devices-of-the-dead": Miniature(
        None,
        "devices/deletion-returns-a-device",
        machine=_TWO_NODES,
        device_manager=devices.KeepsDevicesOfTheDead,
    ),
    "forgets-devices": Miniature(
        None,
        "devices/restart-keeps-the-device",
        machine=_TWO_NODES,
        also=("devices/list-has-devices-beside-cpus",),
        device_manager=devices.ForgetsDevices,
    ),
    "refuses-late-devices": Miniature(
        None,
        "devices/restart-keeps-cpus",
        machine=_TWO_NODES,
        device_manager=devices.RefusesLateDevices,
    ),
    "checks-late-devices": Miniature(
        None,
        "devices/late-plugin-after-a-reboot-is-not-checked",
        machine=_TWO_NODES,
        overrides=("devices-checked-at-restart",),
        release="1.22",
    ),
    "reports-free-devices-alone": Miniature(
        None,
        "devices/allocatable-are-reported",
        machine=_TWO_NODES,
        also=("devices/policy-none-reports-devices-alone",),
        device_manager=devices.ReportsFreeDevicesAlone,
    ),
    "refuses-many-resources": Miniature(
        None,
        "devices/four-resources-on-eight-nodes-may-hang",
        topology_manager=devices.RefusesManyResources,
    ),
    # -- kubelets that are wrong about memory -----------------------------------------------------
    "ignores-memory-hints": Miniature(
        None,
        "memory/single-numa-node-follows-memory",
        machine=_TWO_NODES,
        also=(
            "memory/restricted-follows-memory",
            "memory/best-effort-follows-memory",
            "memory/full-numa-node-is-passed-over",
            "memory/pod-scope-counts-every-container",
            "memory/device-elsewhere-is-refused",
            "memory/restart-keeps-cpus",
            "memory/single-numa-node-refuses-too-large",
        ),
        memory_manager=memory.IgnoresMemoryHints,
    ),
    "manages-memory-always": Miniature(
        None,
        "memory/policy-none-does-not-align",
        machine=_TWO_NODES,
        settings=memory.managing_memory_always,
    ),
    "counts-burstable-pods": Miniature(
        None,
        "memory/burstable-pods-do-not-count",
        machine=_TWO_NODES,
        memory_manager=memory.CountsBurstablePods,
    ),
    "never-refuses-memory": Miniature(
        None,
        "memory/more-than-all-is-refused",
        machine=_TWO_NODES,
        also=(
            "memory/lack-without-alignment-is-refused",
            "memory/restart-refuses-ended-init-container",
        ),
        memory_manager=memory.NeverRefusesMemory,
    ),
    "refuses-what-is-not-aligned": Miniature(
        None,
        "memory/best-effort-runs-too-large",
        machine=_TWO_NODES,
        topology_manager=devices.RefusesWithoutRoom,
    ),
    "counts-memory-of-the-first-container": Miniature(
        None,
        "memory/pod-scope-counts-every-container",
        machine=_TWO_NODES,
        memory_manager=memory.AsksForTheFirstContainer,
    ),
    "binds-memory-of-every-container": Miniature(
        None,
        "memory/container-scope-parts-containers",
        machine=_TWO_NODES,
        memory_manager=memory.BindsEveryContainer,
    ),
    "lends-no-init-memory": Miniature(
        None,
        "memory/init-memory-is-used-again",
        machine=_TWO_NODES,
        memory_manager=memory.LendsNoInitMemory,
    ),
    "keeps-memory-of-the-dead": Miniature(
        None,
        "memory/deletion-returns-memory",
        machine=_TWO_NODES,
        memory_manager=memory.KeepsMemoryOfTheDead,
    ),
    "forgets-memory": Miniature(
        None,
        "memory/restart-keeps-memory",
        machine=_TWO_NODES,
        memory_manager=memory.ForgetsMemory,
    ),
    "binds-no-memory": Miniature(
        None,
        "memory/runtime-is-asked-for-the-nodes",
        machine=_TWO_NODES,
        memory_manager=memory.BindsNoMemory,
    ),
    "keeps-ended-init-containers": Miniature(
        None,
        "memory/restart-refuses-ended-init-container",
        machine=_TWO_NODES,
        memory_manager=memory.KeepsEndedInitContainers,
    ),
    # -- kubelets that are wrong about many containers, alike names, and what happens again --------
    "starts-again-anywhere": Miniature(
        None,
        "containers/every-start-has-its-cpuset",
        manager=repetition.StartsAgainAnywhere,
    ),
    "judges-by-app-containers": Miniature(
        repetition.JudgesByAppContainers,
        "qos/init-container-without-limits-pins-no-container",
        also=("qos/sidecar-without-limits-pins-no-container",),
    ),
    "removes-by-container-name": Miniature(
        repetition.RemovesByContainerName, "admission/rejection-spares-equal-names"
    ),
    "cuts-container-names": Miniature(
        repetition.CutsContainerNames, "restart/alike-names-keep-apart"
    ),
    "cuts-uids": Miniature(None, "restart/alike-names-keep-apart", manager=repetition.CutsUids),
    "frees-by-pod-name": Miniature(
        None,
        "pool/new-uid-is-another-pod",
        manager=repetition.FreesByPodName,
        release="1.31",
    ),
    "updates-four-containers": Miniature(
        None, "pool/many-shared-containers-follow", manager=repetition.UpdatesFourContainers
    ),
    "updates-four-pods": Miniature(
        None, "pool/many-shared-containers-follow", manager=repetition.UpdatesFourPods
    ),
    "stops-at-the-ended": Miniature(
        None, "init/ended-init-container-stops-no-round", manager=repetition.StopsAtTheEnded
    ),
    "forgets-what-sidecars-reuse": Miniature(
        repetition.ForgetsWhatSidecarsReuse, "init/sidecar-keeps-what-init-lends"
    ),
    "frees-what-others-started": Miniature(
        None,
        "containers/killed-in-each-run-keeps-its-cpus",
        manager=repetition.FreesWhatOthersStarted,
    ),
}


class MiniatureSubject(ReferenceSubject):
    """The subject ``miniature:NAME``."""

    def of(self, release: str) -> ReferenceSubject:
        """The same of another release. Raises :class:`SubjectUsageError` where a behaviour that is
        switched is so in that release anyway."""
        return miniature(self.info.name.removeprefix("miniature:"), release=release)


def miniature(name: str, *, release: str | None = None) -> MiniatureSubject:
    """The subject ``miniature:NAME``, of its own release unless another is given; raises
    :class:`SubjectUsageError` for a name that is none, and for a behaviour that is switched where
    the release is so anyway."""
    found = MINIATURES.get(name) or _switched(name)
    if found is None:
        near = get_close_matches(name, [*MINIATURES, *(one.title for one in Behaviour)], n=1)
        known = f"did you mean {near[0]}?" if near else f"there are {', '.join(MINIATURES)}"
        raise SubjectUsageError(f"unknown miniature {name!r}: {known}")
    release = release or found.release
    if name not in MINIATURES:
        _require_difference(name, release, found.release)
    return MiniatureSubject(f"miniature:{name}", release=release, make=partial(_node, found))


def _require_difference(name: str, release: str, usual: str) -> None:
    if not usual:
        raise SubjectUsageError(f"miniature:{name}: every release is so")
    try:
        differs = has_switched(switch(name), release)
    except (NotModelled, ValueError) as error:
        raise SubjectUsageError(str(error)) from error
    if not differs:
        raise SubjectUsageError(
            f"miniature:{name}: release {release} is so anyway; {usual} is not, for one"
        )


def _switched(name: str) -> Miniature | None:
    """The miniature of a behaviour that is switched; ``None`` for what names none."""
    try:
        chosen = switch(name)
    except ValueError:
        return None
    return Miniature(None, "", overrides=(name,), release=default_release(chosen))


def _node(
    wrong: Miniature,
    trees: Callable[[str], Mapping[str, str]],
    machine: str,
    config: KubeletConfig,
    release: str,
) -> Node:
    def policy(topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease) -> Policy:
        right = wrong.making(topology, config, release=release)
        if wrong.policy is None or not isinstance(right, StaticPolicy):
            return right
        return wrong.policy(
            right.topology,
            right.reserved,
            release=release,
            options=right.options,
            pod_managers=right.pod_managers,
        )

    reading = wrong.settings or _as_given
    node = wrong.node(
        trees,
        machine,
        reading(config),
        release="+".join([release, *wrong.overrides]),
        policy_factory=policy,
        manager_factory=wrong.manager,
        topology_manager_factory=wrong.topology_manager,
        device_manager_factory=wrong.device_manager,
        memory_manager_factory=wrong.memory_manager,
        discovering=info_of,
    )
    node.reading = reading
    return node


def _as_given(config: KubeletConfig) -> KubeletConfig:
    return config
