"""A booted node that belongs to a real API server, and is reached through that alone: the same
verdicts as over SSH, and the node as it was, whenever the runner dies. Minutes under emulation, so
only where ``PINPROOF_LAB`` asks for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from conformance.results import Result
from conformance.results import read as read_stream
from hil.lab import Node
from hil.lab.names import NODE_NAME
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.transport import NodeAddress, connected
from hil.transport import nodes as read_inventory
from tests.support import lacking
from tests.support.cluster import Cluster, NoCluster
from tests.support.deaths import PHASES, killed, look, undone
from tests.support.lab_cluster import await_node, joined
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        try:
            made = Cluster(folder, egress=folder / "egress")
        except NoCluster as error:
            lacking.skip("api server", error)
        try:
            yield made
        finally:
            made.close()


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
    words = ["run", "--subject", f"node:{inventory}", "-k", " or ".join(SCENARIOS)]
    done = subprocess.run(
        [sys.executable, "-m", "pinproof", *words, "--report", str(report)],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trips = re.search(r"(\d+) round trips", done.stderr + done.stdout)
    assert trips is not None, done.stderr
    results = [one for one in read_stream(report / "result.jsonl") if isinstance(one, Result)]
    return {one.scenario: one.verdict for one in results}, int(trips[1])


def _stays(cluster: Cluster) -> list[str]:
    spaces = [one.metadata.name for one in cluster.admin.list_namespace().items]
    pods = [one.metadata.name for one in cluster.admin.list_pod_for_all_namespaces().items]
    return [*(one for one in spaces if "pinproof" in one), *pods]


def test_the_same_verdicts_as_over_ssh(ways: Ways, cluster: Cluster, tmp_path: Path) -> None:
    over_ssh, few = _judged(ways.ssh, tmp_path / "ssh")
    through_server, many = _judged(ways.kube, tmp_path / "kube")
    assert through_server == over_ssh == dict.fromkeys(SCENARIOS, "pass")
    assert many <= TIMES * few, f"{many} round trips, over SSH {few}"
    assert until(lambda: not _stays(cluster), 30), _stays(cluster)
    with connected(ways.address) as shell:
        left = "ls -d /var/lib/pinproof 2>/dev/null; pgrep -x perl; :"
        assert not shell.run(left).text


@pytest.mark.parametrize("phase", PHASES)
def test_a_death_leaves_the_node_as_it_was(phase: str, ways: Ways, cluster: Cluster) -> None:
    """And nothing of the run in the cluster: its pod went when the relay was there."""
    before = look(ways.address)
    killed(str(ways.kube), phase, PHASES[phase] / 2)
    assert undone(ways.address, before).differences == ()
    assert _stays(cluster) == []
    with connected(ways.address) as shell:
        assert until(lambda: not shell.run("pgrep -x perl; :").text, 200)
