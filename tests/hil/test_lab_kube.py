"""A booted node that belongs to a real API server, which its pods come through. It is reached over
SSH, and through the server alone: the same verdicts, and the node as it was, whenever the runner
dies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hil.lab import Node
from hil.lab.names import NODE_NAME
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.transport import NodeAddress, connected
from hil.transport import nodes as read_inventory
from tests.support.cluster import Cluster, running_cluster
from tests.support.deaths import PHASES, killed, look, undone
from tests.support.lab_cluster import await_node, joined
from tests.support.node_runs import judged
from tests.support.until import until

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-kube"
#: Pinned tasks, a rejection, a kubelet that is stopped, one that refuses to start, another policy,
#: and a boot.
SCENARIOS: Final = (
    "node/tasks-run-where-they-are-pinned",
    "qos/whole-cpus-are-exclusive",
    "restart/deleted-while-down-is-freed",
    "restart/reboot-keeps-assignments",
    "config/unknown-policy-is-refused",
)
#: A run makes at most so many times as many round trips as over SSH.
TIMES: Final = 1.3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One that reaches its node."""
    folder = tmp_path_factory.mktemp("c")
    with running_cluster(folder, egress=folder / "egress") as made:
        yield made


@dataclass(frozen=True, slots=True)
class Ways:
    """Two inventories of one node."""

    ssh: Path
    kube: Path

    @property
    def address(self) -> NodeAddress:
        """Over SSH."""
        return read_inventory(str(self.ssh))[0]


@pytest.fixture(scope="module")
def ways(node: Node, cluster: Cluster) -> Iterator[Ways]:
    with joined(node, cluster, egress=cluster.folder / "egress") as ssh:
        await_node(cluster, ready=True)
        text = ssh.read_text()
        text = re.sub(r"^(identity|known_hosts) = .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^url = .*$", f'url = "kube://{NODE_NAME}"', text, flags=re.MULTILINE)
        kube = node.folder / "kube.toml"
        kube.write_text(f'{text}transport_image = "{WORKLOAD_IMAGE}"\n')
        yield Ways(ssh, kube)


def _judged(inventory: Path, report: Path) -> tuple[dict[str, str], int]:
    """Verdicts by scenario, and round trips."""
    made = judged(inventory, *SCENARIOS, report=report)
    trips = re.search(r"(\d+) round trips", made.output)
    assert trips is not None, made.output
    return made.verdicts, int(trips[1])


def _stays(cluster: Cluster) -> list[str]:
    spaces = [one.metadata.name for one in cluster.admin.list_namespace().items]
    pods = [one.metadata.name for one in cluster.admin.list_pod_for_all_namespaces().items]
    return [*(one for one in spaces if "pinproof" in one), *pods]


def test_the_same_verdicts_as_over_ssh(ways: Ways, cluster: Cluster, tmp_path: Path) -> None:
    """Pods come through the API server both ways. Nothing of the runs stays in the cluster or on
    the node."""
    over_ssh, few = _judged(ways.ssh, tmp_path / "ssh")
    events = cluster.admin.list_event_for_all_namespaces().items
    seen = {one.involved_object.name for one in events if one.reason == "Started"}
    assert any(name.startswith("pinproof-") for name in seen), seen
    through_server, many = _judged(ways.kube, tmp_path / "kube")
    assert through_server == over_ssh == dict.fromkeys(SCENARIOS, "pass")
    assert many <= TIMES * few, f"{many} round trips, over SSH {few}"
    assert until(lambda: not _stays(cluster), 30), _stays(cluster)
    with connected(ways.address) as shell:
        left = "ls -d /var/lib/pinproof 2>/dev/null; pgrep -x perl; :"
        assert not shell.run(left).text
        assert shell.run("ls -A /etc/kubernetes/manifests").text.split() == [".keep"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_death_leaves_the_node_as_it_was(phase: str, ways: Ways, cluster: Cluster) -> None:
    """And nothing of the run in the cluster: its pod went when the relay was there."""
    before = look(ways.address)
    killed(str(ways.kube), phase, PHASES[phase] / 2)
    assert undone(ways.address, before).differences == ()
    assert _stays(cluster) == []
    with connected(ways.address) as shell:
        assert until(lambda: not shell.run("pgrep -x perl; :").text, 200)
