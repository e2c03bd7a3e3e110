"""A booted node that belongs to a real API server: its pods come through that, over SSH it is
judged. Minutes under emulation, so only where ``PINPROOF_LAB`` asks for it.

The guest reaches no network, so its own loopback leads to the API server: a tunnel over SSH, from
the host (``ssh -R``). docs/lab.md shows the same by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from conformance.results import Result
from conformance.results import read as read_stream
from hil.lab import Node
from hil.lab import keys as keyring
from hil.lab.names import NODE_NAME
from hil.lab.recipe import tar
from hil.transport import connected
from hil.transport import nodes as read_inventory
from tests.support.cluster import Cluster

pytestmark = pytest.mark.needs("lab")

NAME: Final = "test-cluster"
#: Pinned tasks; a pod that is rejected; pods that are deleted while the kubelet is down.
SCENARIOS: Final = (
    "node/tasks-run-where-they-are-pinned",
    "qos/whole-cpus-are-exclusive",
    "restart/deleted-while-down-is-freed",
)
FOLDER: Final = "etc/kubernetes/test-cluster"
JOIN: Final = f"""
mkdir -p /etc/systemd/system/kubelet.service.d
command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/kubelet.service)
printf '[Service]\\nExecStart=\\nExecStart=%s --kubeconfig=/{FOLDER}/kubeconfig\\n' "$command" \\
  >/etc/systemd/system/kubelet.service.d/cluster.conf
tar -xf - -C /
systemctl daemon-reload && systemctl restart kubelet
"""


@contextmanager
def _tunnel(node: Node, port: int) -> Iterator[None]:
    """The guest's port on its loopback is the host's."""
    assert node.record is not None
    words = ["ssh", "-F", "none", "-N", "-p", str(node.record.port)]
    words += ["-i", str(node.folder / keyring.LOGIN), "-o", "IdentitiesOnly=yes"]
    words += ["-o", f"UserKnownHostsFile={node.folder / keyring.KNOWN_HOSTS}"]
    words += ["-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{port}:127.0.0.1:{port}"]
    tunnel = subprocess.Popen([*words, "root@127.0.0.1"], stdin=subprocess.DEVNULL)
    try:
        yield
        assert tunnel.poll() is None, "the tunnel ended before the run"
    finally:
        tunnel.kill()
        tunnel.wait()


def _credentials(cluster: Cluster) -> bytes:
    folder = cluster.admin_kubeconfig.parent
    files = {
        f"{FOLDER}/{name}": ((folder / name).read_bytes(), 0o600)
        for name in ("authority.crt", "admin.crt", "admin.key")
    }
    return tar(
        {**files, f"{FOLDER}/kubeconfig": (cluster.admin_kubeconfig.read_bytes(), 0o600)}, {}
    )


@pytest.fixture(scope="module")
def inventory(node: Node, cluster: Cluster) -> Iterator[Path]:
    """The node has joined, and its inventory names the kubeconfig."""
    own = node.folder / "lab.toml"
    joined = node.folder / "cluster.toml"
    joined.write_text(f'{own.read_text()}kubeconfig = "{cluster.admin_kubeconfig}"\n')
    with _tunnel(node, urlsplit(cluster.url).port or 0):
        with connected(read_inventory(str(own))[0]) as shell:
            done = shell.run(JOIN, stdin=_credentials(cluster), deadline=120)
            assert done.status == 0, done.stderr
        end = time.monotonic() + 120
        while NODE_NAME not in [one.metadata.name for one in cluster.admin.list_node().items]:
            assert time.monotonic() < end, "its kubelet does not register"
            time.sleep(0.5)
        yield joined


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
