"""What each step does on a node, as a script and what to wait for. Pure.

What belongs here: POSIX shell made of facts, every value quoted. Functions ``pin_…`` are those of
:mod:`hil.observation.script`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote
from typing import Final

from hil.observation import ContainerObserved, Places
from hil.safety import Change
from hil.shell import NodeUnfit
from reference import CPUSet
from reference.steps import Kind, Pod, RestartPolicy

#: The last lines of kubelets of any release; for ``grep -E``.
_FATAL_LINES: Final = "^F[0-9]{4} |^Error|^panic|[Ff]ailed to (start Con|run [Kk])|command failed"

#: Once the kubelet is down: no container outlives the scenario that it was made for.
KILL_TASKS: Final = "\npin_tasks | while read -r pin_n pin_d; do kill -9 $pin_n; done"


@dataclass(frozen=True, slots=True)
class Act:
    """Changes, then ``script``, then a wait for ``goal`` of at most ``seconds``; ``ask``: the
    observation that follows asks at the pod-resources socket too."""

    script: str = ""
    changes: tuple[Change, ...] = ()
    goal: str = ""
    seconds: float = 0.0
    ask: bool = False

    @property
    def waiting(self) -> str:
        """The goal, with its bound."""
        return f"pin_until {round(self.seconds)} {self.goal}" if self.goal else ""


def pod_tasks(pod: Pod) -> int:
    """How many tasks the runtime has of a pod that runs: its sandbox counts."""
    return 1 + sum(each.kind is not Kind.INIT for each in pod.containers)


def start(
    places: Places,
    start_script: str,
    pods: tuple[Pod, ...],
    seconds: float,
    *,
    awaited: bool = True,
) -> Act:
    """Start the kubelet, and wait until it is up or has given up. It is up once its CPU manager is
    (the device manager's socket comes after it, ``cm/container_manager_linux.go``), it lists its
    pods, and those run or were refused. Containers of deleted pods must be gone as well."""
    socket = quote(f"{places.root_dir}/device-plugins/kubelet.sock")
    wanted = "".join(
        f" && pin_started {quote(pod.uid)} {pod_tasks(pod)}" for pod in pods if awaited
    )
    known = "|".join(f"{pod.uid}|{pod.uid.replace('-', '_')}" for pod in pods) or "none of them"
    script = f"""
pin_up() {{ [ -S {socket} ] && pin_listed && pin_alone{wanted}; }}
pin_listed() {{ [ -z "$pin_url" ] || pin_get >/dev/null; }}
pin_alone() {{
  pin_o=$(pin_ours)
  [ -z "$pin_o" ] || ! grep -LE {quote(known)} $pin_o | grep -q .
}}
pin_lost() {{ case $(systemctl show -p MainPID -p NRestarts "$pin_unit") in
  *MainPID=0*) return 0 ;; *NRestarts=0*) return 1 ;; *) return 0 ;; esac; }}
pin_up_or_lost() {{ # as long as what was started lives, its service manager need not be asked
  if [ -d "/proc/$pin_started_as" ] || ! pin_lost; then pin_up; else pin_fatal_lines; fi
}}
pin_fatal_lines() {{ # what it wrote reaches the journal a little later
  pin_dead=MainPID=0
  journalctl --sync 2>/dev/null
  for pin_w in 1 2 3 4 5 6; do
    pin_log | grep -qE '{_FATAL_LINES}' && break
    sleep 0.5
  done
}}
pin_main_in() {{ read -r pin_started_as 2>/dev/null <"$1/cgroup.procs"; }}
rm -f {socket}
# Its service manager may have started it again before this check.
pin_since=$(date +%s.%N)
case $pin_since in *[!0-9.]*) pin_since=${{pin_since%%[!0-9]*}} ;; esac
{start_script}
pin_awaited={socket}
# Its cgroup tells at once, where it is where systemd puts it.
pin_main_in "$pin_mount/system.slice/$pin_unit" || pin_started_as=$(pin_main)
[ "${{pin_started_as:-0}}" != 0 ] || pin_started_as=none
"""
    return Act(script, goal="pin_up_or_lost", seconds=seconds)


def apply(
    pod: Pod, changes: tuple[Change, ...], script: str, *, awaited: bool, seconds: float
) -> Act:
    """Make the changes that bring the pod, and run the script; awaited: until the pod runs or is
    refused."""
    goal = f"pin_started {quote(pod.uid)} {pod_tasks(pod)}" if awaited else ""
    return Act(script, changes, goal, seconds)


def delete(pod: Pod, changes: tuple[Change, ...], *, up: bool, force: bool, seconds: float) -> Act:
    """Make the changes that take the pod away; up: wait until it is gone. By force: its tasks are
    killed, its sandbox among them, before the kubelet can."""
    uid = quote(pod.uid)
    killing = f"""
