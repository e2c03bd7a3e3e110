"""How a booted node is, one line a fact. The script knows nothing of what pinproof compares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hil.transport import NodeAddress, connected

#: What changes on a node without a run, or by what every pod and login does. Each was seen to.
BY_ITSELF: Final = {
    "/run/systemd/journal": "journald's streams: one a process that writes to it",
    "/run/systemd/propagate": "a folder for each sandboxed service that systemd started",
    "/run/systemd/units": "the invocation id of each unit that was started",
    "/var/lib/kubelet/actuated_pods_state": "kubelet's list of pods, docs/explanation/hil.md",
    "/var/lib/kubelet/allocated_pods_state": "kubelet's list of pods, docs/explanation/hil.md",
    "/var/lib/kubelet/.[0-9]*": "a checkpoint that a kubelet ended in, docs/explanation/hil.md",
}
_PRUNED: Final = " -o ".join(f"-path '{path}'" for path in BY_ITSELF)

#: Its processes are those that do not descend from the SSH server: a run's that go on without it do
#: not either. Kernel threads descend from process 2. Process 1 has other arguments after a restart
#: of systemd. mawk compares a key of an array as text. The kubelet hands controllers on to a class
#: of pods with the first pod of it since the boot. An autofs has other options after each boot. On
#: a busy host systemd may answer too late, and is asked again.
SNAPSHOT: Final = rf"""
LC_ALL=C; export LC_ALL
set -- /etc /run/systemd /var/lib/kubelet /usr/local/bin
for path in /var/lib/pinproof* /run/pinproof*; do
  case $path in *lab) ;; *) [ ! -e "$path" ] || set -- "$@" "$path" ;; esac
done
find "$@" \( {_PRUNED} \) -prune -o -printf 'file %p %y %m %U:%G %l\n'
find "$@" \( {_PRUNED} \) -prune -o -type f -print0 | xargs -0 sha256sum | sed 's/^/content /'
asked() {{
  until said=$(systemctl --plain --no-legend --no-pager "$@"); do sleep 5; done
  printf '%s\n' "$said"
}}
asked list-units --all | awk 'NF {{ print "unit", $1, $2, $3, $4 }}'
asked list-unit-files | awk 'NF {{ print "unit file", $1, $2 }}'
asked list-timers --all | awk 'NF {{ print "timer", $(NF - 1) }}'
asked --failed | awk 'NF {{ print "failed", $1 }}'
find /sys/fs/cgroup -type d | sed 's/^/cgroup /'
find /sys/fs/cgroup -type f ! -path '*/kubepods*.slice/cgroup.subtree_control' \( \
  -name cpuset.cpus -o -name cpuset.mems -o \
  -name cpuset.cpus.partition -o -name cpu.max -o -name cpu.weight -o \
  -name cgroup.subtree_control \) |
  xargs awk '{{ print "setting", FILENAME, $0 }}'
echo "online $(cat /sys/devices/system/cpu/online)"
for kind in containers tasks; do ctr -n k8s.io $kind ls -q | sed "s/^/$kind /"; done
awk '{{ print "mount", $2, $3, $3 == "autofs" ? "" : $4 }}' /proc/mounts
ps -eo pid=,ppid=,comm=,args= | awk '
  {{ pid = $1; up[pid] = $2; name[pid] = $3; $1 = $2 = $3 = ""; sub(/^ +/, ""); args[pid] = $0 }}
  END {{
    delete up[1]
    for (pid in up) {{
      for (one = pid + 0; one > 2 && name[one] != "sshd"; one = up[one] + 0) ;
      if (one == 1 || one == 0) print "process", args[pid]
    }}
  }}'
echo whole
"""


def snapshot(address: NodeAddress) -> frozenset[str]:
    """How the node is. Raises :class:`hil.shell.NodeError`."""
    with connected(address) as shell:
        lines = shell.run(SNAPSHOT, deadline=240).text.splitlines()
    if not lines or lines[-1] != "whole":
        raise ValueError(f"{address.name}: the snapshot is not whole: {lines[-3:]}")
    return frozenset(lines)


def different(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """What is gone (``-``) and what came (``+``)."""
    was, now = {*before}, {*after}
    return [f"- {line}" for line in sorted(was - now)] + [f"+ {line}" for line in sorted(now - was)]
