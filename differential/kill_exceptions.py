"""What the kill matrix cannot show, and why: one reason for several names.

What belongs here: miniatures that no scenario catches, and scenarios that no miniature makes fail.
What never does: what some scenario catches (:func:`differential.kill_matrix.page` refuses it).
"""

from __future__ import annotations

from typing import Final

#: Names of miniatures by the reason why no scenario catches them.
_UNCAUGHT: Final = {
    "Only releases before 1.18 differ, and no scenario promises this of them.": """
        aarch64-ids-from-sysfs aarch64-ids-from-sysfs=off failed-containers-left-alone
        failed-containers-left-alone=off huge-pages-of-nodes huge-pages-of-nodes=off
        init-containers-decide-qos init-containers-decide-qos=off init-containers-reconciled
        init-containers-reconciled=off init-cpus-returned lost-cpus-taken-anew
        numa-limit-spares-none numa-nodes numa-nodes=off online-numa-nodes
        online-numa-nodes=off single-numa-spares-the-rest stale-containers-forgotten
        static-pods-aligned static-pods-aligned=off topology-manager topology-manager-on
        topology-refusal-one-word unknown-policy-refused unmet-containers-forgotten
    """,
    "The setting does not exist in this release, which ignores it.": """
        numa-distances policy-options reserved-cpu-list topology-options
    """,
    "Only the last patch releases of 1.25, 1.26 and 1.27 have the check. A scenario is about all "
    "patch releases of a minor.": "devices-checked-at-restart",
    "The nodes of the model have the CPU manager on in every release.": """
        cpu-manager-on cpu-manager-on=off
    """,
    "No scenario says how the release on the other side of the change answers at the pod-resources "
    "socket.": """
        allocatable-is-whole pod-resources-limited shared-pool-reported sidecars-reported
    """,
    "It is announced for 1.38. The code of a pre-release was compared with the model, and no "
    "scenario is about it yet.": """
        gauges-follow-the-state gauges-follow-the-state=off whole-uncores-first
        whole-uncores-first=off
    """,
    "In this release nothing depends on it.": "bad-state-panics cache-ids uncore-caches-known",
    "sysfs and /proc/cpuinfo give the same topology where each socket is one NUMA node. On the "
    "machine of this page with more NUMA nodes, chance decides which CPUs a kubelet of 1.18 "
    "gives.": "sysfs-topology",
    "1.8 has no state file.": "bad-state-forgotten state-file-created-empty",
    "1.8 panics there with the same text.": "gives-up-in-main=off",
    "Only early patch releases of the minor differ; scenarios judge by minors.": """
        hints-by-numa-alone sockets-counted-by-id
    """,
    "The suite skips a machine on which a kubelet of this release finds no CPU.": """
        discovery-under-none discovery-under-none=off no-cpu-is-available
        no-cpu-is-available=off s390x-topology
    """,
    "Both ways find the same CPUs online on every machine of the catalogue.": """
        online-by-system-list online-by-system-list=off
    """,
    "The model has no code of its own for it. It comes with keyed-by-pod or state-with-data.": """
        cpus-taken-at-admission cpus-taken-at-admission=off freed-when-stale
        freed-when-stale=off init-cpus-reused init-cpus-reused=off state-migrated
        state-migrated=off
    """,
    "The model has no code for it. The kubelet refuses such a list before the policy sees it.": """
        unknown-reserved-refused unknown-reserved-refused=off
    """,
    "A view shows a container after it has got its CPUs. It does not show how.": """
        created-with-cpuset created-with-cpuset=off
    """,
    "No step removes one container of a pod that keeps running.": "shared-cpus-stay-taken",
    "Without it the model does not know the scenarios' feature gates: the verdict is unknown.": """
        option-maturity=off options-ungated=off pod-level-managers=off
    """,
    "Its feature gate is off by default in this release, and no scenario turns the gate on.": """
        pod-level-managers pod-level-resources pod-level-resources-skipped
        pod-level-resources=off sidecars-keep-cpus
    """,
    "The fix is not released, and the model cannot say which CPUs it takes: the verdict is "
    "unknown.": "uncore-best-fit",
    "A kubelet that answers where its release hangs keeps the promise.": "distribution-ends",
    "Chance decides, and the scenarios allow both outcomes.": """
        refused-may-run-on refused-may-run-on=off
    """,
    "Only 1.19 and earlier ignore the period without the gate, and no scenario sets it there.": """
        cfs-period-gated
    """,
    "No scenario restarts a kubelet over a refused pod of an API server, or requests a device that "
    "is missing; histories that explore draws do.": """
        ended-pods-left-alone ended-pods-left-alone=off missing-devices-of-init-passed-over
        missing-devices-of-init-passed-over=off
    """,
    "No view can show it: nothing reads a state file with such a range.": "strict-ranges",
}
UNCAUGHT: Final = {why: tuple(names.split()) for why, names in _UNCAUGHT.items()}

_NODE: Final = "The model has no kernel, runtime or service manager. A made-up node that is wrong "

#: Scenarios by the reason why no miniature makes them fail.
NEVER_FAILED: Final[dict[str, tuple[str, ...]]] = {
    "A fork promises it, and a kubelet that lacks the behaviour breaks it: "
    "tests/conformance/test_labels.py.": (
        "labels/platform-pod-has-strictly-reserved-cpus",
        "labels/platform-pod-leaves-the-shared-pool",
        "labels/platform-pod-runs-on-reserved-cpus",
    ),
    f"{_NODE}fails it: tests/hil/test_wrong_nodes.py.": (
        "node/all-cpus-offline-lose-exclusivity",
        "node/cpu-upgrade-and-recovery",
        "node/daemon-reload-keeps-cpusets",
        "node/offline-cpu-and-recovery",
        "node/offline-cpu-comes-back-to-its-container",
        "node/policy-change-crash-loops",
        "node/restart-repairs-a-cpuset-changed-by-hand",
        "node/start-with-a-cpu-offline-is-refused",
        "node/tasks-run-where-they-are-pinned",
    ),
}