pin_tasks | while read -r pin_n pin_d; do
  grep -qsE {quote(f"{pod.uid}|{pod.uid.replace('-', '_')}")} "$pin_d/config.json" &&
    kill -9 "$pin_n"
done
"""
    return Act(
        killing if force else "",
        changes=changes,
        goal=f"pin_gone {uid}" if up else "",
        seconds=seconds,
    )


def tamper(places: Places, container: ContainerObserved, cpus: CPUSet) -> Act:
    """Write another cpuset into the container's cgroup."""
    own = next((one for one in container.own_levels if one.cpus), container.levels[0])
    return Act(f"echo {quote(str(cpus))} >{quote(f'{places.mount}{own.path}/cpuset.cpus')}")


def tamper_quota(places: Places, container: ContainerObserved, quota: int) -> Act:
    """Write a quota into the container's cgroup."""
    path = container.levels[0].path
    if places.cgroup == 2:
        return Act(f"echo {quota} 100000 >{quote(f'{places.mount}{path}/cpu.max')}")
    return Act(f"echo {quota} >{quote(f'{places.cpu_mount}{path}/cpu.cfs_quota_us')}")


def kill_container(
    container: ContainerObserved, pod: Pod, seconds: float, *, kubelet_runs: bool
) -> Act:
    """SIGKILL for its first process; wait until it runs again, if it is restarted."""
    killed = next((one for one in pod.containers if one.name == container.name), None)
    policy = pod.restart_policy_of(killed) if killed else RestartPolicy.ALWAYS
    restarts = kubelet_runs and policy is not RestartPolicy.NEVER
    runs = f" &&\n  pin_running {quote(pod.uid)} {pod_tasks(pod)}" if restarts else ""
    script = f"""
kill -9 {container.pid}
pin_again() {{ [ ! -d /proc/{container.pid} ]{runs}; }}
"""
    return Act(script, goal="pin_again", seconds=seconds)


def restart_runtime(unit: str, seconds: float) -> Act:
    """Restart the runtime's unit; wait until the kubelet lists its pods again."""
    script = f"""
systemctl restart {quote(unit)} || exit 1
pin_ready() {{ systemctl -q is-active {quote(unit)} && pin_get >/dev/null; }}
"""
    return Act(script, goal="pin_ready", seconds=seconds)


def crash_loop(restarts: int, seconds: float) -> Act:
    """Wait until the unit has been started once more, and has ended again."""
    script = f"""
pin_more() {{ [ "$(systemctl show -p NRestarts --value "$pin_unit")" -gt {restarts} ] &&
  [ "$(pin_main)" = 0 ]; }}
"""
    return Act(script, goal="pin_more", seconds=seconds)


def texts(folder: str, names: Iterable[str]) -> str:
    """Print the files of these names below a folder, those that are there, for
    :func:`read_texts`: a line each, the name and the content as base64."""
    listed = " ".join(map(quote, names))
    return (
        f"cd {quote(folder)} || exit 1\n"
        f"for f in {listed}; do\n"
        '  [ ! -f "$f" ] || echo "$f $(base64 <"$f" | tr -d \'\\n\')"\n'
        "done\n"
    )


def read_texts(said: str) -> dict[str, str]:
    """What a script of :func:`texts` printed. Raises :class:`hil.shell.NodeUnfit`."""
    lines = (line.partition(" ") for line in said.splitlines())
    try:
        return {name: base64.b64decode(data).decode(errors="replace") for name, _, data in lines}
    except ValueError as error:
        raise NodeUnfit(f"the kubelet's files cannot be read: {error}") from error
