"""Truth from the kernel: what a node's containers may run on and do run on, in one round trip.

    script = look(places, marker)          # POSIX shell; read-only
    seen = read_look(shell.run(script).text, marker)
    seen.containers                        # pid, cgroup, cpusets at every level, tasks, quota

A container's cgroup is read from ``/proc/PID/cgroup``, its pid from the runtime; no path is built
from names. Parsing is pure, so it is tested on what real nodes wrote.
"""

from hil.observation.parsing import NotALook, read_look
from hil.observation.places import Places
from hil.observation.pod_resources import Told
from hil.observation.script import look, marker
from hil.observation.seen import ContainerTruth, Level, Look, Process, ServiceState

__all__ = [
    "ContainerTruth",
    "Level",
    "Look",
    "NotALook",
    "Places",
    "Process",
    "ServiceState",
    "Told",
    "look",
    "marker",
    "read_look",
]
