"""State files whose checksum is right, or is left out: what the kubelet makes of their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import CONFIGURES, EDITS
from conformance.scenarios.outcomes import restart_with
from conformance.scenarios.pod_level_parts import of_managers
from reference import Checkpoint
from reference.behaviours import Behaviour
from reference.cpumanager.state.checkpoint import Layout, encode
from reference.pods.pod_level_resources import pod_managers_on

_MANAGERS: Final = {"PodLevelResourceManagers": True}


def _file(
    node: LockstepNode,
    *,
    policy: str = "static",
    default: str | None = None,
    entries: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """A state file with a right checksum, in the layout that the release writes under the node's
    feature gates; all CPUs are shared unless ``default`` says otherwise."""
    if node.release_has(Behaviour.STATE_WITH_DATA):
        layout = Layout.V4
    else:
        on = pod_managers_on(node.config.feature_gates, release=node.release)
        layout = Layout.V3 if on else Layout.V2
    content = {
        "policyName": policy,
        "defaultCpuSet": str(node.cpus) if default is None else default,
        "entries": entries or {},
        "podEntries": {},
        "baselines": {},
    }
    return encode(layout, content)


def _promise_refused(node: LockstepNode, text: str, *errors: str) -> None:
    """The kubelet, which does not run, does not start on this state file and leaves it as it is."""
    node.write_state(text)
    node.start()
    node.promise_refusal("could not restore state from checkpoint", *errors)
    node.promise_equal("The refused file is left alone", "state file", text, node.view.state_file)


def _promise_contents_checked(node: LockstepNode) -> None:
    _promise_refused(node, _file(node, default="0-x"), 'set "0-x"')
    bad = _file(node, entries={"pod": {"c": "1,y"}})
    _promise_refused(node, bad, 'could not parse cpuset "1,y" for container "c" in pod "pod"')
    differs = 'configured policy "static" differs from state checkpoint policy "none"'
    _promise_refused(node, _file(node, policy="none"), differs)
    node.write_state(_file(node))
    node.start()
    node.promise_running("It starts on a file without a fault")
    node.promise_pool("Its CPUs are shared", node.cpus)


@promised(sources.KEP, area="state", capabilities=EDITS)
def unreadable_cpus_are_refused(node: LockstepNode) -> None:
    """A state file with a list of CPUs that cannot be parsed keeps the kubelet from starting.
    Be it the list of the shared pool or that of a container. The checksum of the file is
    right."""
    node.boot()
    node.stop()
    _promise_contents_checked(node)


@promised(sources.CHANGING_POLICY, area="pod-level", since="1.36", capabilities=EDITS)
def state_file_is_checked(node: LockstepNode) -> None:
    """With feature gate PodLevelResourceManagers a bad state file keeps the kubelet from starting.
    A list of CPUs that cannot be parsed, another policy, and an edit without a matching
    checksum."""
    node.boot(replace(node.config, feature_gates=_MANAGERS))
    edited = (node.view.state_file or "").replace("static", "statik")
    node.stop()
    _promise_refused(node, edited, "checkpoint is corrupted")
    _promise_contents_checked(node)


@of_managers(needs=Needs(free=4), capabilities=CONFIGURES)
def gate_on_reads_an_older_file(node: LockstepNode) -> None:
    """Once feature gate PodLevelResourceManagers is switched on, containers keep their CPUs.
    The state file of before is read. Two pods have three containers, and the pool does not
    change by the restart."""
    node.boot_with(guaranteed("gone", 1), guaranteed("a", 1, 1), guaranteed("b", 1))
    node.delete("gone")
    held, pool = dict(node.view.assignments), node.view.shared_pool
    restart_with(node, replace(node.config, feature_gates=_MANAGERS))
    node.promise_running("The kubelet starts on its state file")
    seen = dict(node.view.assignments)
    node.promise_equal("Each container keeps its CPUs", "assignments", held, seen)
    node.promise_pool("The pool stays as it is", pool)
    node.delete("a", passing=True)
    node.promise_pool("A deleted pod's CPUs return", pool | held["a"]["c1"] | held["a"]["c2"])


@promised(sources.CHECKSUM, area="state", needs=Needs(free=2), capabilities=EDITS)
def file_without_checksum_is_read(node: LockstepNode) -> None:
    """A state file whose checksum is zero is read without a check of its checksum.
    As releases up to 1.11 wrote it, which had no checksum. The pod keeps its CPUs."""
    node.boot_with(guaranteed("a", 2))
    held, pool = node.taken("a"), node.view.shared_pool
    node.stop()
    text = node.view.state_file or ""
    found = Checkpoint.loads(text, release=node.release)
    entries = {
        uid: {name: str(cpus) for name, cpus in named.items()}
        for uid, named in found.entries.items()
    }
    content = {"policyName": "static", "defaultCpuSet": str(pool), "entries": entries}
    whole = encode(Layout.V2, content)
    node.write_state(whole[: whole.index('"checksum"')] + '"checksum":0}')
    node.start()
    node.promise_running("The kubelet starts")
    node.promise_taken("The pod keeps its CPUs", "a", held)
    node.promise_pool("The pool stays as it is", pool)
