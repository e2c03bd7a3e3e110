"""A booted node that belongs to a real API server: its pods come through that, over SSH it is
judged. Minutes under emulation, so only where ``PINPROOF_LAB`` asks for it.

The guest reaches no network, so its own loopback leads to the API server: a tunnel over SSH, from
the host (``ssh -R``). docs/how-to/lab.md shows the same by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.results import Result
from conformance.results import read as read_stream
from hil.lab import Node
from hil.transport import connected
from hil.transport import nodes as read_inventory
from tests.support.cluster import Cluster
from tests.support.lab_cluster import joined

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-cluster"
#: Pinned tasks; a pod that is rejected; pods that are deleted while the kubelet is down.
SCENARIOS: Final = (
    "node/tasks-run-where-they-are-pinned",
    "qos/whole-cpus-are-exclusive",
    "restart/deleted-while-down-is-freed",
)


@pytest.fixture(scope="module")
def inventory(node: Node, cluster: Cluster) -> Iterator[Path]:
    """The node has joined, and its inventory names the kubeconfig."""
    with joined(node, cluster) as made:
        yield made


def test_pods_through_an_api_server_are_judged_on_a_booted_node(
    inventory: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """Kernel and state file are as the model says, under the uids that the server gave; nothing of
    the run stays in the cluster or on the node."""
    words = ["run", "--subject", f"node:{inventory}", "-k", " or ".join(SCENARIOS)]
    done = subprocess.run(
        [sys.executable, "-m", "pinproof", *words, "--report", str(tmp_path)],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stream = tmp_path / "result.jsonl"
    results = [one for one in read_stream(stream) if isinstance(one, Result)]
    assert {one.scenario: one.verdict for one in results} == dict.fromkeys(SCENARIOS, "pass")
    events = cluster.admin.list_event_for_all_namespaces().items
    seen = {one.involved_object.name for one in events if one.reason == "Started"}
    assert any(name.startswith("pinproof-") for name in seen), seen
    left = [one.metadata.name for one in cluster.admin.list_namespace().items]
    assert not [name for name in left if "pinproof" in name]
    assert not cluster.admin.list_pod_for_all_namespaces().items
    with connected(read_inventory(str(inventory))[0]) as shell:
        assert shell.run("ls -A /etc/kubernetes/manifests").text.split() == [".keep"]
        assert not shell.run("ls -d /var/lib/pinproof 2>/dev/null || :").text
