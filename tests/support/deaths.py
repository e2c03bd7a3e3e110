"""A runner on a booted node, killed with SIGKILL in a chosen phase; and how the node is then,
without a hand. Used by ``tests/hil/test_lab_deaths.py`` and ``benchmarks/kills.py``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.distributions import distribution_of
from hil.inspection import gather, kubelet_of
from hil.inspection.script import LEFTOVERS
from hil.safety import Guarded, RemoveFile, Risk, SetOnline, WriteFile
from hil.safety.agent import PLACE
from hil.session.booting import booter
from hil.shell import NeedsKubelet, NodeError, outlast_kubelet
from hil.transport import NodeAddress, connect, connected, nodes
from reference.steps import KubeletConfig

ROOT: Final = Path(__file__).parents[2]
#: Seconds that the runner may be silent: on a busy host, one change alone takes twenty.
PATIENCE: Final = 40.0
#: Each phase, and the seconds that it takes on a host with little else to do.
PHASES: Final = {"taking": 3.0, "steps": 3.0, "reboot": 20.0, "restore": 6.0, "forgetting": 3.0}
#: A run that boots its node as a larger machine; no node can undo that by itself.
UPGRADE: Final = "upgrade"
#: Seconds until a node is as it was: a boot, the lease, the restart of a kubelet.
_WITHIN: Final = 400.0

#: What must be as before, one fact a line.
_LOOK: Final = f"""
cd /var/lib/kubelet && sha256sum config.yaml cpu_manager_state
find /etc/kubernetes /etc/systemd/system -printf '%p %y %m %U %s\\n' | sort
find /etc /var/lib/kubelet -maxdepth 3 -name '.pinproof*'
cat /sys/devices/system/cpu/online /sys/devices/system/cpu/present
systemctl is-active kubelet containerd
systemctl list-units --all --failed --plain --no-legend
systemctl list-units --all --plain --no-legend 'pinproof-dead-man*'
systemctl show -p Wants --value multi-user.target | tr ' ' '\\n' | sort
for f in {" ".join(LEFTOVERS)}; do [ ! -e "$f" ] || echo "left: $f"; done
ps -eo args | grep -F /var/lib/pinproof | grep -v grep
:
"""


def runner(inventory: str, phase: str) -> None:
    """What is killed. Prints the phase as it begins; what comes before it is done by then."""
    (address,) = nodes(inventory)
    shell = connect(address)
    facts = gather(shell)
    outlast_kubelet(shell)
    kubelet = kubelet_of(facts)
    flavour = distribution_of(facts)
    node = Guarded(
        shell, facts, Risk.REBOOT, "killed", allow=address.allow, patience=PATIENCE, settle=60
    )
    begun = {"taking"}

    def begins(name: str) -> None:
        if name == phase:
            print(name, flush=True)
        begun.add(name)

    if phase == "taking":
        print(phase, flush=True)
    node.__enter__()
    if isinstance(shell, NeedsKubelet):
        shell.outlast_boot(PLACE)
    if phase == "forgetting":
        node.offline(max(facts.online))
    else:
        begins("steps")
        node.change(
            WriteFile(f"{kubelet.manifests}/pinproof-death.yaml", b"kind: Pod\n"),
            SetOnline(max(facts.online), False),
            *flavour.configure(facts, KubeletConfig(policy="none")),
            RemoveFile(kubelet.state_path),
            then=f"{flavour.stop(facts)}\n{flavour.start(facts)}",
        )
    if phase == "reboot":
        begins("reboot")
        shell.run("systemctl reboot --no-block")
        time.sleep(_WITHIN)
    if phase == UPGRADE:
        begins(UPGRADE)
        boots = booter(address, shell)
        assert boots is not None
        boots(address.lab.replace("-4c-", "-6c-"))
        time.sleep(_WITHIN)
    if phase in ("restore", "forgetting"):
        begins(phase)
        node.leave()
    time.sleep(_WITHIN)


@dataclass(frozen=True, slots=True)
class Death:
    """One: the lines in which the node differs from before, and after how many seconds it no longer
    did, or was given up."""

    differences: tuple[str, ...]
    seconds: float


def look(address: NodeAddress) -> list[str]:
    """How the node is. Raises :class:`hil.shell.NodeError`."""
    with connected(address) as shell:
        return shell.run(_LOOK, deadline=60).text.splitlines()


def killed(
    inventory: str, phase: str, delay: float, *, reached: Callable[[], bool] = lambda: True
) -> None:
    """Start a runner, and kill it ``delay`` seconds into its phase, and not before ``reached``."""
    code = f"from tests.support.deaths import runner; runner({inventory!r}, {phase!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().strip()
            assert said == phase, f"the runner ended before: {said}"
            time.sleep(delay)
            end = time.monotonic() + _WITHIN
            while not reached():
                assert time.monotonic() < end
                time.sleep(0.2)
        finally:
            process.kill()


def undone(address: NodeAddress, before: list[str], *, within: float = _WITHIN) -> Death:
    """Wait until the node is as before, and do nothing to it."""
    began = time.monotonic()
    different: list[str] = ["it cannot be reached"]
    # For as long as the runner may have been alive, the node is as it left it.
    while time.monotonic() - began < within:
        time.sleep(2)
        with suppress(NodeError):
            seen = look(address)
            different = sorted({*seen} ^ {*before})
            if not different and time.monotonic() - began > PATIENCE:
                break
    return Death(tuple(different), time.monotonic() - began)
