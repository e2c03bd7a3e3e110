"""The miniatures: what is wrong with each, and the scenario that is bound to catch it."""

from __future__ import annotations

from typing import Final

from conformance.subjects.miniatures import (
    devices,
    managers,
    meetings,
    memory,
    nodes,
    policies,
    repetition,
    settings,
)
from conformance.subjects.miniatures.miniature import Miniature

_TWO_NODES: Final = "2s-2n-16c-smt2"
_FOUR_NODES: Final = "2s-4n-64c-smt2"
_UNEVEN: Final = "1s-1n-4c-smt2-off7"

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
        _TWO_NODES,
        also=("options/full-pcpus-splits-cores-of-its-hint",),
    ),
    "forgets-init-containers": Miniature(
        policies.ForgetsInitContainers, "topology/app-lies-with-its-init-container", _TWO_NODES
    ),
    "prefers-what-is-left": Miniature(
        policies.PrefersWhatIsLeft, "topology/restricted-refuses-scattered", _TWO_NODES
    ),
    "forgets-who-holds": Miniature(
        policies.ForgetsWhoHolds, "topology/restart-keeps-full-pods", _TWO_NODES
    ),
    "forgets-held-containers": Miniature(
        policies.ForgetsHeldContainers, "topology/restart-keeps-full-containers", _TWO_NODES
    ),
    "pins-pods-with-pod-level-resources": Miniature(
        policies.PinsPodsWithPodLevelResources,
        "pod-level/no-exclusive-cpus-by-default",
        _TWO_NODES,
        also=("pod-level/restricted-admits-it-by-default",),
    ),
    "overlooks-empty-resources": Miniature(
        "empty-pod-level-ignored", "pod-level/empty-resources-make-best-effort"
    ),
    "fills-no-requests-in": Miniature(
        "pod-level-requests-not-filled-in", "pod-level/limits-are-requests-too", _TWO_NODES
    ),
    "reads-state-of-any-gate": Miniature(
        "state-with-data", "pod-level/gate-off-refuses-the-state", _TWO_NODES
    ),
    "shares-exclusive-cpus": Miniature(
        policies.SharesExclusiveCPUs,
        "pod-level/pod-scope-shares-one-pool",
        _TWO_NODES,
        also=("pod-level/init-containers-use-the-pool",),
    ),
    "keeps-the-pool": Miniature(
        policies.KeepsThePool, "pod-level/deletion-returns-the-pool", _TWO_NODES
    ),
    "admits-empty-pools": Miniature(
        policies.AdmitsEmptyPools,
        "pod-level/empty-shared-pool-is-refused",
        _TWO_NODES,
        also=(
            "pod-level/no-cpu-for-init-is-refused",
            "pod-level/restricted-names-pod-level-resources",
        ),
    ),
    "rounds-the-pod-up": Miniature(
        policies.RoundsThePodUp, "pod-level/odd-total-gets-nothing", _TWO_NODES
    ),
    "keeps-its-pool": Miniature(
        "pod-pool-kept",
        "pod-level/restart-takes-another-pool",
        _TWO_NODES,
        also=("pod-level/restart-refuses-a-shared-pool",),
    ),
    "pools-under-any-scope": Miniature(
        policies.PoolsUnderAnyScope,
        "pod-level/container-scope-has-no-pool",
        _TWO_NODES,
        also=(
            "pod-level/policy-none-has-no-pool",
            "pod-level/container-scope-leaves-the-first-container-shared",
        ),
    ),
    "splits-cores-of-pods": Miniature(
        policies.SplitsCoresOfPods, "pod-level/full-pcpus-applies-to-the-pod", _TWO_NODES
    ),
    "makes-empty-resources-count": Miniature(
        "empty-pod-level-ignored=off", "pod-level/empty-resources-are-ignored", release="1.37"
    ),
    "fills-requests-in": Miniature(
        "pod-level-requests-not-filled-in=off",
        "pod-level/limits-alone-are-burstable",
        _TWO_NODES,
        release="1.37",
    ),
    "refuses-state-of-another-gate": Miniature(
        "state-with-data=off", "pod-level/gate-off-keeps-the-state", _TWO_NODES, release="1.37"
    ),
    "forgets-baselines": Miniature(
        managers.ForgetsBaselines,
        "state/first-cpus-are-remembered",
        also=("state/first-cpus-are-those-held-before",),
        release="1.37",
    ),
    "drops-pools-of-old-files": Miniature(
        managers.DropsPoolsOfOldFiles,
        "pod-level/version-3-file-is-read",
        _TWO_NODES,
        release="1.37",
    ),
    "tells-once": Miniature(
        "updated-on-change", "reconcile/every-round-repairs-a-changed-cpuset", release="1.20"
    ),
    "gives-reserved-away": Miniature(
        policies.GivesReservedAway, "uneven/only-free-cpus-are-given", _UNEVEN, release="1.20"
    ),
    "keeps-the-dead": Miniature(
        managers.KeepsTheDead, "restart/reboot-may-move-pods", release="1.17"
    ),
    "lends-init-cpus": Miniature(
        "keyed-by-pod", "init/ended-container-is-given-cpus-again", release="1.17"
    ),
    "mends-uneven-cores": Miniature(
        "true-sizes",
        "uneven/reserved-cpu-is-given-away",
        _UNEVEN,
        also=("uneven/busy-cpu-is-given-away",),
    ),
    "plain-words": Miniature(
        managers.PlainWords,
        "pod-level/restricted-names-pod-level-resources",
        _TWO_NODES,
        also=("pod-level/container-scope-refuses",),
    ),
    # -- kubelets that start where they should refuse to ------------------------------------------
    "ignores-unknown-options": Miniature(
        settings.ignoring_unknown_options, "options/unknown-is-refused"
    ),
    "ignores-bad-option-values": Miniature(
        settings.ignoring_bad_values, "options/bad-value-is-refused"
    ),
    "ignores-bad-topology-values": Miniature(
        settings.ignoring_bad_topology_values, "topology/closest-takes-a-boolean"
    ),
    "opens-option-gates": Miniature(
        settings.opening_the_gates,
        "options/alpha-needs-its-gate",
        also=("options/beta-needs-its-gate",),
    ),
    "drops-options-under-none": Miniature(
        settings.dropping_options_under_none, "options/none-policy-takes-no-options"
    ),
    "accepts-full-pcpus-with-cores": Miniature(
        settings.accepting("full-pcpus-only", "distribute-cpus-across-cores"),
        "options/incompatible-pair-is-refused",
    ),
    "accepts-numa-with-cores": Miniature(
        settings.accepting("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        "options/numa-and-cores-are-refused",
    ),
    "accepts-uncore-with-cores": Miniature(
        settings.accepting("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        "options/uncore-and-cores-are-refused",
    ),
    "accepts-uncore-with-numa": Miniature(
        settings.accepting("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
        "options/uncore-and-numa-are-refused",
    ),
    "ignores-align-by-socket": Miniature(
        settings.ignoring_align_by_socket,
        "topology/align-by-socket-widens-restricted",
        _FOUR_NODES,
        also=(
            "topology/align-by-socket-excludes-single-numa-node",
            "options/align-by-socket-needs-large-sockets",
        ),
    ),
    "takes-unknown-policies-for-none": Miniature(
        settings.taking_unknown_policies_for_none, "config/unknown-policy-is-refused"
    ),
    "ignores-topology-settings": Miniature(
        settings.passing_over_topology_settings,
        "topology/unknown-policy-is-refused",
        also=("topology/unknown-scope-is-refused",),
    ),
    "ignores-topology-options": Miniature(
        settings.passing_over_topology_options,
        "topology/unknown-option-is-refused",
        also=("topology/too-low-a-limit-is-refused",),
    ),
    "accepts-any-number-of-nodes": Miniature(
        managers.AcceptsAnyNumberOfNodes, "topology/nine-numa-nodes-are-refused"
    ),
    "starts-without-a-reservation": Miniature(
        (),
        "config/missing-reservation-is-refused",
        also=("config/zero-reservation-is-refused",),
        making=settings.without_reservation,
    ),
    "reserves-all-at-most": Miniature(
        (),
        "config/reservation-larger-than-the-machine-is-refused",
        making=settings.reserving_all_at_most,
    ),
    "believes-any-state-file": Miniature(
        managers.BelievesAnyFile,
        "state/wrong-checksum-is-refused",
        also=("state/edited-is-refused", "state/truncated-is-refused", "state/empty-is-refused"),
    ),
    "forgets-over-a-boot": Miniature(
        nodes.ForgetsOverABoot, "restart/reboot-keeps-cpus-above-free-ones"
    ),
    "frees-what-stops": Miniature(
        nodes.FreesWhatStops,
        "stopping/keeps-its-cpus",
        also=("stopping/its-cpus-are-not-free", "stopping/shared-pod-stays-off-its-cpus"),
    ),
    "keeps-what-stops": Miniature(nodes.KeepsWhatStops, "stopping/static-pods-cpus-are-given-away"),
    # -- kubelets that reserve other CPUs ---------------------------------------------------------
    "rounds-reservations-down": Miniature(
        settings.rounding_reservations_down, "config/reserved-amounts-are-kept"
    ),
    "ignores-kube-reserved": Miniature(
        settings.ignoring_kube_reserved,
        "config/reserved-amounts-are-kept",
        also=("config/kube-reserved-counts",),
    ),
    "adds-list-and-amounts": Miniature(
        settings.adding_list_and_amounts, "config/list-wins-over-amounts"
    ),
    # -- kubelets that lose track of what they gave -----------------------------------------------
    "allocates-again": Miniature(managers.AllocatesAgain, "restart/keeps-assignments-beside-a-gap"),
    "drops-init-entries": Miniature(managers.DropsInitEntries, "init/restart-keeps-init-entries"),
    "lends-init-cpus-twice": Miniature(
        policies.LendsInitCPUsTwice, "init/app-containers-do-not-share-init-cpus"
    ),
    "lends-init-cpus-to-all": Miniature(
        policies.LendsInitCPUsToAll, "init/other-pods-stay-off-init-cpus"
    ),
    "erases-siblings": Miniature(policies.ErasesSiblings, "admission/several-containers"),
    # -- kubelets whose pool changes do not arrive ------------------------------------------------
    "never-updates": Miniature(managers.NeverUpdates, "pool/shrinks-and-grows"),
    "updates-what-shrinks": Miniature(managers.UpdatesWhatShrinks, "pool/shrinks-and-grows"),
    "updates-the-first": Miniature(managers.UpdatesTheFirst, "pool/every-shared-container-follows"),
    "updates-no-sidecars": Miniature(managers.UpdatesNoSidecars, "init/sidecars-follow-the-pool"),
    # -- kubelets that take CPUs elsewhere --------------------------------------------------------
    "hints-before-taking": Miniature(
        managers.HintsBeforeTaking, "topology/hints-count-earlier-containers", _TWO_NODES
    ),
    "ignores-later-hints": Miniature(
        policies.IgnoresLaterHints, "topology/every-container-follows-its-hint", _TWO_NODES
    ),
    "knows-two-nodes-at-most": Miniature(
        policies.KnowsTwoNodesAtMost, "topology/restricted-admits-three-numa-nodes", _FOUR_NODES
    ),
    "sums-without-init": Miniature(
        policies.SumsWithoutInit, "topology/pod-scope-counts-init-containers", _TWO_NODES
    ),
    "sums-without-sidecars": Miniature(
        policies.SumsWithoutSidecars, "topology/pod-scope-counts-sidecars", _TWO_NODES
    ),
    "adds-up-init": Miniature(
        policies.AddsUpInit, "topology/pod-scope-counts-the-largest-init-container", _TWO_NODES
    ),
    "deals-the-remainder-elsewhere": Miniature(
        policies.DealsTheRemainderElsewhere,
        "options/numa-distribution-of-a-remainder",
        _FOUR_NODES,
        also=("options/numa-distribution-of-a-remaining-core",),
    ),
    "takes-the-last-of-equals": Miniature(
        policies.TakesTheLastOfEquals,
        "options/numa-distribution-keeps-the-first-of-equals",
        _FOUR_NODES,
        release="1.37",
    ),
    "ignores-sockets-near-hints": Miniature(
        policies.IgnoresSocketsNearHints, "topology/align-by-socket-widens-the-hint", _FOUR_NODES
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
        managers.LosesACPUAtRestarts,
        "crash/before-a-pod-takes-cpus",
        also=(
            "crash/after-a-pod-is-entered",
            "crash/before-cpus-return",
            "crash/after-cpus-return",
            "crash/during-the-first-start",
        ),
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
        settings.ignoring_the_quota_period, "quotas/custom-period-is-used"
    ),
    "lifts-quotas-of-pods": Miniature(
        managers.LiftsQuotasOfPods,
        "quotas/pod-scope-keeps-shared-quotas",
        _TWO_NODES,
        also=(
            "quotas/container-scope-keeps-shared-quotas",
            "quotas/custom-period-spares-exclusive-cpus",
        ),
    ),
    "keeps-quotas-of-pods": Miniature(
        managers.KeepsQuotasOfPods,
        "quotas/pod-scope-lifts-exclusive-quotas",
        _TWO_NODES,
        also=("quotas/container-scope-lifts-exclusive-quotas",),
    ),
    "returns-pools-early": Miniature(
        managers.ReturnsPoolsEarly, "pod-level/pool-outlives-one-container", _TWO_NODES
    ),
    "counts-no-numa-node": Miniature(
        managers.CountsNoNUMANode,
        "metrics/numa-nodes-are-counted",
        _TWO_NODES,
        also=("metrics/pod-scope-is-counted", "metrics/container-scope-is-counted"),
        release="1.37",
    ),
    "lists-active-pods-alone": Miniature(
        settings.listing_active_pods,
        "pod-resources/every-pod-is-listed-on-request",
        also=("pod-resources/ended-pods-are-listed-on-request",),
    ),
    "reports-the-shared-pool": Miniature(
        "shared-pool-reported",
        "pod-resources/container-scope-reports-own-cpus",
        _TWO_NODES,
        also=("pod-resources/every-pod-is-listed-on-request",),
        release="1.37",
    ),
    # -- kubelets of a cluster: resizes in place, ephemeral containers ----------------------------
    "forgets-allocations": Miniature(
        nodes.ForgetsAllocations,
        "resize/infeasible-over-a-restart",
        also=("resize/while-the-kubelet-is-down",),
    ),
    "resizes-any-pod": Miniature(
        "resize-refused=off",
        "resize/exclusive-cpus-infeasible",
        also=("resize/fewer-cpus-infeasible", "resize/memory-infeasible-too"),
        release="1.32",
    ),
    "refuses-more-memory": Miniature(
        "resize-refused-for-cpu=off", "resize/memory-of-exclusive-cpus", release="1.34"
    ),
    "leaves-resizes-alone": Miniature(
        "resize-left-alone", "resize/restricted-defers-another-number"
    ),
    "admits-resizes-as-pods": Miniature(
        "resize-left-alone=off", "resize/granted-then-rejected-at-a-start", release="1.37"
    ),
    "pins-whole-requests": Miniature(
        policies.PinsWholeRequests, "resize/shared-containers-stay-shared"
    ),
    "lends-to-ephemeral": Miniature(
        managers.LendsToEphemeral,
        "ephemeral/beside-exclusive-cpus",
        also=("ephemeral/over-a-restart", "ephemeral/in-a-shared-pod"),
    ),
    "starts-ephemeral-anywhere": Miniature(
        managers.StartsAnywhere,
        "ephemeral/in-a-shared-pod",
        _TWO_NODES,
        also=("ephemeral/beside-a-pod-pool",),
    ),
    "visits-ephemeral": Miniature(managers.VisitsEphemeral, "ephemeral/pool-changes-pass-it-by"),
    "pins-unequal-containers": Miniature(
        policies.PinsUnequalContainers, "pod-level/unequal-container-shares", _TWO_NODES
    ),
    "takes-pods-for-static": Miniature(
        settings.taking_pods_for_static, "admission/out-of-cpu-is-named"
    ),
    # -- kubelets that are wrong where two settings meet ------------------------------------------
    "reserves-lists-strictly": Miniature(
        meetings.reserving_lists_strictly, "options/strict-keeps-off-reserved-amounts"
    ),
    "rounds-each-reservation": Miniature(
        meetings.rounding_each_reservation,
        "config/halves-reserve-one-cpu",
        also=("config/fractions-that-make-a-whole",),
    ),
    "knows-one-word-for-true": Miniature(
        meetings.knowing_one_word_for_true, "options/other-words-for-true-switch-on"
    ),
    "knows-one-word-for-false": Miniature(
        meetings.knowing_one_word_for_false, "options/other-words-for-false-switch-nothing-on"
    ),
    "keeps-quotas-of-sidecars": Miniature(
        meetings.KeepsQuotasOfSidecars, "quotas/sidecars-with-exclusive-cpus-have-none"
    ),
    "parts-in-turn": Miniature(
        meetings.PartsInTurn, "pod-level/shared-container-may-come-first", _TWO_NODES
    ),
    "forgets-options-near-hints": Miniature(
        meetings.ForgetsOptionsNearHints,
        "options/numa-distribution-under-best-effort",
        "2s-2n-32c-smt2-l3x4",
        also=(
            "options/across-cores-keeps-to-a-numa-node",
            "options/uncore-cache-under-best-effort",
            "options/full-pcpus-under-best-effort",
        ),
    ),
    "ignores-preference-under-best-effort": Miniature(
        meetings.IgnoresPreferenceUnderBestEffort,
        "topology/best-effort-aligns-by-socket",
        _FOUR_NODES,
    ),
    "prefers-unequal-hints": Miniature(
        "unequal-hints-not-preferred=off",
        "devices/restricted-refuses-devices-of-two-nodes",
        _TWO_NODES,
        also=("memory/restricted-refuses-memory-of-two-nodes",),
    ),
    "counts-largest-cores": Miniature(
        meetings.CountsLargestCores,
        "uneven/full-pcpus-gives-small-cores",
        _UNEVEN,
        also=("uneven/full-pcpus-shares-large-cores",),
    ),
    "counts-distances-of-nodes-with-cpus": Miniature(
        meetings.CountsDistancesOfNodesWithCPUs,
        "topology/closest-looks-past-a-node-without-cpus",
        _FOUR_NODES,
    ),
    # -- kubelets that are wrong about devices ----------------------------------------------------
    "aligns-shared-containers": Miniature(
        policies.AlignsSharedContainers, "devices/shared-container-uses-two-nodes", _TWO_NODES
    ),
    "gives-up-without-preference": Miniature(
        managers.GivesUpWithoutPreference,
        "devices/best-effort-fills-the-one-node-of-them",
        _FOUR_NODES,
    ),
    "chooses-the-narrowest": Miniature(
        managers.ChoosesTheNarrowest,
        "devices/best-effort-fills-both-nodes-of-them",
        _FOUR_NODES,
        also=(
            "devices/best-effort-keeps-to-the-first-nodes",
            "devices/best-effort-needs-two-nodes-of-them",
        ),
    ),
    "ignores-device-hints": Miniature(
        devices.IgnoresDeviceHints,
        "devices/single-numa-node-follows-a-device",
        _TWO_NODES,
        also=(
            "devices/restricted-follows-a-device",
            "devices/best-effort-follows-a-device",
            "devices/single-numa-node-refuses-without-room",
            "devices/restricted-refuses-without-room",
            "devices/two-far-apart-are-refused",
            "devices/deletion-returns-a-device",
            "devices/init-device-is-used-again",
        ),
    ),
    "asks-the-first-provider": Miniature(
        devices.AsksTheFirstProvider,
        "devices/two-resources-agree",
        _TWO_NODES,
        also=("devices/two-far-apart-are-refused", "devices/restricted-refuses-two-far-apart"),
    ),
    "binds-by-every-device": Miniature(
        devices.BindsByEveryDevice, "devices/without-numa-nodes-do-not-bind", _TWO_NODES
    ),
    "aligns-under-none": Miniature(
        devices.AlignsUnderNone, "devices/none-does-not-align", _TWO_NODES
    ),
    "admits-without-room": Miniature(
        devices.AdmitsWithoutRoom,
        "devices/single-numa-node-refuses-without-room",
        _TWO_NODES,
        also=(
            "devices/restricted-refuses-without-room",
            "devices/two-far-apart-are-refused",
            "devices/restricted-refuses-two-far-apart",
        ),
    ),
    "refuses-without-room": Miniature(
        devices.RefusesWithoutRoom,
        "devices/best-effort-runs-without-room",
        _TWO_NODES,
        also=("devices/best-effort-runs-with-two-far-apart",),
    ),
    "asks-for-the-first-container": Miniature(
        devices.AsksForTheFirstContainer, "devices/pod-scope-follows-any-container", _TWO_NODES
    ),
    "binds-every-container": Miniature(
        devices.BindsEveryContainer, "devices/container-scope-follows-its-own", _TWO_NODES
    ),
    "lends-no-init-devices": Miniature(
        devices.LendsNoInitDevices, "devices/init-device-is-used-again", _TWO_NODES
    ),
    "gives-devices-twice": Miniature(
        devices.GivesDevicesTwice,
        "devices/more-than-free-are-refused",
        _TWO_NODES,
        also=("devices/restart-keeps-the-device",),
    ),
    "keeps-devices-of-the-dead": Miniature(
        devices.KeepsDevicesOfTheDead, "devices/deletion-returns-a-device", _TWO_NODES
    ),
    "forgets-devices": Miniature(
        devices.ForgetsDevices,
        "devices/restart-keeps-the-device",
        _TWO_NODES,
        also=("devices/list-has-devices-beside-cpus",),
    ),
    "refuses-late-devices": Miniature(
        devices.RefusesLateDevices, "devices/restart-keeps-cpus", _TWO_NODES
    ),
    "checks-late-devices": Miniature(
        "devices-checked-at-restart",
        "devices/late-plugin-after-a-reboot-is-not-checked",
        _TWO_NODES,
        release="1.22",
    ),
    "reports-free-devices-alone": Miniature(
        devices.ReportsFreeDevicesAlone,
        "devices/allocatable-are-reported",
        _TWO_NODES,
        also=("devices/policy-none-reports-devices-alone",),
    ),
    "refuses-many-resources": Miniature(
        devices.RefusesManyResources, "devices/four-resources-on-eight-nodes-may-hang"
    ),
    # -- kubelets that are wrong about memory -----------------------------------------------------
    "ignores-memory-hints": Miniature(
        memory.IgnoresMemoryHints,
        "memory/single-numa-node-follows-memory",
        _TWO_NODES,
        also=(
            "memory/restricted-follows-memory",
            "memory/best-effort-follows-memory",
            "memory/full-numa-node-is-passed-over",
            "memory/pod-scope-counts-every-container",
            "memory/device-elsewhere-is-refused",
            "memory/restart-keeps-cpus",
            "memory/single-numa-node-refuses-too-large",
        ),
    ),
    "manages-memory-always": Miniature(
        memory.managing_memory_always, "memory/policy-none-does-not-align", _TWO_NODES
    ),
    "counts-burstable-pods": Miniature(
        memory.CountsBurstablePods, "memory/burstable-pods-do-not-count", _TWO_NODES
    ),
    "never-refuses-memory": Miniature(
        memory.NeverRefusesMemory,
        "memory/more-than-all-is-refused",
        _TWO_NODES,
        also=(
            "memory/lack-without-alignment-is-refused",
            "memory/restart-refuses-ended-init-container",
        ),
    ),
    "refuses-what-is-not-aligned": Miniature(
        devices.RefusesWithoutRoom, "memory/best-effort-runs-too-large", _TWO_NODES
    ),
    "counts-memory-of-the-first-container": Miniature(
        memory.AsksForTheFirstContainer, "memory/pod-scope-counts-every-container", _TWO_NODES
    ),
    "binds-memory-of-every-container": Miniature(
        memory.BindsEveryContainer, "memory/container-scope-parts-containers", _TWO_NODES
    ),
    "lends-no-init-memory": Miniature(
        memory.LendsNoInitMemory, "memory/init-memory-is-used-again", _TWO_NODES
    ),
    "keeps-memory-of-the-dead": Miniature(
        memory.KeepsMemoryOfTheDead, "memory/deletion-returns-memory", _TWO_NODES
    ),
    "forgets-memory": Miniature(memory.ForgetsMemory, "memory/restart-keeps-memory", _TWO_NODES),
    "reads-memory-of-any-gate": Miniature(
        "memory-file-of-any-gate", "memory/gate-off-refuses-the-file", _TWO_NODES
    ),
    "refuses-memory-of-another-gate": Miniature(
        "memory-file-of-any-gate=off", "memory/gate-off-keeps-the-file", _TWO_NODES, release="1.37"
    ),
    "binds-no-memory": Miniature(
        memory.BindsNoMemory, "memory/runtime-is-asked-for-the-nodes", _TWO_NODES
    ),
    "keeps-ended-init-containers": Miniature(
        memory.KeepsEndedInitContainers, "memory/restart-refuses-ended-init-container", _TWO_NODES
    ),
    # -- kubelets that are wrong about many containers, alike names, and what happens again --------
    "starts-again-anywhere": Miniature(
        repetition.StartsAgainAnywhere, "containers/every-start-has-its-cpuset"
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
    "cuts-uids": Miniature(repetition.CutsUids, "restart/alike-names-keep-apart"),
    "frees-by-pod-name": Miniature(
        repetition.FreesByPodName, "pool/new-uid-is-another-pod", release="1.31"
    ),
    "updates-four-containers": Miniature(
        repetition.UpdatesFourContainers, "pool/many-shared-containers-follow"
    ),
    "updates-four-pods": Miniature(
        repetition.UpdatesFourPods, "pool/many-shared-containers-follow"
    ),
    "stops-at-the-ended": Miniature(
        repetition.StopsAtTheEnded, "init/ended-init-container-stops-no-round"
    ),
    "forgets-what-sidecars-reuse": Miniature(
        repetition.ForgetsWhatSidecarsReuse, "init/sidecar-keeps-what-init-lends"
    ),
    "frees-what-others-started": Miniature(
        repetition.FreesWhatOthersStarted, "containers/killed-in-each-run-keeps-its-cpus"
    ),
}
