"""An upgrade of a booted node's kubelet by one command, and its runner killed in between: QEMU, a
real kernel, containerd, and two real kubelets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.kubelets import cached
from hil.inspection import gather, kubelet_of
from hil.transport import NodeAddress, connected
from reports.certificate import read
from tests.hil.test_lab_deaths import all_undone
from tests.support import lacking
from tests.support.deaths import look
from tests.support.meddling import pinproof

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-upgrade"
#: One that is booted already may run another kubelet.
OWN_NODE: Final = True
WISH: Final[dict[str, Any]] = {"specs": ["1s-1n-4c-smt2"]}


@pytest.fixture(scope="module")
def other(address: NodeAddress) -> str:
    """A kubelet of the cache that the node does not run: the newest release of them."""
    with connected(address) as shell:
        runs = kubelet_of(gather(shell)).version
    found = [str(one.path) for one in cached() if f"v{one.version}" != runs]
    return found[0] if found else lacking.skip("kubelet", "a second one")


def test_a_node_is_upgraded_and_taken_back_by_one_command(
    inventory: str, address: NodeAddress, other: str, tmp_path: Path
) -> None:
    """Its own kubelet is put back; that nothing else differs either, the deaths below show."""
    words = ["-k", "qos/fraction-shares", "--report", str(tmp_path)]
    before = look(address), program(address)
    process = pinproof("certify", inventory, "--upgrade-to", other, *words)
    said = process.communicate(timeout=1800)[0]
    assert process.returncode == 4, said  # one scenario is too few
    made = read((tmp_path / NAME / "certificate.json").read_bytes()).facts
    assert made.upgrade is not None
    assert made.upgrade.outcome == "kept", made.upgrade.words
    assert made.restored
    first, second, third, fourth = made.upgrade.stages
    assert len({first.kubelet, second.kubelet}) == 2
    assert (third.kubelet, fourth.kubelet) == (first.kubelet, second.kubelet)
    assert len(first.exclusive) >= 2
    for stage in (second, third, fourth):
        assert stage.exclusive.items() >= first.exclusive.items()
        assert stage.restarted == []
    assert (look(address), program(address)) == before


def program(address: NodeAddress) -> str:
    """The sum, the mode and the time of the kubelet's program."""
    with connected(address) as shell:
        return shell.run("cd /usr/local/bin; sha256sum kubelet; stat -c '%a %Y' kubelet").text


def test_an_upgrade_is_told_as_json(inventory: str, other: str) -> None:
    process = pinproof("upgrade", f"node:{inventory}", other, "--by", "kill", "--json")
    said = process.communicate(timeout=1800)[0]
    assert process.returncode == 0, said
    facts = json.loads(said[said.index("{") :])
    assert facts["verdict"] == "pass"
    assert facts["pinned"] >= 2


@pytest.mark.parametrize(
    "moments", ["program is written", "nothing runs", "other kubelet runs", "asked to end"]
)
def test_a_death_in_an_upgrade_is_undone_without_a_hand_or_a_trace(
    moments: str, inventory: str, other: str
) -> None:
    """Four of the seven of ``python -m tests.hil.deaths INVENTORY --upgrade-to KUBELET``."""
    all_undone(inventory, "--moments", moments, "--upgrade-to", other)
