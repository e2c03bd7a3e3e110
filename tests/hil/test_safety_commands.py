"""``pinproof probe`` and ``pinproof restore``: what is printed, and the exit status."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hil.inspection
import hil.pods.apiserver.opening
import pinproof.probe
import pinproof.restore
from hil.inspection import NodeFacts
from hil.safety import Guarded, Risk, restore_node
from hil.transport import NodeAddress
from hil.transport.local import LocalShell
from pinproof.cli import main
from pinproof.probe import reasons_against
from tests.support.fakenode import FakeNode


@pytest.fixture
def inventory(fake: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the node made of files, as if it were reached."""

    @contextmanager
    def connected(address: NodeAddress) -> Iterator[LocalShell]:
        yield fake.shell(address.name)

    root = str(fake.root)
    for module in (pinproof.probe, pinproof.restore):
        monkeypatch.setattr(module, "connected", connected)
    monkeypatch.setattr(
        pinproof.probe, "gather", lambda shell, **given: hil.inspection.gather(shell, root=root)
    )
    monkeypatch.setattr(
        pinproof.restore,
        "restore_node",
        lambda shell, force: restore_node(shell, root=root, force=force),
    )
    path = tmp_path / "lab.toml"
    path.write_text('[[node]]\nname = "node7"\nurl = "ssh://root@node7"\n')
    return str(path)


def pinproof_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["pinproof", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_probe_tells_what_a_node_is(
    inventory: str,
    fake: FakeNode,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fake.content()
    status, out, _ = pinproof_says(capsys, monkeypatch, "probe", inventory, "--json")
    assert status == 0
    assert fake.content() == before
    (one,) = json.loads(out)
    assert (one["node"], one["distribution"], one["round trips"]) == ("node7", "kubeadm", 2)
    assert one["facts"]["kubelet"] == "v1.36.4"
    assert one["facts"]["machine"].startswith("2 sockets, 2 NUMA nodes, 16 physical cores")
    assert one["scenarios"]["apply"]
    reasons = set(one["scenarios"]["do not apply"].values())
    assert "needs --max-risk kubelet-restart" in reasons
    status, out, _ = pinproof_says(capsys, monkeypatch, "probe", inventory)
    assert status == 0
    assert "kubeadm" in out
    assert "scenarios apply at --max-risk pods" in out


def test_more_risk_is_more_scenarios(facts: NodeFacts) -> None:
    counts = [
        sum(not reason for reason in reasons_against(facts, risk, lab=True).values())
        for risk in Risk
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < counts[2]


def test_what_a_read_only_probe_leaves_out_names_the_risk_that_permits_it(
    facts: NodeFacts,
) -> None:
    """Each such scenario applies at the named risk; what is about a machine of the catalogue does
    at none."""
    reasons = reasons_against(facts, Risk.READ_ONLY, lab=True)
    named = {one: reason.split()[-1] for one, reason in reasons.items() if "--max-risk" in reason}
    assert set(named.values()) == {"pods", "kubelet-restart", "cpu-offline", "reboot"}
    for risk in Risk:
        at = reasons_against(facts, risk, lab=True)
        assert not [one for one, least in named.items() if least == risk.value and at[one]]
    own = reasons["machine/cpu-upgrade-incident"]
    assert own == "is about the catalogue's machine 1s-1n-4c-smt1, and never run on a real node"


def test_what_is_not_restored_is_status_5(
    inventory: str,
    fake: FakeNode,
    facts: NodeFacts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line for each difference; and it says what was restored once that is mended."""
    node = Guarded(fake.shell(), facts, Risk.PODS, "test", settle=0)
    contextlib.ExitStack().enter_context(node)
    node._over.set()
    own = fake.root / "etc/kubernetes/manifests/own.yaml"
    text = own.read_text()
    own.write_text("changed by somebody")
    status, _, err = pinproof_says(capsys, monkeypatch, "restore", inventory)
    assert status == 3
    assert "s more: after that the node restores itself; --force if that run is dead" in err
    status, _, err = pinproof_says(capsys, monkeypatch, "restore", inventory, "--force")
    assert status == 5
    assert "/etc/kubernetes/manifests/own.yaml: was sha256:" in err
    own.write_text(text)
    status, out, _ = pinproof_says(capsys, monkeypatch, "restore", inventory)
    assert (status, out) == (0, "node7: restored\n")
    status, out, _ = pinproof_says(capsys, monkeypatch, "restore", inventory)
    assert (status, out) == (0, "node7: nothing to restore\n")


def test_a_dry_run_prints_what_would_run(
    inventory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = pinproof_says(capsys, monkeypatch, "restore", inventory, "--dry-run")
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
    words: list[str],
    status: int,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, _, err = pinproof_says(capsys, monkeypatch, *words)
    assert ended == status
    (line,) = [one for one in err.splitlines() if expected in one]
    assert line.startswith("pinproof: ")


def test_restoring_clears_the_cluster_too(
    fake: FakeNode,
    inventory: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where the inventory names a kubeconfig, what a dead run left behind it goes as well."""
    asked: list[str] = []

    def swept(address: NodeAddress, facts: NodeFacts) -> list[str]:
        asked.append(address.name)
        return ["pinproof-1234"]

    monkeypatch.setattr(hil.pods.apiserver.opening, "swept", swept)
    monkeypatch.setattr(
        pinproof.restore,
        "gather",
        lambda shell, **given: hil.inspection.gather(shell, root=str(fake.root)),
    )
    place = Path(inventory)
    assert pinproof_says(capsys, monkeypatch, "restore", inventory)[0] == 0
    assert not asked
    config = place.parent / "admin.conf"
    config.write_text("apiVersion: v1\nkind: Config\n")
    place.write_text(place.read_text() + f'kubeconfig = "{config}"\n')
    status, out, _ = pinproof_says(capsys, monkeypatch, "restore", inventory)
    assert status == 0
    assert "removed from its cluster: pinproof-1234" in out
    assert len(asked) == 1
