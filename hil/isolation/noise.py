"""The measuring script, and the reading of its output. The latter is pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from shlex import quote

from hil.observation import ContainerObserved
from hil.shell import NodeUnfit


class NotMeasured(NodeUnfit):
    """The node's answer holds no measurement."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One thread that spun: ``gap`` is its longest wait for a CPU, and ``waited`` all its waits,
    both in microseconds; ``involuntary`` is how often it had to give its CPU away; ``cpus`` where
    it may run."""

    name: str
    cpus: str
    gap: float
    waited: float
    involuntary: int
    seconds: float


#: Samples the waiting time of threads that are kept spinning; their gap is the largest step of it.
_SCRIPT = r"""
pin_pids='@PIDS@'
for pin_p in $pin_pids; do kill -USR1 "${pin_p%%:*}" 2>/dev/null; done
sleep 0.2
read -r pin_begin pin_x </proc/uptime
for pin_p in $pin_pids; do
  p=${pin_p%%:*}
  read -r pin_x pin_w pin_y <"/proc/$p/schedstat" || continue
  grep -sh '^nonvoluntary_ctxt_switches' "/proc/$p/status" | while read -r pin_x pin_v; do
    echo "first ${pin_p#*:} $pin_w $pin_v"
  done
done
pin_i=0
while [ "$pin_i" -lt @SAMPLES@ ]; do
  for pin_p in $pin_pids; do
    read -r pin_x pin_w pin_y <"/proc/${pin_p%%:*}/schedstat" && echo "sample ${pin_p#*:} $pin_w"
  done
  pin_i=$((pin_i + 1))
done
for pin_p in $pin_pids; do
  p=${pin_p%%:*}
  read -r pin_x pin_w pin_y <"/proc/$p/schedstat" || continue
  grep -sh '^nonvoluntary_ctxt_switches' "/proc/$p/status" | while read -r pin_x pin_v; do
    echo "last ${pin_p#*:} $pin_w $pin_v"
  done
  grep -sh '^Cpus_allowed_list' "/proc/$p/status" | while read -r pin_x pin_v; do
    echo "cpus ${pin_p#*:} $pin_v"
  done
done
read -r pin_end pin_x </proc/uptime
echo "time $pin_begin $pin_end"
"""


def script(containers: Sequence[ContainerObserved], *, samples: int = 400) -> str:
    """The script: the first process of each container spins, and its waiting time is sampled."""
    pids = " ".join(f"{one.pid}:{number}" for number, one in enumerate(containers))
    return _SCRIPT.replace("'@PIDS@'", quote(pids)).replace("@SAMPLES@", str(samples))


def read_noise(text: str, names: Sequence[str]) -> list[Measured]:
    """What the script printed, for containers of these names. Raises :class:`NotMeasured`."""
    rows = [line.split() for line in text.splitlines()]
    return [_measured(name, str(number), rows) for number, name in enumerate(names)]


def _measured(name: str, number: str, rows: list[list[str]]) -> Measured:
    own = [row for row in rows if len(row) > 2 and row[1] == number]
    try:
        first = next(row for row in own if row[0] == "first")
        last = next(row for row in own if row[0] == "last")
        cpus = next(row[2] for row in own if row[0] == "cpus")
        begin, end = next((float(row[1]), float(row[2])) for row in rows if row[:1] == ["time"])
        if not math.isfinite(end - begin):
            raise ValueError("no time")
        waits = [int(row[2]) for row in own if row[0] in ("first", "sample", "last")]
        steps = [after - before for before, after in pairwise(waits)]
        return Measured(
            name=name,
            cpus=cpus,
            gap=max(steps, default=0) / 1000,
            waited=(waits[-1] - waits[0]) / 1000,
            involuntary=int(last[3]) - int(first[3]),
            seconds=end - begin,
        )
    except (StopIteration, ValueError, IndexError, OverflowError) as error:
        raise NotMeasured(f"no measurement of {name} in the node's answer") from error
