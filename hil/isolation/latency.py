"""How long shared containers run on CPUs that were just given away: reconcile latency.

What belongs here: the measuring script, and the reading of its output (the latter is pure). The
kubelet takes CPUs away from running shared containers in its reconcile rounds only
(``cpuManagerReconcilePeriod``), so this is at most about one period.
"""

from __future__ import annotations

import math
from shlex import quote

from hil.isolation.noise import NotMeasured
from hil.observation import ContainerObserved, Places

_SCRIPT = r"""
lat_file=@FILE@
read -r lat_was <"$lat_file"
lat_text=$(cat "$pin_state")
lat_i=0
while [ "$(cat "$pin_state")" = "$lat_text" ] && [ "$lat_i" -lt @TRIES@ ]; do
  lat_i=$((lat_i + 1)); sleep 0.1
done
read -r lat_begin lat_x </proc/uptime
lat_i=0
while read -r lat_is <"$lat_file" && [ "$lat_is" = "$lat_was" ] && [ "$lat_i" -lt @TRIES@ ]; do
  lat_i=$((lat_i + 1)); sleep 0.05
done
read -r lat_end lat_x </proc/uptime
echo "latency $lat_begin $lat_end $lat_was $lat_is"
"""


def script(places: Places, shared: ContainerObserved, *, tries: int = 600) -> str:
    """The script that measures from the change of the state file to that of a shared container's
    cpuset."""
    # Below crun's own cgroup of a container lies one that asks for no CPUs.
    level = next((one for one in shared.own_levels if one.cpus), shared.levels[0])
    file = f"{places.mount}{level.path}/cpuset.cpus"
    return _SCRIPT.replace("@FILE@", quote(file)).replace("@TRIES@", str(tries))


def read_latency(text: str) -> float:
    """In seconds. Raises :class:`hil.isolation.NotMeasured` where nothing changed."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["latency"] and len(words) == 5 and words[3] != words[4]:
            try:
                latency = float(words[2]) - float(words[1])
            except ValueError:
                break
            if math.isfinite(latency):
                return latency
    raise NotMeasured("the cpuset of the shared container did not change")
