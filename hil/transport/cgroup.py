"""Out of a pod's cgroup, into that of the host's first process.

In the pod's own cgroup, a script and the node's agent would end with the pod.
"""

from __future__ import annotations


def leaving(first: str = "1", said: str = "") -> str:
    """Words of a shell on the node, which move process ``$q`` to the cgroup of process ``first``,
    in every hierarchy. Where that fails, they print so after ``said``, and exit."""
    return (
        "while IFS=: read -r h c d; do case $c in "
        "'') m=; [ -e /sys/fs/cgroup/cgroup.procs ] || m=/unified ;; "
        "name=*) m=/${c#name=} ;; *) m=/$c ;; esac; "
        f'{{ echo $q >"/sys/fs/cgroup$m${{d%/}}/cgroup.procs"; }} 2>/dev/null; '
        f"done </proc/{first}/cgroup; "
        "while IFS= read -r c <&4 && IFS= read -r d <&5; do "
        f'[ "$c" = "$d" ] || {{ echo "{said}its processes cannot leave the cgroup of the pod" >&2; '
        f"exit 126; }}; done 4</proc/{first}/cgroup 5</proc/$q/cgroup; unset h d m q; "
    )
