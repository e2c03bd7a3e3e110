"""What tells a node from its like: read from it, and in a certificate only as digests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from hil.inspection import Marks, NodeFacts, marks
from hil.shell import Done, NodeUnfit, Shell
from hil.transport.local import LocalShell
from pinproof import certifiable
from pinproof import verify as verifying
from pinproof.cli import app
from reports.certificate import encode, html
from reports.certificate.unit import compared, unit_of
from tests.support.certificates import certificate, result, run
from tests.support.fakenode import FakeNode

KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBcdef root@node7"
MACHINE_ID: Final = "0123456789abcdef0123456789abcdef"
SERIAL: Final = "CZ31234567"
DMI: Final = "/sys/class/dmi/id"
SMALL_NODE: Final = True


@pytest.fixture
def node(fake: FakeNode) -> FakeNode:
    fake.file("/etc/ssh/ssh_host_ed25519_key.pub", f"{KEY}\n")
    fake.file("/etc/machine-id", f"{MACHINE_ID}\n")
    fake.file(f"{DMI}/product_serial", f"{SERIAL}\n")
    fake.file(f"{DMI}/board_serial", "To be filled by O.E.M.\n")
    fake.file("/sys/devices/system/cpu/smt/control", "off\n")
    for cpu in range(fake.cpus):
        name = "powersave" if cpu > 3 else "performance"
        fake.file(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", f"{name}\n")
    return fake


def of(node: FakeNode) -> Marks:
    return marks(node.shell(), root=str(node.root))


def test_a_node_has_marks_and_settings(node: FakeNode) -> None:
    """A placeholder of a board's maker is no serial number, and a key is the same whatever its
    comment is."""
    found = of(node)
    assert found.values == {
        "SSH host key (ed25519)": KEY.rpartition(" ")[0],
        "machine id": MACHINE_ID,
        "product serial": SERIAL,
    }
    assert found.unread == {
        "SSH host key (ecdsa)": "not there",
        "SSH host key (rsa)": "not there",
        "product uuid": "not there",
        "board serial": "names no unit",
    }
    assert found.settings == {
        "SMT control": "off",
        "intel_pstate": "not there",
        "amd_pstate": "not there",
        "governor": f"performance (0-3), powersave (4-{node.cpus - 1})",
    }


def test_what_many_nodes_have_is_no_mark(node: FakeNode) -> None:
    blank = "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"
    for text in ("", "None", "0000000000", "Default string", blank):
        node.file(f"{DMI}/product_serial", f"{text}\n")
        found = of(node)
        assert "product serial" not in found.values
        assert found.unread["product serial"] in ("names no unit", "not there"), text


@pytest.mark.needs("setpriv")
def test_what_may_not_be_read_is_said(node: FakeNode) -> None:
    """Whoever is not root reads no serial number."""
    (node.root / DMI.lstrip("/") / "product_serial").chmod(0)
    shell: Shell = node.shell()
    if os.geteuid() == 0:
        shell = _AsNobody("fake", environment=node.environment)
        for folder in [node.root, *node.root.parents][:-2]:
            folder.chmod(folder.stat().st_mode | 0o055)
    found = marks(shell, root=str(node.root))
    assert found.unread["product serial"] == "not readable"
    assert found.values["machine id"] == MACHINE_ID


class _AsNobody(LocalShell):
    def run(self, script: str, **bounds: Any) -> Done:
        drop = "exec setpriv --reuid=65534 --regid=65534 --clear-groups sh"
        return super().run(drop, **{**bounds, "stdin": script.encode()})


def test_an_answer_that_was_cut_off_is_one_line(node: FakeNode) -> None:
    class Cut(LocalShell):
        def run(self, script: str, **bounds: Any) -> Done:
            return Done(0, super().run(script, **bounds).stdout[:-8], b"")

    with pytest.raises(NodeUnfit, match=r"its answer cannot be read: it was cut off$"):
        marks(Cut("fake", environment=node.environment), root=str(node.root))


def test_two_certificates_of_one_node_have_no_digest_in_common(node: FakeNode) -> None:
    values = of(node).values
    one, other = unit_of(values, {}), unit_of(values, {})
    assert one.digests.keys() == values.keys()
    assert not {*one.digests.values()} & {*other.digests.values()}
    assert compared(one, values).same
    assert compared(other, values).same


def test_units_are_told_apart() -> None:
    unit = unit_of({"machine id": "a", "product serial": "b"}, {})
    same = compared(unit, {"machine id": "a", "board serial": "c"})
    not_compared = "not compared: product serial, board serial"
    assert str(same) == f"the same unit: equal: machine id; {not_compared}"
    again = compared(unit, {"machine id": "x", "product serial": "b"})
    assert str(again) == "another unit: different: machine id; equal: product serial"
    nothing = compared(unit, {})
    assert str(nothing) == "nothing could be compared: not compared: machine id, product serial"
    assert [one.same for one in (same, again, nothing)] == [True, False, False]


@pytest.fixture
def path(node: FakeNode, described: NodeFacts, tmp_path: Path) -> Path:
    unit = certifiable.of_node(described, of(node)).unit
    statement = certificate(run(result("pass")), tmp_path, unit=unit)
    (tmp_path / "certificate.html").write_text(html(statement), encoding="utf-8")
    (tmp_path / "certificate.json").write_bytes(encode(statement))
    return tmp_path / "certificate.json"


def test_no_mark_is_in_a_certificate_or_its_page(path: Path) -> None:
    for file in (path, path.with_suffix(".html")):
        text = file.read_text(encoding="utf-8")
        assert "product serial" in text
        for mark in (SERIAL, MACHINE_ID, KEY.split()[1]):
            assert mark not in text


def answer(path: Path) -> tuple[str, str]:
    done = CliRunner().invoke(app, ["verify", str(path), "--unit", "ssh://node7", "--json"])
    found = json.loads(done.stdout)
    (row,) = (one for one in found["checks"] if one["what"] == "the unit")
    assert done.exit_code == (1 if found["wrong"] else 0)
    return row["answer"], row["detail"]


def test_verify_says_whether_a_node_is_the_certified_one(
    path: Path, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same hardware that was installed again is told, too."""
    monkeypatch.setattr(verifying, "_marks", lambda _place: of(node).values)
    all_three = "SSH host key (ed25519), machine id, product serial"
    assert answer(path) == ("ok", f"the same unit: equal: {all_three}")
    node.file("/etc/machine-id", "fedcba9876543210fedcba9876543210\n")
    node.file("/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAother\n")
    assert answer(path) == (
        "wrong",
        "another unit: different: SSH host key (ed25519), machine id; equal: product serial",
    )


def test_one_node_is_asked(path: Path, tmp_path: Path) -> None:
    inventory = tmp_path / "lab.toml"
    entry = '[[node]]\nname = "node{0}"\nurl = "ssh://root@127.0.0.1:{0}"\n'
    inventory.write_text(entry.format(1) + entry.format(2))
    done = CliRunner().invoke(app, ["verify", str(path), "--unit", str(inventory)])
    assert str(done.exception) == f"--unit {inventory}: expected one node, found 2"
