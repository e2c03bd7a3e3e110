"""What is done to the nodes of a fleet that is up: stop, start, upgrade.

What belongs here: both ends of it: what a command asks for, what the process of the fleet does, and
what is said of it. What never does: how one reaches the other (:mod:`pinproof.fleet_control`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.kept_files import FILES
from conformance.kubelets import builder
from conformance.kubelets.binary import version_of
from conformance.subject import SubjectLostError, SubjectUsageError
from conformance.subjects.kubelet.fleet import Fleet
from conformance.subjects.kubelet.fleet_node import FleetNode
from conformance.subjects.kubelet.fleet_pods import FleetPods
from conformance.subjects.kubelet.process import Binary
from conformance.subjects.kubelet.sandbox import STATE_DIR
from conformance.upgrading import Going
from pinproof.fleet_control import Say
from pinproof.fleet_folder import DEFAULT, FleetFolder
from topologies.errors import one_line

# -- by a command ------------------------------------------------------------------------------


def kubelet_of(target: str, say: Say) -> dict[str, str]:
    """The part of a request that names a kubelet: a release, which is built where it has not been
    yet, or ``kubelet:BINARY``. Raises :class:`SubjectUsageError` and
    :class:`~conformance.subject.SubjectSetupError`."""
    scheme, _, program = target.rpartition("kubelet:")
    if not scheme and program == target and not builder.is_release(target):
        raise SubjectUsageError(
            f"RELEASE {target!r}: it is a release such as 1.37, or kubelet:PATH"
        )
    return {"kubelet": str(builder.program_of(program, say).absolute())}


# -- by the process of the fleet ---------------------------------------------------------------


class Changes:
    """Carries out requests on the nodes of ``fleet``, and records the outcome in ``folder``."""

    def __init__(self, fleet: Fleet, folder: FleetFolder) -> None:
        self._fleet = fleet
        self._folder = folder

    def __call__(self, request: dict[str, Any], say: Say) -> dict[str, Any]:
        """See :data:`pinproof.fleet_control.Handler`."""
        node = self._fleet.node(request["node"])
        try:
            match request["do"]:
                case "stop":
                    node.stop(kill=bool(request["kill"]))
                    lines = [f"{node.name}: the kubelet is stopped; its containers go on"]
                case "start":
                    lines = self._start(node)
                case "upgrade":
                    lines = self._upgrade(node, Path(request["kubelet"]), Going(request["by"]), say)
                case other:
                    raise ValueError(other)
        finally:
            self._write_down(node)
        return {"lines": lines}

    def _start(self, node: FleetNode) -> list[str]:
        self._bring_up(node)
        return [f"{node.name}: the kubelet is up, and the node is Ready"]

    def _upgrade(self, node: FleetNode, program: Path, going: Going, say: Say) -> list[str]:
        version, text = version_of(program)
        pods = self._fleet.pods(node)
        had_kubelet, before = node.running, pods.cpus()
        alive = pods.alive()
        cordoned, lines = False, []
        if going is Going.DRAIN and had_kubelet:
            say(f"{node.name}: evicting its pods")
            cordoned = self._fleet.cordon(node)
            gone = len(pods.evict())
            evicted = "1 pod was" if gone == 1 else f"{gone} pods were"
            lines.append(f"{node.name}: {evicted} evicted")
            before, alive = {}, {}
        if had_kubelet:
            node.stop(kill=going is Going.KILL)
        if going is Going.REBOOT:
            node.boot()
        say(f"{node.name}: starting the kubelet {text}")
        node.replace(Binary(program, version.release))
        self._bring_up(node)
        if cordoned:
            self._fleet.uncordon(node)
        pods.await_known(set(before))
        lines.append(f"{node.name}: the kubelet {text} is up, and the node is Ready")
        return [*lines, *_of_pods(node, pods, before, alive)]

    def _bring_up(self, node: FleetNode) -> None:
        why = node.start()
        if why:
            text = f"{node.name}: the kubelet {node.release} does not start: {why}"
            raise SubjectLostError(f"{text}{self._help(node, why)}")
        self._fleet.await_up(node)

    def _help(self, node: FleetNode, why: str) -> str:
        """How to start a kubelet that refuses a file of the one before it; ``""`` for other
        reasons."""
        named = next((name for name in FILES if name in why), None)
        if named is None:
            return ""
        path = self._folder.node(node.name) / STATE_DIR.lstrip("/") / named
        name = "" if self._folder.name == DEFAULT else f" --name {self._folder.name}"
        return f"; to start it without that file: rm {path}; pinproof fleet start {node.name}{name}"

    def _write_down(self, node: FleetNode) -> None:
        record = self._folder.record()
        nodes = tuple(
            replace(known, release=node.release, stopped=node.stopped)
            if known.name == node.name
            else known
            for known in record.nodes
        )
        self._folder.write(replace(record, nodes=nodes))


def _of_pods(
    node: FleetNode, pods: FleetPods, before: dict[str, Any], alive: dict[str, str]
) -> list[str]:
    """Which containers hold other CPUs than before, which pods have ended, and how many containers
    keep their CPUs."""
    after, ended = pods.cpus(), pods.why_ended(alive)
    lines = [f"{name}: ended: {one_line(why)}" for name, why in sorted(ended.items())]
    lines += [
        f"{holder}: had the CPUs {held}, has {after.get(holder, 'none of its own')}"
        for holder, held in sorted(before.items())
        if after.get(holder) != held and holder.rpartition("/")[0] not in ended
    ]
    same = sum(after.get(holder) == held for holder, held in before.items())
    if same:
        kept = "1 container keeps" if same == 1 else f"{same} containers keep"
        lines.append(f"{node.name}: {kept} the exclusive CPUs from before")
    return lines
