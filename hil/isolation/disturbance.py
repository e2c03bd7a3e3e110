"""What ran on exclusive CPUs beside their container: tasks of others, and interrupts.

What belongs here: the script, and the reading of its output (the latter is pure). What never does:
whether the node promised to keep them away (:mod:`hil.isolation.judging`).

How often tasks ran is counted by the kernel: ``/proc/schedstat`` counts the time slices of each
CPU, ``/proc/PID/schedstat`` those of each task (Linux, ``sched-stats.rst``). Time slices that the
container's own tasks did not have, others had. Their names are sampled: a task is named if it was
last on such a CPU (``/proc/PID/stat``, field 39) and its count has grown since the sample before. A
task that came, ran and left between two samples is not named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Final

from hil.answers import whole
from hil.isolation.noise import NotMeasured
from hil.observation import ContainerObserved, Places
from reference import CPUSet, CPUSetParseError
from topologies.errors import one_line

#: Where CRI-O keeps the configurations of containers. It drops an annotation there that its own
#: configuration does not allow.
_CRIO: Final = "/run/containers/storage/overlay-containers"
#: ``PF_KTHREAD`` (Linux, ``include/linux/sched.h``).
_KTHREAD: Final = 0x00200000

#: The sampler keeps off the CPUs where it can, and does not count its own session. awk: fields are
#: those of ``/proc/PID/stat`` after the name, which may have blanks in it.
_SCRIPT: Final = r"""
quiet_off=@OTHERS@
[ -z "$quiet_off" ] || taskset -pc "$quiet_off" $$ >/dev/null 2>&1
read -r pin_l </proc/$$/stat; set -- ${pin_l##*) }; quiet_session=$4
quiet_tasks() { # NUMBER: tasks that were last on one of the CPUs
  cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null | awk -v n="$1" -v s="$quiet_session" -v own=@OWN@ '
    BEGIN { k = split("@CPUS@", c, " "); for (i = 1; i <= k; i++) want[c[i]] = 1 }
    { tid = $1; name = $0; sub(/^[^(]*\(/, "", name); sub(/\)[^)]*$/, "", name)
      rest = $0; sub(/^.*\) /, "", rest); split(rest, f, " ")
      if (!(f[37] in want) || f[4] == s) next
      file = "/proc/" tid "/schedstat"; line = ""; got = (getline line < file); close(file)
      if (got < 1) next
      split(line, r, " "); mine = 0; file = "/proc/" tid "/cgroup"
      while ((getline line < file) > 0) if (index(line, ":" own)) mine = 1
      close(file)
      print "task", n, tid, f[20], f[7], f[37], r[3], mine, name }'
}
quiet_irqs() { # NUMBER: how often each interrupt came to the CPUs
  awk -v n="$1" '
    BEGIN { k = split("@CPUS@", c, " "); for (i = 1; i <= k; i++) want["CPU" c[i]] = 1 }
    NR == 1 { cols = NF; for (i = 1; i <= NF; i++) if ($i in want) at[i + 1] = $i; next }
    { sum = 0; for (i in at) sum += $i
      text = ""; for (i = cols + 2; i <= NF; i++) text = text " " $i
      sub(/:$/, "", $1); print "irq", n, $1, sum, text }' /proc/interrupts
  awk -v n="$1" '
    BEGIN { k = split("@CPUS@", c, " "); for (i = 1; i <= k; i++) want["cpu" c[i]] = 1 }
    $1 in want { sum += $10; seen = 1 }
    END { if (seen) print "slices", n, sum }' /proc/schedstat 2>/dev/null
}
kill -USR1 @PID@ 2>/dev/null
# The container's own slices are counted for longer than those of the CPUs: others had at least the
# difference.
quiet_tasks 0; quiet_irqs 0
pin_i=1
while [ "$pin_i" -lt @SAMPLES@ ]; do
  sleep 0.2; quiet_tasks "$pin_i"; pin_i=$((pin_i + 1))
done
quiet_irqs 1; quiet_tasks "$pin_i"
grep -qs '"irq-load-balancing.crio.io":"disable"' @CONFIG@ && echo promised
echo "default $(cat /proc/irq/default_smp_affinity 2>/dev/null)"
for pin_f in /proc/irq/[0-9]*; do
  pin_a=; pin_e=
  read -r pin_a 2>/dev/null <"$pin_f/smp_affinity_list"
  read -r pin_e 2>/dev/null <"$pin_f/effective_affinity_list"
  echo "affinity ${pin_f##*/} ${pin_a:--} ${pin_e:--}"
