"""Certificates of a lab node that is booted for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from hil.lab import Node
from hil.transport import NodeAddress, connected
from reports.certificate import Statement, read
from tests.support.node_runs import pinproof

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-certify"
#: Their title is its name.
OWN_NODE: Final = True
#: CPU 0 is reserved, so the first exclusive one is CPU 1. Whatever the node sends wakes a virtio
#: device, whose interrupts come there, too.
_PLANT: Final = r"""
cat >/root/backup.pl <<'X'
$0 = "backup"; exit if fork; setpgrp;
open STDIN, "</dev/null"; open STDOUT, ">/dev/null"; open STDERR, ">/dev/null";
system("taskset -pc 1 $$ >/dev/null");
while (1) { select(undef, undef, undef, 0.05); $i = 0; $i++ while $i < 2000 }
X
perl /root/backup.pl
for irq in /proc/irq/[0-9]*; do
  ls "$irq" | grep -q 'virtio.*put' && echo 1 >"$irq/smp_affinity_list"
done
true
"""


def certified(node: Node, report: Path, *words: str, status: int = 4) -> Statement:
    words = (*words, "-k", "qos/fraction-shares", "--report", str(report))
    said = pinproof("certify", node.folder / "lab.toml", *words, status=status).stdout
    assert said.splitlines()[-1] == f"{report}/{NAME}/certificate.html"
    assert "Conformant" not in said
    return read((report / NAME / "certificate.json").read_bytes())


def test_two_certificates_of_one_node_are_of_one_machine(node: Node, tmp_path: Path) -> None:
    """And each is sound, signed, says who certified and that the node is emulated."""
    key = tmp_path / "vendor"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "jo", "-f", str(key)], check=True
    )
    (tmp_path / "allowed").write_text(f"vendor@example.org {key.with_suffix('.pub').read_text()}")
    one = certified(node, tmp_path / "one", "--sign", str(key))
    two = certified(node, tmp_path / "two", "--operator", "the lab")
    assert one.facts.machine.hardware_digest == two.facts.machine.hardware_digest
    assert one.facts.configuration == two.facts.configuration
    assert [one.facts.operator, two.facts.operator] == ["jo", "the lab"]
    facts = one.facts
    assert (facts.title, facts.verdict, facts.system.emulated) == (NAME, "partial", "QEMU")
    assert facts.profiles[0].ran == 1
    assert facts.machine.processor
    assert facts.firmware.firmware_vendor == "SeaBIOS"
    assert facts.system.os.startswith("Debian")
    assert facts.configuration.settings["cpuManagerPolicy"] == "static"
    folder = tmp_path / "one" / NAME
    files = [folder / "certificate.json", folder / "result.jsonl"]
    allowed = ["--allowed-signers", tmp_path / "allowed"]
    checks = json.loads(pinproof("verify", *files, *allowed, "--json", status=0).stdout)["checks"]
    signed = {"what": "the signature", "answer": "ok", "detail": "by vendor@example.org"}
    assert signed in checks


def test_a_task_and_an_interrupt_on_an_exclusive_cpu_are_named(
    node: Node, address: NodeAddress, tmp_path: Path
) -> None:
    """As facts: this node claims no isolation. A bound that nothing keeps is a failure."""
    with connected(address) as shell:
        assert shell.run(_PLANT).status == 0
    facts = certified(node, tmp_path, "--noise", "--max-latency", "1", status=1).facts
    assert "backup (" in facts.facts["tasks of others on exclusive CPUs"]
    assert "put.0) " in facts.facts["interrupts on exclusive CPUs"]
    gap = facts.judged[0]
    assert (gap.what, gap.claim) == ("longest gap on exclusive CPUs 1", "--max-latency 1 us")
    assert not gap.kept
    assert facts.verdict == "failure"
    assert not [one for one in facts.judged if "tasks" in one.what]
