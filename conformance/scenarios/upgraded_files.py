"""State files that 1.36 left behind, and what 1.37 takes over of them."""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed
from conformance.scenario import Level, Needs, promised
from conformance.scenarios.abilities import EDITS
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of
from conformance.scenarios.sources import code
from reference import Checkpoint
from reference.behaviours import Behaviour

_MIGRATED: Final = code(
    "1.37.0",
    "pkg/kubelet/cm/cpumanager/state/state_checkpoint.go",
    "state files of versions 2 and 3 are migrated to version 4",
)


def _as_1_36_writes_it(node: LockstepNode) -> str:
    """The state file in the layout of 1.36."""
    gates, text = node.config.feature_gates, node.view.state_file or ""
    found = Checkpoint.loads(text, release=node.release, feature_gates=gates)
    return found.dumps(release="1.36", feature_gates=gates)


@promised(_MIGRATED, area="pod-level", since="1.37", needs=ROOM, capabilities=EDITS)
def version_3_file_is_read(node: LockstepNode) -> None:
    """From 1.37 on the kubelet starts on a state file in which 1.36 has entered CPUs of a whole
    pod.
    The pod has a CPU that none of its containers has, so that the file accounts for every CPU
    only with the entry of the pod. In 1.37 the kubelet then gives the pod other CPUs, and loses the
    first ones (issue 140989)."""
    pool = node.boot(managed(node)).shared_pool
    node.run(pod_of("a", 4, exclusive("main", 2), exclusive("other", 1)))
    given = pool - node.view.shared_pool
    node.promise_equal("The pod has four CPUs", "CPUs that left the pool", 4, len(given))
    node.kill()
    node.write_state(_as_1_36_writes_it(node))
    if not node.release_has(Behaviour.POD_POOL_KEPT):
        node.expect_lost(given)
    node.start()
    node.promise_running("The kubelet starts on the file")


@promised(
    _MIGRATED, area="state", level=Level.CORE, since="1.37", needs=Needs(free=4), capabilities=EDITS
)
def file_of_1_36_keeps_every_container(node: LockstepNode) -> None:
    """From 1.37 on the kubelet takes over the CPUs of each container from a state file of 1.36.
    One pod has two containers, another pod one."""
    node.boot_with(guaranteed("a", 1, 2), guaranteed("b", 1))
    held = {owner: node.taken(*owner) for owner in (("a", "c1"), ("a", "c2"), ("b", "c"))}
    node.kill()
    node.write_state(_as_1_36_writes_it(node))
    node.start()
    node.promise_running("The kubelet starts on the file")
    for (pod, container), cpus in held.items():
        node.promise_taken("Its CPUs are as before", pod, cpus, container)