done
echo "partition $(cat @PARTITIONS@ 2>/dev/null | tr '\n' ' ')"
read -r pin_u pin_x </proc/uptime; echo "until $pin_u"
"""


@dataclass(frozen=True, slots=True)
class Intruder:
    """A task that is not the container's: by its name, and how often it was seen to have run.
    ``kernel``: a thread of the kernel."""

    name: str
    runs: int
    kernel: bool = False


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt that came, or may come: ``number`` as ``/proc/interrupts`` has it (``25``,
    ``LOC``), ``count`` while it was watched, ``allowed`` the watched CPUs of its affinity."""

    number: str
    name: str
    count: int
    allowed: CPUSet = field(default_factory=CPUSet)

    @property
    def device(self) -> bool:
        """Of a device, not of the CPU itself."""
        return self.number.isdecimal()


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What came to ``cpus``, which are a container's own. ``runs`` is the least number of time
    slices of other tasks; ``None`` where the kernel does not count. ``default`` is what new
    interrupts may use, ``partition`` whether a cgroup of the container isolates its CPUs,
    ``promised`` whether the runtime was asked, and agreed, to keep interrupts off them."""

    cpus: CPUSet
    intruders: tuple[Intruder, ...]
    runs: int | None
    interrupts: tuple[Interrupt, ...]
    default: CPUSet
    partition: bool = False
    promised: bool = False


def script(
    places: Places, container: ContainerObserved, online: CPUSet, *, samples: int = 8
) -> str:
    """Watch the CPUs of a container of this run, which spins meanwhile."""
    cpus = container.effective
    folders = [one.path for one in container.levels if one.path != "/"]
    mount = places.mount.rstrip("/")
    values = {
        "@CPUS@": " ".join(map(str, cpus)),
        "@OTHERS@": quote(str(online - cpus)),
        "@OWN@": quote(container.levels[0].path),
        "@PID@": str(container.pid),
        "@SAMPLES@": str(samples),
        "@CONFIG@": quote(f"{_CRIO}/{container.id}/userdata/config.json"),
        "@PARTITIONS@": " ".join(quote(f"{mount}{one}/cpuset.cpus.partition") for one in folders)
        or "/dev/null",
    }
    text = _SCRIPT
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def read_disturbance(text: str, cpus: CPUSet) -> Disturbance:
    """Read what the script printed. Raises :class:`NotMeasured` for an incomplete answer."""
    rows = [line.split(" ") for line in text.splitlines()]
    if not any(row[0] == "until" for row in rows) or not any(row[0] == "default" for row in rows):
        raise NotMeasured("no account of what ran on exclusive CPUs in the node's answer")
    default = next(mask_of(row[1]) for row in rows if row[0] == "default" and len(row) > 1)
    intruders, own = _task_runs(rows)
    slices = [whole(row[2]) for row in rows if row[0] == "slices" and len(row) == 3]
    runs = max(0, slices[-1] - slices[0] - own) if len(slices) > 1 else None
    partition = any(row[0] == "partition" and "isolated" in row for row in rows)
    return Disturbance(
        cpus=cpus,
        intruders=tuple(sorted(intruders, key=lambda one: (-one.runs, one.name))),
        runs=runs,
        interrupts=tuple(_interrupts(rows, cpus)),
        default=default,
        partition=partition,
        promised=["promised"] in rows,
    )


def _task_runs(rows: list[list[str]]) -> tuple[list[Intruder], int]:
    """Tasks that are not the container's and ran, and how often the container's own did."""
    counts: dict[tuple[str, bool], int] = {}
    own = 0
    before: dict[tuple[str, str], int] = {}
    for number, sample in _samples(rows):
        seen: dict[tuple[str, str], int] = {}
        for row in sample:
            task, runs = (row[2], row[3]), whole(row[6])
            seen[task] = runs
            mine = row[7] == "1"
            # A task that was not on these CPUs at the sample before ran here at least once. The
            # container's own tasks have been nowhere else.
            more = runs - before[task] if task in before else runs if mine else min(1, runs)
            if not number or more <= 0:
                continue
            if mine:
                own += more
            else:
                name = one_line(" ".join(row[8:]), 60), bool(whole(row[4]) & _KTHREAD)
                counts[name] = counts.get(name, 0) + more
        before = seen
    return [Intruder(name, runs, kernel) for (name, kernel), runs in counts.items()], own


def _samples(rows: list[list[str]]) -> Iterator[tuple[int, list[list[str]]]]:
    tasks = [row for row in rows if row[0] == "task" and len(row) > 8]
    for number in sorted({whole(row[1]) for row in tasks}):
        yield number, [row for row in tasks if whole(row[1]) == number]


def _interrupts(rows: list[list[str]], cpus: CPUSet) -> Iterator[Interrupt]:
    counts: Mapping[str, dict[str, list[str]]] = {"0": {}, "1": {}}
    for row in rows:
        if row[0] == "irq" and len(row) > 3 and row[1] in counts:
            counts[row[1]][row[2]] = row
    may = {row[1]: _list(row[2]) & cpus for row in rows if row[0] == "affinity" and len(row) > 2}
    for number, row in counts["1"].items():
        earlier = counts["0"].get(number)
        count = max(0, whole(row[3]) - (whole(earlier[3]) if earlier else 0))
        allowed = may.get(number, CPUSet())
        if count or allowed:
            name = one_line(" ".join(row[4:]).split("  ")[-1].strip(), 80)
            yield Interrupt(number, name, count, allowed)


def _list(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetParseError:
        return CPUSet()


def mask_of(text: str) -> CPUSet:
    """``default_smp_affinity`` as CPUs: hexadecimal, in groups of 32 bits. No CPU where a kernel
    has no such file. Raises :class:`NotMeasured`."""
    if not text:
        return CPUSet()
    try:
        bits = int(text.replace(",", "")[:4096], 16)
    except ValueError:
        raise NotMeasured(f"default_smp_affinity is {one_line(text, 40)!r}") from None
    return CPUSet(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)
