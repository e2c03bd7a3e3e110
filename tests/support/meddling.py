"""A run on a booted node, and somebody else who does something on it in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Final

from hil.transport import NodeAddress, connected

PINNED: Final = "node/tasks-run-where-they-are-pinned"
#: The cpuset of the pod that it pins, whose CPUs are two: CPU 0 is reserved.
EXCLUSIVE: Final = "^[1-3]-[1-3]$"
#: Of containers; crun puts one a cgroup deeper than runc.
_SCOPES: Final = "/sys/fs/cgroup/kubepods.slice/*/cri-containerd-*.scope"
CPUSETS: Final = f"{_SCOPES}/cpuset.cpus {_SCOPES}/*/cpuset.cpus"


def pinproof(*words: str) -> subprocess.Popen[str]:
    """The command, whose output can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "pinproof", *words],
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def meddled(inventory: str, address: NodeAddress, hand: str) -> tuple[int, str, float]:
    """A run of one scenario on a machine of 4 CPUs; ``hand`` is a script for the moment when its
    pod's tasks run. The run's status, what it said, and the seconds from the hand to its end."""
    run = pinproof("run", "--subject", f"node:{inventory}", "-k", PINNED)
    try:
        with connected(address) as shell:
            wait = f"until grep -lsE '{EXCLUSIVE}' {CPUSETS}; do sleep 0.1; done"
            done = shell.run(f"{wait}\n{hand}", deadline=400)
            assert done.status == 0, done.stderr
        began = time.monotonic()
        said = run.communicate(timeout=600)[0]
    finally:
        run.kill()
        run.wait()
    return run.returncode, said, time.monotonic() - began
