"""Gathering: two round trips, and what they brought as :class:`hil.inspection.node.NodeFacts`.

What belongs here: which question follows from which answer. What never does: the words of the
questions (:mod:`hil.inspection.script`), and what a kubelet's texts mean
(:mod:`hil.inspection.kubelet`).
"""

from __future__ import annotations

from typing import Final

from hil.inspection.host_answer import HostAnswer
from hil.inspection.kubelet_answer import KubeletAnswer
from hil.inspection.node import KubeletFacts, NodeFacts
from hil.inspection.paths import NOT_SAID, KubeletPaths
from hil.inspection.script import (
    DEADLINE,
    LIMIT,
    NoRecords,
    Question,
    Records,
    first_question,
    second_question,
)
from hil.shell import NodeUnfit, Shell
from topologies import Machine
from topologies.capturing.captured import captured
from topologies.capturing.errors import CaptureError
from topologies.errors import one_line

_JOURNAL: Final = "/var/lib/pinproof/journal"


def gather(shell: Shell, *, root: str = "", paths: KubeletPaths = NOT_SAID) -> NodeFacts:
    """Ask the node what it is. ``root`` is where its ``/`` lies (a mounted image, a test);
    ``paths`` goes before what is found.

    ``kubelet`` is ``None`` where there is none. Raises :class:`hil.shell.NodeUnfit` where
    what came back is no answer, and what the shell raises.
    """
    one = HostAnswer(_asked(shell, first_question(root)), paths)
    two = KubeletAnswer(
        _asked(
            shell,
            second_question(
                root,
                files=one.files(),
                folders=one.folders(),
                programs=one.programs(),
                summed=one.program,
                listed=one.listed(),
                endpoint=one.endpoint(),
            ),
        ),
        one,
    )
    kubelet = two.kubelet()
    try:
        capture = captured(one.capture, where=shell.name, source="captured from a node")
    except CaptureError as error:
        raise NodeUnfit(f"{shell.name}: its machine cannot be read: {error.reason}") from error
    return NodeFacts(
        name=shell.name,
        hostname=one.value("/proc/sys/kernel/hostname"),
        kernel=one.value("/proc/sys/kernel/osrelease"),
        arch=one.value("arch"),
        boot_id=one.value("/proc/sys/kernel/random/boot_id"),
        uptime=one.uptime,
        command_line=one.value("/proc/cmdline"),
        online=one.cpus("online"),
        possible=one.cpus("possible"),
        isolated=one.cpus("isolated"),
        nohz_full=one.cpus("nohz_full"),
        systemd=one.systemd,
        units=one.units,
        kubelet=kubelet,
        runtime=two.runtime(),
        cgroup=one.cgroup(kubelet.settings if kubelet else {}),
        machine=Machine(shell.name, capture.tree, source=capture.source),
        tools=one.tools,
        free=one.free,
        workloads=two.workloads(),
        places=one.places,
        survives_restart=two.survives_restart(),
        survives_reboot=two.survives_reboot(),
        leftovers=_JOURNAL in one.places,
        root=root,
        oddities=(*two.oddities, *capture.warnings),
    )


def kubelet_of(facts: NodeFacts) -> KubeletFacts:
    """The kubelet of a node that must have one; raises :class:`hil.shell.NodeUnfit`."""
    if facts.kubelet is None:
        raise NodeUnfit(f"{facts.name}: there is no kubelet on it")
    return facts.kubelet


def _asked(shell: Shell, question: Question) -> Records:
    done = shell.run(question.script, deadline=DEADLINE, limit=LIMIT)
    try:
        return question.read(done.stdout)
    except NoRecords as error:
        raise NodeUnfit(
            f"{shell.name}: its answer cannot be read: {one_line(str(error))}",
            evidence=done.stderr.decode("utf-8", "replace")[-2000:],
        ) from error
