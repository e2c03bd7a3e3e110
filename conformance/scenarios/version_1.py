"""State files of 1.17 or before that name containers which run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Capability, Needs
from conformance.scenarios.entering import row
from conformance.scenarios.sources import MIGRATED
from reference.cpumanager.state.checkpoint import Layout, encode
from reference.kubelet.runtime import container_id

_EDITS: Final = (Capability.RESTART, Capability.EDIT_STATE, Capability.CALLS)


def _promise_read(node: LockstepNode, gates: Mapping[str, bool]) -> None:
    """Two containers of one pod keep the CPUs that a file of version 1 has for them."""
    pod = guaranteed("a", 1, 1)
    node.boot_with(pod, config=replace(node.config, feature_gates=dict(gates)))
    held = dict(node.view.assignments["a"])
    entries = {container_id(pod.uid, name, 1): str(cpus) for name, cpus in held.items()}
    content = {"policyName": "static", "defaultCpuSet": str(node.view.shared_pool)}
    node.stop()
    node.write_state(encode(Layout.V1, {**content, "entries": entries}))
    node.start()
    node.promise_running("The kubelet starts")
    seen = dict(node.view.assignments.get("a", {}))
    node.promise_equal("Its containers keep their CPUs", "exclusive CPUs of a", held, seen)


row(
    "state/version-1-entries-are-read",
    "Containers keep the CPUs that a state file of 1.17 or before has for them up to 1.36",
    "The runtime says which container of which pod an id belongs to.",
    lambda node: _promise_read(node, {}),
    source=MIGRATED, since="1.20", until="1.36", needs=Needs(free=3), capabilities=_EDITS,
)  # fmt: skip
row(
    "pod-level/gate-on-reads-version-1-entries",
    "With feature gate PodLevelResourceManagers 1.36 reads a state file of 1.17 or before, too",
    "It is read as version 2, and version 2 as version 3.",
    lambda node: _promise_read(node, {"PodLevelResourceManagers": True}),
    source=MIGRATED, since="1.36", until="1.36", needs=Needs(free=3), capabilities=_EDITS,
)  # fmt: skip
