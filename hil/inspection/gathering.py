"""Gathers :class:`hil.inspection.node.NodeFacts` in two round trips.

What belongs here: which question follows from which answer. What never does: the words of the
questions (:mod:`hil.inspection.script`), and what a kubelet's texts mean
(:mod:`hil.inspection.kubelet`).
"""

from __future__ import annotations

from hil.inspection.agreement import contradiction
from hil.inspection.host_answer import HostAnswer
from hil.inspection.kubelet_answer import KubeletAnswer
from hil.inspection.located_kubelet import LocatedKubelet
from hil.inspection.node import KubeletFacts, NodeFacts
from hil.inspection.paths import NOT_SAID, KubeletPaths
from hil.inspection.script import (
    DEADLINE,
    LEFTOVERS,
    LIMIT,
    NoRecords,
    Question,
    Records,
    first_question,
)
from hil.shell import NodeUnfit, Shell
from topologies import Machine
from topologies.capturing.captured import captured
from topologies.capturing.errors import CaptureError
from topologies.errors import one_line
from topologies.steady import steady


def gather(shell: Shell, *, root: str = "", paths: KubeletPaths = NOT_SAID) -> NodeFacts:
    """Ask the node what it is. ``root`` is where its ``/`` lies (a mounted image, a test);
    ``paths`` overrides what is found.

    ``kubelet`` is ``None`` where there is none. Raises :class:`hil.shell.NodeUnfit` where the
    answer cannot be read or contradicts itself, and what the shell raises.
    """
    host = HostAnswer(_asked(shell, first_question(root)))
    located = LocatedKubelet(host, paths)
    second = KubeletAnswer(_asked(shell, located.question(root)), host, located)
    kubelet = second.kubelet()
    try:
        capture = captured(host.capture, where=shell.name, source="captured from a node")
    except CaptureError as error:
        raise NodeUnfit(f"{shell.name}: its machine cannot be read: {error.reason}") from error
    if wrong := contradiction(host, capture):
        raise NodeUnfit(
            f"{shell.name}: its answer contradicts itself: {wrong} (if CPUs were just taken on- or "
            "offline, try again)"
        )
    return NodeFacts(
        name=shell.name,
        hostname=host.value("/proc/sys/kernel/hostname"),
        kernel=host.value("/proc/sys/kernel/osrelease"),
        arch=host.value("arch"),
        boot_id=host.value("/proc/sys/kernel/random/boot_id"),
        uptime=host.uptime,
        command_line=host.value("/proc/cmdline"),
        online=host.cpus("online"),
        possible=host.cpus("possible"),
        isolated=host.cpus("isolated"),
        nohz_full=host.cpus("nohz_full"),
        systemd=host.systemd,
        units=host.units,
        kubelet=kubelet,
        runtime=second.runtime(),
        cgroup=host.cgroup(kubelet.settings if kubelet else {}),
        machine=Machine(shell.name, steady(capture.tree), source=capture.source),
        tools=host.tools,
        free=host.free,
        workloads=second.workloads(),
        places=host.places,
        survives_restart=second.survives_restart(),
        survives_reboot=second.survives_reboot(),
        leftovers=tuple(one for one in LEFTOVERS if one in host.places),
        root=root,
        oddities=(*second.oddities, *capture.warnings),
        os_release=host.os_release,
        os_id=host.os_id,
        firmware=host.firmware,
        virtual=host.virtual,
        distribution=paths.distribution,
    )


def kubelet_of(facts: NodeFacts) -> KubeletFacts:
    """The kubelet of a node that must have one; raises :class:`hil.shell.NodeUnfit`."""
    if facts.kubelet is None:
        raise NodeUnfit(f"{facts.name}: there is no kubelet on it")
    return facts.kubelet


def released(facts: NodeFacts) -> KubeletFacts:
    """The kubelet of a node, which must have one that says its release; raises
    :class:`hil.shell.NodeUnfit`, whose text says whether it is slow or says something else."""
    kubelet = kubelet_of(facts)
    if not kubelet.release:
        unsaid = kubelet.unsaid or "does not say which release it is"
        raise NodeUnfit(f"{facts.name}: its kubelet {unsaid}")
    return kubelet


def _asked(shell: Shell, question: Question) -> Records:
    done = shell.run(question.script, deadline=DEADLINE, limit=LIMIT)
    try:
        return question.read(done.stdout)
    except NoRecords as error:
        raise NodeUnfit(
            f"{shell.name}: its answer cannot be read: {one_line(str(error))}",
            evidence=done.stderr.decode("utf-8", "replace")[-2000:],
        ) from error
