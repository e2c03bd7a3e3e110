"""A task that is pinned to an exclusive CPU of a booted node, and an interrupt, are named.

Minutes under emulation, so only where ``PINPROOF_LAB`` asks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from hil.transport import NodeAddress, connected
from pinproof.cli import app

NAME: Final = "test-noise"

pytestmark = pytest.mark.needs("lab")

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


def test_a_task_and_an_interrupt_on_an_exclusive_cpu_are_named(
    inventory: str, address: NodeAddress, tmp_path: Path
) -> None:
    """As facts: this node claims no isolation. A bound that nothing keeps is a failure."""
    with connected(address) as shell:
        assert shell.run(_PLANT).status == 0
    words = ["certify", inventory, "--noise", "--max-latency", "1", "-k", "qos/fraction-shares"]
    ended = CliRunner().invoke(app, [*words, "--report", str(tmp_path)])
    path = next(tmp_path.rglob("certificate.json"), None)
    assert path is not None, ended.output
    made = json.loads(path.read_text())["predicate"]["pinproof"]
    assert "backup (" in made["facts"]["tasks of others on exclusive CPUs"]
    assert "put.0) " in made["facts"]["interrupts on exclusive CPUs"]
    gap = made["judged"][0]
    assert (gap["what"], gap["claim"]) == ("longest gap on exclusive CPUs 1", "--max-latency 1 us")
    assert not gap["kept"]
    assert (ended.exit_code, made["verdict"]) == (1, "failure")
    assert not [one for one in made["judged"] if "tasks" in one["what"]]
