"""Where each of the kubelet's functions stands in ``reference/``: docs/tables/go-to-python.md.

    python -m differential.go_to_python > docs/tables/go-to-python.md

A counterpart names the function in its docstring, as ````takeFullCores````. Left out are functions
that decide nothing: getters, names, logs and metrics.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from differential import markdown
from differential.markdown import table

ROOT: Final = Path(__file__).parents[1] / "reference"
RELEASE: Final = "1.37"

#: The kubelet's files below ``pkg/kubelet/cm``, and for each the files that stand for it here with
#: the functions and types in them.
NAMES: Final[dict[str, dict[str, str]]] = {
    "cpumanager/cpu_assignment.go": {
        "cpumanager/cpu_assignment.py": """
            mean standardDeviation numaOrSocketsFirstFuncs numaFirst socketsFirst
            takeFullFirstLevel takeFullSecondLevel cpuAccumulator newCPUAccumulator
            isNUMANodeFree isSocketFree isUncoreCacheFree isCoreFree freeNUMANodes freeSockets
            freeUncoreCache freeCores freeCPUs sort sortAvailableNUMANodes sortAvailableSockets
            sortAvailableUncoreCaches sortAvailableCores sortCPUsPacked sortCPUsSpread
            sortAvailableCPUsPacked sortAvailableCPUsSpread take takeFullNUMANodes takeFullSockets
            takeFullUncore takePartialUncore takeUncoreCache takeFullCores takeRemainingCPUs
            rangeNUMANodesNeededToSatisfy needsAtLeast isSatisfied isFailed iterateCombinations
            takeByTopologyNUMAPacked takeByTopologyNUMADistributed
        """,
    },
    "cpumanager/policy_static.go": {
        "cpumanager/policy_static.py": """
            staticPolicy NewStaticPolicy Start validateState GetAllocatableCPUs GetAvailableCPUs
            updateCPUsToReuse Allocate allocateForAdd AllocatePod allocatePodForAdd
            enforceSMTAlignment getAssignedCPUsOfSiblings RemoveContainer allocateCPUs
            guaranteedCPUs podGuaranteedCPUs takeByTopology GetTopologyHints GetPodTopologyHints
            """,
        "cpumanager/topology_hints.py": """
            getTopologyHintsForAdd getPodTopologyHintsForAdd generateCPUTopologyHints
            isHintSocketAligned getAlignedCPUs
        """,
        "pods/pod_level_resources.py": "validatePodScopeResources",
        "pods/qos.py": "isIntegralCPUAmount",
    },
    "cpumanager/policy_none.go": {
        "cpumanager/policy_none.py": "nonePolicy NewNonePolicy Start",
    },
    "cpumanager/policy_options.go": {
        "cpumanager/policy_options.py": """
            CheckPolicyOptionAvailable NewStaticPolicyOptions ValidateStaticPolicyOptions
        """,
    },
    "cpumanager/cpu_manager.go": {
        "cpumanager/cpu_manager.py": """
            manager NewManager Start Allocate AllocatePod AddContainer RemoveContainer
            GetTopologyHints GetPodTopologyHints GetCPUAffinity removeStaleState reconcileState
        """,
    },
    "cpumanager/state/state_checkpoint.go": {
        "cpumanager/state/state_checkpoint.py": """
            restoreState storeState loadAndMigrateCheckpointV4 loadAndMigrateCheckpointV3
            loadCheckpointV2
        """,
    },
    "cpumanager/state/checkpoint.go": {
        "cpumanager/state/checkpoint.py": """
            newCPUManagerCheckpoint MarshalCheckpoint UnmarshalCheckpoint VerifyChecksum
        """,
    },
    "cpumanager/state/state_mem.go": {
        "cpumanager/state/state_mem.py": """
            stateMemory NewMemoryState GetCPUSet SetCPUSet SetDefaultCPUSet SetPodCPUSet Delete
            DeletePod ClearState
        """,
    },
    "cpumanager/topology/topology.go": {
        "machine/topology.py": """
            CPUTopology CPUsPerCore CPUsPerSocket CPUsPerUncore CPUsInNUMANodes CPUsInSockets
            CPUsInCores CPUsInUncoreCaches AreNUMANodesInSameSocket
        """,
        "machine/machineinfo.py": "Discover getUniqueCoreID getUncoreCacheID",
        "cpumanager/cpu_assignment.py": "CoresNeededInUncoreCache",
    },
    "devicemanager/manager.go": {
        "devicemanager/manager.py": """
            ManagerImpl UpdateAllocatedDevices GetAllocatableDevices getAvailableDevices Allocate
            AllocatePod devicesToAllocate filterByAffinity isDevicePluginResource
            genericDeviceUpdateCallback
        """,
    },
    "devicemanager/pod_devices.go": {
        "devicemanager/pod_devices.py": "podDevices containerDevices insert devices delete",
    },
    "devicemanager/topology_hints.go": {
        "devicemanager/manager.py": "GetTopologyHints GetPodTopologyHints getPodDeviceRequest",
        "devicemanager/topology_hints.py": """
            generateDeviceTopologyHints deviceHasTopologyAlignment deviceNUMANodes
        """,
    },
    "memorymanager/memory_manager.go": {
        "memorymanager/policy_static.py": "manager AddContainer removeStaleState",
    },
    "memorymanager/policy_static.go": {
        "memorymanager/policy_static.py": """
            staticPolicy Allocate AllocatePod GetTopologyHints GetPodTopologyHints calculateHints
            regenerateHints getDefaultHint extendTopologyManagerHint findBestHint
            isAffinityViolatingNUMAAllocations updatePodReusableMemory
            updateInitContainersMemoryBlocks getDefaultMachineState getPodRequestedResources
            getContainerRequestedResources validatePodScopeResources
        """,
        "memorymanager/state.py": """
            updateMachineState RemoveContainer releaseMemory areMachineStatesEqual
        """,
    },
    "memorymanager/state/state.go": {
        "memorymanager/state.py": """
            Block NUMANodeState MemoryTable GetMemoryBlocks SetMemoryBlocks SetPodMemoryBlocks
        """,
    },
    "topologymanager/topology_manager.go": {
        "topologymanager/topology_manager.py": "manager NewManager Admit TopologyAffinityError",
        "topologymanager/hint.py": "TopologyHint",
    },
    "topologymanager/policy.go": {
        "topologymanager/policy.py": """
            HintMerger NewHintMerger Merge compare mergePermutation narrowestHint
            maxOfMinAffinityCounts iterateAllProviderTopologyHints
        """,
        "topologymanager/topology_manager.py": "filterProvidersHints",
    },
    "topologymanager/policy_single_numa_node.go": {
        "topologymanager/topology_manager.py": "canAdmitPodResult filterSingleNumaHints Merge",
    },
    "topologymanager/policy_options.go": {
        "topologymanager/policy_options.py": "CheckPolicyOptionAvailable NewPolicyOptions",
    },
    "topologymanager/numa_info.go": {
        "topologymanager/policy.py": "Closest Narrowest CalculateAverageFor",
        "topologymanager/topology_manager.py": "NewNUMAInfo DefaultAffinityMask",
    },
    "topologymanager/scope_container.go": {
        "topologymanager/topology_manager.py": "containerScope calculateAffinity",
    },
    "topologymanager/scope_pod.go": {
        "topologymanager/topology_manager.py": """
            podScope admitUsingContainerResources admitUsingPodResources
        """,
    },
}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """The kubelet's file, its function, the file here and the names of the counterparts in it, one
    after the other; ``""`` where none names the function."""
    for go_file, files in NAMES.items():
        for python_file, names in files.items():
            documented = list(docstrings(ROOT / python_file))
            for name in names.split():
                found = [own for own, text in documented if f"``{name}``" in text]
                yield go_file, name, python_file, ", ".join(found)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """The classes, functions and methods of a file by their names, with their docstrings."""

    def walk(nodes: list[ast.stmt], around: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                name = f"{around}{node.name}"
                yield name, ast.get_docstring(node) or ""
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{name}.")

    yield from walk(ast.parse(path.read_text(encoding="utf-8")).body, "")


def page() -> str:
    parts: list[str | list[str]] = [
        "# From Go to Python",
        f"Where the functions of the kubelet's CPU manager and Topology Manager ({RELEASE}, below\n"
        "`pkg/kubelet/cm`) stand in `reference/`. `python -m differential.go_to_python` writes\n"
        "this page from the docstrings.",
    ]
    for go_file, group in groupby(rows(), key=lambda row: row[0]):
        shown = [
            (f"`{name}`", ", ".join(f"`{one}`" for one in found.split(", ")), python_file)
            for _, name, python_file, found in group
        ]
        parts += [f"## {go_file}", table(("Go", "Python", "in `reference/`"), shown)]
    return markdown.page(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
