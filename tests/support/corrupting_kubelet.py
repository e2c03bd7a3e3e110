"""A kubelet that lies: the real one, with one assignment in its state file changed.

Run by the tests as if it were a kubelet: ``PINPROOF_REAL_KUBELET`` names the real one. As soon as
the state file shows an exclusive assignment, its lowest CPU is exchanged for the highest CPU of
the shared pool, in the assignment and in the pool, with a checksum that holds. The kubelet's own
memory and what it tells the runtime stay right, so file and runtime disagree. Whatever the kubelet
writes afterwards is changed again.

It stays the parent of the kubelet: a harness that kills only the process it started would leave
the real kubelet behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.cpuset import CPUSet
from reference.errors import CheckpointError

STATE_FILE = Path("/var/lib/kubelet/cpu_manager_state")


def corrupted(text: str) -> str:
    """The state file with the first assignment changed; unchanged where there is none."""
    state = Checkpoint.loads(text, release="1.36")
    for uid, containers in state.entries.items():
        for name, cpus in containers.items():
            given, taken = min(cpus), max(state.default_cpuset)
            return Checkpoint(
                policy_name=state.policy_name,
                default_cpuset=state.default_cpuset - CPUSet([taken]) | CPUSet([given]),
                entries={
                    **state.entries,
                    uid: {**containers, name: cpus - CPUSet([given]) | CPUSet([taken])},
                },
            ).dumps(release="1.36")
    return text


def watch(process: subprocess.Popen[bytes]) -> int:
    """Until the kubelet ends: change what it writes."""
    written = ""
    while True:
        try:
            return process.wait(timeout=0.002)
        except subprocess.TimeoutExpired:
            pass
        try:
            text = STATE_FILE.read_text()
            changed = text if text == written else corrupted(text)
            if changed != text:  # else a newer file could be overwritten by what was read before
                written = changed
                STATE_FILE.write_text(written)
        except (OSError, CheckpointError):
            continue  # not there yet, or half written


def main() -> int:
    real = os.environ["PINPROOF_REAL_KUBELET"]
    if sys.argv[1:] == ["--version"]:
        os.execv(real, [real, *sys.argv[1:]])
    return watch(subprocess.Popen([real, *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
