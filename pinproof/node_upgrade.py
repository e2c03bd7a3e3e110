"""An upgrade of a real node's kubelet, the way back, and the upgrade once more, on the node itself.

What belongs here: what is rehearsed on a node, and what a certificate has of it. What never does:
the rehearsal (:mod:`conformance.upgrading`), and how a program gets to a node
(:mod:`hil.replaced`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from conformance.checks import each
from conformance.ending import ended_like_an_interrupt
from conformance.subject import SubjectError, SubjectInfo, SubjectNotRestored, SubjectUsageError
from conformance.upgrading import Broken, Going, Plan, Rehearsed, Stage, rehearse
from hil.inspection import kubelet_of
from hil.replaced import Program, brought, chosen
from hil.subject import NodeSubject
from pinproof.inputs import discovered
from pinproof.upgrade_pods import later_pods, usual_pods
from reference.releases import minor_of
from reports.certificate import upgrade_of
from reports.certificate.document import BrokenPromise, Kubelet, Upgrade, UpgradeStage
from reports.text import few, line


@dataclass(frozen=True, slots=True)
class OnNode:
    """The outcome of a rehearsal on a node with this ``plan``. ``unrestored``: what on the node is
    not as it was before."""

    plan: Plan
    found: Rehearsed
    new: SubjectInfo
    release: str
    unrestored: SubjectNotRestored | None = None


def require_replaceable(target: str, kubelet: str, say: Callable[[str], None]) -> None:
    """Raises :class:`conformance.subject.SubjectUsageError` where the node cannot have this kubelet
    in place of its own. A release is built here, where it has not been yet. Reads only."""
    with closing(NodeSubject.open(target, say)) as nodes:
        _chosen(nodes, kubelet, say)


def upgraded(
    target: str, kubelet: str, say: Callable[[str], None], *, going: Going = Going.STOP
) -> OnNode:
    """Upgrade the one node that ``target`` names to ``kubelet``, take it back, and upgrade it
    again; then the node is restored, also where the run is asked to end. Raises what
    :func:`hil.replaced.chosen`, :func:`hil.replaced.brought` and
    :func:`conformance.upgrading.rehearse` raise, and :class:`SubjectNotRestored` where the node
    could not be restored after such an error."""
    with ended_like_an_interrupt():
        nodes = NodeSubject.open(target, say)
        try:
            made = _upgraded(nodes, _chosen(nodes, kubelet, say), going, say)
        except BaseException:
            nodes.close()
            raise
        try:
            nodes.close()
        except SubjectNotRestored as error:
            return replace(made, unrestored=error)
        return made


def _chosen(nodes: NodeSubject, kubelet: str, say: Callable[[str], None]) -> Program:
    """The kubelet that was named. Raises :class:`SubjectUsageError` where pods of others hold
    exclusive CPUs on the node: each restart might take these away."""
    program = chosen(kubelet, nodes, say)
    facts = nodes.sole().facts
    held = [one.name or one.uid for one in facts.workloads if one.pinned]
    if held:
        raise SubjectUsageError(
            f"{facts.name}: pods hold exclusive CPUs there ({few(held, 3)}): drain it first"
        )
    return program


def _upgraded(
    nodes: NodeSubject, program: Program, going: Going, say: Callable[[str], None]
) -> OnNode:
    new = brought(nodes, program, say)
    machine, config = nodes.machines[0], kubelet_of(nodes.sole().facts).config
    release = min(nodes.info.release, new.info.release, key=minor_of)
    topology = discovered(machine, release)
    pods, gone = usual_pods(topology, config, release)
    plan = Plan(machine, config, pods, later_pods(topology, pods), gone, going=going)
    return OnNode(plan, rehearse(nodes, new, plan, say=say), new.info, release)


# -- in a certificate ------------------------------------------------------------------------------


def certified(
    target: str, kubelet: str, say: Callable[[str], None], *, against: str = ""
) -> tuple[Upgrade, OnNode | None]:
    """What a certificate states of an upgrade, even of one that failed; and the rehearsal, or
    ``None`` if there was none. ``against``: the reason not to begin one. A certificate names no
    path of the runner."""
    named = line(kubelet.rpartition("/")[2].removeprefix("kubelet:"))
    if against:
        return upgrade_of(named, reason=against), None
    try:
        done = upgraded(target, kubelet, say)
    except SubjectError as error:
        restored = not isinstance(error, SubjectNotRestored)
        return upgrade_of(named, reason=line(str(error)), restored=restored), None
    info = done.new
    made = upgrade_of(
        named,
        Kubelet(version=line(info.version), release=info.release, digest=info.digest),
        [_stage(one) for one in done.found.stages],
        [_broken(one) for one in done.found.broken],
        restored=done.unrestored is None,
    )
    return made, done


def _stage(stage: Stage) -> UpgradeStage:
    view = stage.view
    return UpgradeStage(
        leg=str(stage.leg or ""),
        kubelet=line(stage.kubelet.version),
        runs=view.running and not view.hangs,
        error=line(view.error or view.hangs or ""),
        exclusive={
            line(f"{pod}/{container}"): str(cpus)
            for pod, container, cpus in each(view.assignments)
            if cpus
        },
        shared_pool=str(view.shared_pool),
        restarted=[line(f"{pod}/{container}") for pod, container in stage.restarted],
    )


def _broken(one: Broken) -> BrokenPromise:
    return BrokenPromise(
        leg=str(one.leg),
        kubelet=line(one.kubelet.version),
        step=line(one.step),
        rule=line(one.rule),
        source=line(one.witness),
        differences=[
            line(f"{row.what}: expected {row.expected}, seen {row.seen}") for row in one.differences
        ],
    )
