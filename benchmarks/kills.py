"""A runner killed with SIGKILL at random moments: is all restored?

python -m benchmarks.kills 50 [SEED]                on a node made of files, by restore
python -m benchmarks.kills 20 SEED lab.toml         on a booted node of the lab, without a hand
python -m benchmarks.kills 5 SEED lab.toml restore  there, by `pinproof restore --force`
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hil.distributions import distribution_of
from hil.inspection import gather
from hil.safety import (
    Guarded,
    InstallFile,
    Note,
    PutBack,
    RemoveFile,
    Risk,
    SetOnline,
    WriteFile,
    restore_node,
)
from hil.transport import nodes
from hil.transport.local import LocalShell
from reference.steps import KubeletConfig
from tests.support import deaths
from tests.support.fakenode import FakeNode
from tests.support.until import until

CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET = "/usr/bin/kubelet"
STATE = "/var/lib/kubelet/cpu_manager_state"


def runner(root: str) -> None:
    """What is killed: goes round and round over all kinds of changes."""
    shell = LocalShell("fake")
    facts = gather(shell, root=root)
    flavour = distribution_of(facts)
    while True:
        print("round", flush=True)
        with Guarded(shell, facts, Risk.CPU_OFFLINE, "killed", settle=0) as node:
            node.change(
                WriteFile("/etc/kubernetes/manifests/pod.yaml", b"kind: Pod"),
                SetOnline(5, False),
                Note(f"rm -f {root}/etc/kubernetes/made-by-hand"),
                then=f"touch {root}/etc/kubernetes/made-by-hand",
            )
            node.change(
                *flavour.configure(facts, KubeletConfig(policy="none")),
                RemoveFile(STATE),
                InstallFile(KUBELET, CONFIG),
                then=f"{flavour.stop(facts)}\n{flavour.start(facts)}",
            )
            node.change(PutBack(KUBELET))


def killed_once(fake: FakeNode, delay: float) -> list[str]:
    """Start a runner, kill it ``delay`` seconds into its first round, restore; what differs."""
    before = fake.content()
    code = f"from benchmarks.kills import runner; runner({str(fake.root)!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**fake.environment, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.kill()
    process.wait()
    process.stdout.close()
    restore_node(fake.shell(), root=str(fake.root), force=True)
    until(lambda: _is_free(fake), 30)
    after = fake.content()
    wrong = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    if not fake.running:
        wrong.append("the kubelet is down")
    if (fake.root / "var/lib/pinproof").exists():
        wrong.append("the journal is still there")
    return wrong


def _is_free(fake: FakeNode) -> bool:
    """Whether nothing of a run is on the node. A script that was just taking it held no lock that
    ``force`` could end, so its folder may come again (docs/explanation/hil.md). A real node's
    dead-man timer restores that when the lease has ended, which is done here, once the
    script has ended too."""
    if _a_script_runs(fake):
        return False
    place = fake.root / "var/lib/pinproof"
    if place.exists():
        (place / "lease").unlink(missing_ok=True)
        restore_node(fake.shell(), root=str(fake.root))
    return not place.exists()


def _a_script_runs(fake: FakeNode) -> bool:
    """Whether a process that found the node's programs first is left."""
    path = f"PATH={fake.environment['PATH']}".encode()
    for process in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if path in process.read_bytes().split(b"\0"):
                return True
    return False


def main(times: int, seed: int) -> int:
    """Print each moment; the number of those that were not restored."""
    chosen = random.Random(seed)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeNode(Path(folder) / "root")
        shell = fake.shell()
        facts = gather(shell, root=str(fake.root))
        began = time.monotonic()
        with Guarded(shell, facts, Risk.CPU_OFFLINE, "measured", settle=0) as node:
            node.change(SetOnline(5, False), RemoveFile(STATE))
        span = 2.5 * (time.monotonic() - began)
        for number in range(times):
            delay = chosen.uniform(0, span)
            wrong = killed_once(fake, delay)
            bad += bool(wrong)
            print(f"{number + 1}: killed after {delay:.3f} s: {', '.join(wrong) or 'restored'}")
    print(f"{times - bad} of {times} restored")
    return bad


def booted(times: int, seed: int, inventory: str) -> int:
    """The same on a booted node, the deaths drawn over the phases of a run; nobody restores it."""
    chosen = random.Random(seed)
    (address,) = nodes(inventory)
    before = deaths.look(address)
    bad = 0
    for number in range(times):
        phase = list(deaths.PHASES)[number % len(deaths.PHASES)]
        delay = chosen.uniform(0, deaths.PHASES[phase])
        deaths.killed(inventory, phase, delay)
        death = deaths.undone(address, before)
        bad += bool(death.differences)
        outcome = ", ".join(death.differences) or f"as before after {death.seconds:.0f} s"
        print(f"{number + 1}: killed {delay:.1f} s into {phase}: {outcome}", flush=True)
    print(f"{times - bad} of {times} restored without a hand")
    return bad


def by_hand(times: int, seed: int, inventory: str) -> int:
    """Deaths on a booted node, each followed by ``pinproof restore --force``; print how long that
    took. Without the phases in which the node itself boots."""
    chosen = random.Random(seed)
    (address,) = nodes(inventory)
    before = deaths.look(address)
    phases = [phase for phase in deaths.PHASES if phase != "reboot"]
    bad = 0
    for number in range(times):
        phase = phases[number % len(phases)]
        delay = chosen.uniform(0, deaths.PHASES[phase])
        deaths.killed(inventory, phase, delay)
        began = time.monotonic()
        command = [sys.executable, "-m", "pinproof", "restore", inventory, "--force"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        wrong = sorted({*deaths.look(address)} ^ {*before})
        wrong += [f"exit status {done.returncode}: {done.stderr}"] if done.returncode else []
        bad += bool(wrong)
        outcome = ", ".join(wrong) or "as before"
        print(f"{number + 1}: {delay:.1f} s into {phase}: restore took {seconds:.1f} s: {outcome}")
    print(f"{times - bad} of {times} restored")
    return bad


if __name__ == "__main__":
    words = sys.argv[1:]
    wanted, drawn = int(words[0]) if words else 50, int(words[1]) if words[1:] else 1
    if words[3:] == ["restore"]:
        sys.exit(bool(by_hand(wanted, drawn, words[2])))
    sys.exit(bool(booted(wanted, drawn, words[2]) if words[2:] else main(wanted, drawn)))
