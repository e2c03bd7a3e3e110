"""What the kernel shows: where a node's containers may run and do run, in one round trip.

    script = look(places, marker)          # POSIX shell; read-only
    seen = read_observation(shell.run(script).text, marker)
    seen.containers                        # pid, cgroup, cpusets at every level, tasks, quota

A container's cgroup is read from ``/proc/PID/cgroup``, its pid from the runtime; no path is built
from names. Parsing is pure, so it is tested on what real nodes wrote.
"""

from hil.observation.parsing import NotAnObservation, read_observation
from hil.observation.places import Places
from hil.observation.pod_resources import PodResources
from hil.observation.script import look, marker
from hil.observation.seen import ContainerObserved, Level, Observation, Process, ServiceState

__all__ = [
    "ContainerObserved",
    "Level",
    "NotAnObservation",
    "Observation",
    "Places",
    "PodResources",
    "Process",
    "ServiceState",
    "look",
    "marker",
    "read_observation",
]
