"""``pinproof probe`` and ``pinproof restore``: what is printed, and the exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hil.inspection import NodeFacts
from hil.safety import Risk
from hil.transport import NodeAddress
from pinproof.probe import reasons_against
from tests.hil.conftest import Says
from tests.support.fakenode import FakeNode


@pytest.fixture
def inventory(reachable: FakeNode, tmp_path: Path) -> str:
    path = tmp_path / "lab.toml"
    path.write_text('[[node]]\nname = "node7"\nurl = "ssh://root@node7"\n')
    return str(path)


def test_a_probe_tells_what_a_node_is(inventory: str, fake: FakeNode, says: Says) -> None:
    before = fake.content()
    status, out, _ = says("probe", inventory, "--json")
    assert status == 0
    assert fake.content() == before
    (one,) = json.loads(out)
    assert (one["node"], one["distribution"], one["round trips"]) == ("node7", "kubeadm", 2)
    assert one["facts"]["kubelet"] == "v1.36.4"
    assert one["facts"]["machine"].startswith("2 sockets, 2 NUMA nodes, 16 physical cores")
    assert one["scenarios"]["apply"]
    reasons = set(one["scenarios"]["do not apply"].values())
    assert "needs --max-risk kubelet-restart" in reasons
    status, out, _ = says("probe", inventory)
    assert status == 0
    assert "kubeadm" in out
    assert "scenarios apply at --max-risk pods" in out


def test_a_probe_counts_on_a_boot_where_the_inventory_allows_it(inventory: str, says: Says) -> None:
    _, out, _ = says("probe", inventory, "--json", "--max-risk", "reboot")
    scenario = "restart/reboot-keeps-assignments"
    (one,) = json.loads(out)
    assert one["scenarios"]["do not apply"][scenario].startswith("cannot ")
    with Path(inventory).open("a") as file:
        file.write('allow = ["reboot"]\n')
    _, out, _ = says("probe", inventory, "--json", "--max-risk", "reboot")
    (one,) = json.loads(out)
    assert scenario in one["scenarios"]["apply"]


def test_more_risk_is_more_scenarios(described: NodeFacts) -> None:
    counts = [
        sum(not reason for reason in reasons_against(described, risk, boots=True).values())
        for risk in Risk
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < counts[2]


def test_what_a_read_only_probe_leaves_out_names_the_risk_that_permits_it(
    described: NodeFacts,
) -> None:
    """Each such scenario applies at the named risk; what is about a machine of the catalogue does
    at none."""
    reasons = reasons_against(described, Risk.READ_ONLY, boots=True)
    named = {one: reason.split()[-1] for one, reason in reasons.items() if "--max-risk" in reason}
    assert set(named.values()) == {"pods", "kubelet-restart", "cpu-offline", "reboot"}
    for risk in Risk:
        at = reasons_against(described, risk, boots=True)
        assert not [one for one, least in named.items() if least == risk.value and at[one]]
    own = reasons["machine/cpu-upgrade-incident"]
    assert own == "is about the catalogue's machine 1s-1n-4c-smt1, and never run on a real node"


def test_what_is_not_restored_is_status_5(inventory: str, fake: FakeNode, says: Says) -> None:
    fake.dies(120, Risk.PODS)
    own = fake.root / "etc/kubernetes/manifests/own.yaml"
    text = own.read_text()
    own.write_text("changed by somebody")
    status, _, err = says("restore", inventory)
    assert status == 3
    assert "s more: after that the node restores itself; --force restores it now, if that" in err
    status, _, err = says("restore", inventory, "--force")
    assert status == 5
    assert "/etc/kubernetes/manifests/own.yaml: was sha256:" in err
    own.write_text(text)
    status, out, _ = says("restore", inventory)
    assert (status, out) == (0, "node7: restored\n")
    status, out, _ = says("restore", inventory)
    assert (status, out) == (0, "node7: nothing to restore\n")


def test_a_dry_run_prints_what_would_run(inventory: str, says: Says) -> None:
    status, out, _ = says("restore", inventory, "--dry-run")
    assert status == 0
    assert "# on node7, as root" in out
    assert "restore" in out


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["probe", "node7"], 2, "a node is ssh://user@host:port"),
        (["probe", "absent.toml"], 2, "absent.toml: No such file"),
        (["probe", "ssh://root@127.0.0.1:1"], 3, "Unable to connect"),
        (["probe", "local:", "--max-risk", "all"], 2, "--max-risk 'all': it is one of read-only"),
        (["restore", "ssh://root@127.0.0.1:1"], 3, "Unable to connect"),
    ],
)
def test_trouble_is_one_line_and_a_status(
    words: list[str], status: int, expected: str, says: Says
) -> None:
    ended, _, err = says(*words)
    assert ended == status
    (line,) = [one for one in err.splitlines() if expected in one]
    assert line.startswith("pinproof: ")


def test_restoring_clears_the_cluster_too(
    inventory: str, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the inventory names a kubeconfig, what a dead run left behind it goes as well."""
    asked: list[str] = []

    def swept(address: NodeAddress, facts: NodeFacts) -> list[str]:
        asked.append(address.name)
        return ["pinproof-1234"]

    monkeypatch.setattr("hil.pods.apiserver.opening.swept", swept)
    place = Path(inventory)
    assert says("restore", inventory)[0] == 0
    assert not asked
    config = place.parent / "admin.conf"
    config.write_text("apiVersion: v1\nkind: Config\n")
    place.write_text(place.read_text() + f'kubeconfig = "{config}"\n')
    status, out, _ = says("restore", inventory)
    assert status == 0
    assert "removed from its cluster: pinproof-1234" in out
    assert len(asked) == 1


def test_pods_in_the_cluster_keep_no_node_from_being_restored(
    inventory: str, fake: FakeNode, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs may be theirs: they are removed before the node is given up."""
    place = Path(inventory)
    config = place.parent / "admin.conf"
    config.write_text("apiVersion: v1\nkind: Config\n")
    place.write_text(place.read_text() + f'kubeconfig = "{config}"\n')
    fake.dies(120, Risk.PODS)
    pod = "kubepods.slice/kubepods-pod7a1b0c1e_0000_4000_8000_000000000009.slice"
    left = fake.file(f"/sys/fs/cgroup/{pod}/cpuset.cpus", "\n")

    def swept(address: NodeAddress, facts: NodeFacts) -> list[str]:
        there = left.exists()
        shutil.rmtree(left.parent, ignore_errors=True)
        return ["pinproof-1234"] if there else []

    monkeypatch.setattr("hil.pods.apiserver.opening.swept", swept)
    status, out, _ = says("restore", inventory, "--force")
    assert (status, "restored; removed from its cluster: pinproof-1234" in out) == (0, True)
