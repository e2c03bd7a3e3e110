"""Deliberately wrong nodes, for real: a booted kernel, containerd and a kubelet, with one fault put
in, must be caught; the same node without it must not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hil.lab import Node
from hil.lab.kubelet import STATE
from hil.transport import connected
from hil.transport import nodes as read_inventory
from tests.support.node_runs import judged

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-wrong"
#: Most nodes have runc; the lab's other ones run crun.
WISH: Final = {"oci": "runc"}
PINNED: Final = "node/tasks-run-where-they-are-pinned"
KEPT: Final = "restart/deleted-while-down-is-freed"

#: Writes all CPUs into every container's cgroup, again and again.
WIDEN: Final = """\
[Service]
ExecStart=/bin/sh -c 'while sleep 0.2; do \
for f in /sys/fs/cgroup/kubepods.slice/*/cri-containerd-*.scope/cpuset.cpus; do \
echo 0-3 >"$f"; done 2>/dev/null; done'
"""
#: An OCI runtime that starts nothing.
NOTHING: Final = """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mount --bind /bin/false "$$(command -v runc)"'
ExecStop=/bin/sh -c 'umount "$$(command -v runc)"'
"""
#: A kubelet that comes up as if it had never run.
LOSE: Final = f"""\
[Service]
ExecStartPre=/bin/rm -f {STATE}
"""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A unit file that makes a node wrong while ``service`` runs, if that is not the kubelet's."""

    path: str
    text: str
    service: str = ""

    def to(self, verb: str) -> str:
        """What starts or stops its service."""
        return f"systemctl {verb} {self.service}" if self.service else "true"


WIDENER: Final = Wrong("/etc/systemd/system/widener.service", WIDEN, "widener")
IDLE: Final = Wrong("/etc/systemd/system/idle.service", NOTHING, "idle")
LOSER: Final = Wrong("/etc/systemd/system/kubelet.service.d/lose.conf", LOSE)


@contextmanager
def made_wrong(node: Node, how: Wrong) -> Iterator[None]:
    """The node with the fault in it, for a while."""
    (address,) = read_inventory(str(node.folder / "lab.toml"))
    with connected(address) as shell:
        put = f"mkdir -p {Path(how.path).parent} && cat >{how.path} && systemctl daemon-reload"
        assert shell.run(put, stdin=how.text.encode(), deadline=60).status == 0
        assert shell.run(how.to("start"), deadline=60).status == 0
        try:
            yield
        finally:
            shell.run(f"{how.to('stop')}; rm {how.path}; systemctl daemon-reload", deadline=60)


def test_a_node_that_does_as_it_ought_to_is_not_blamed(node: Node, tmp_path: Path) -> None:
    """What the wrong ones are compared with."""
    made = judged(node.folder / "lab.toml", PINNED, KEPT, report=tmp_path)
    assert "2 promises kept" in made.output


@pytest.mark.parametrize(
    ("how", "scenario", "said"),
    [
        # The state file and the kubelet say one thing, the kernel does another.
        (WIDENER, PINNED, ["the promise is broken", "expected", "0-3"]),
        # The pod that stays moves to the CPUs of the one that went.
        (LOSER, KEPT, ["the node differs from the model of"]),
    ],
    ids=["writes a wrong cpuset into the cgroup", "loses assignments at its start"],
)
def test_a_wrong_node_is_caught(
    how: Wrong, scenario: str, said: list[str], node: Node, tmp_path: Path
) -> None:
    with made_wrong(node, how):
        made = judged(node.folder / "lab.toml", scenario, report=tmp_path, status=1)
    assert [one for one in said if one not in made.output] == []


def test_a_node_that_starts_no_container_is_told_in_time(node: Node, tmp_path: Path) -> None:
    """Its pod has 120 s to run, and is then watched for 30 s; nobody waits for 120 s again."""
    with made_wrong(node, IDLE):
        made = judged(node.folder / "lab.toml", PINNED, report=tmp_path, status=1)
    assert "pending, Guaranteed" in made.output
    (result,) = made.results
    assert 120 <= result.seconds < 2 * 120
