"""A pod of the plugin of Sonobuoy on a booted node, which certifies that node: API server, kubelet
and containerd are real, and the image is the one that ``pinproof build image`` makes. Minutes under
emulation, so only where ``PINPROOF_LAB`` asks for it. There is no aggregator of Sonobuoy.

``PINPROOF_IMAGE`` names an archive to use instead of making one.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.results import Result
from conformance.results import read as result_stream
from hil.lab import Node
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.shell import Shell
from hil.transport import connected
from hil.transport import nodes as read_inventory
from reports.certificate import read
from tests.cli.running import pinproof
from tests.support.cluster import Cluster
from tests.support.lab_cluster import await_node, joined
from tests.support.until import until

pytestmark = [
    pytest.mark.needs("lab"),
    pytest.mark.needs("mmdebstrap"),
]

NAME: Final = "sono-plugin"
IMAGE: Final = "pinproof.local/pinproof:test"
NAMESPACE: Final = "sonobuoy"
SCENARIO: Final = "admission/all-free-cpus-are-assigned"
_PATIENCE: Final = 1200.0


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if made := os.environ.get("PINPROOF_IMAGE"):
        return Path(made)
    path = tmp_path_factory.mktemp("image") / "image.tar"
    pinproof("build", "image", "--name", IMAGE, "-o", str(path), status=0)
    return path


@pytest.fixture(scope="module")
def shell(node: Node, cluster: Cluster, archive: Path) -> Iterator[Shell]:
    """Of the node, which belongs to the cluster and has the image."""
    words = "cat >/root/i && ctr -n k8s.io images import /root/i && rm /root/i"
    with archive.open("rb") as file:
        subprocess.run(
            ["pinproof", "lab", "ssh", node.name, "--", words], stdin=file, check=True, timeout=900
        )
    cluster.admin.create_namespace({"metadata": {"name": NAMESPACE}})
    account = {"metadata": {"name": "sonobuoy-serviceaccount"}}
    cluster.admin.create_namespaced_service_account(NAMESPACE, account)
    with joined(node, cluster) as inventory, connected(read_inventory(str(inventory))[0]) as shell:
        await_node(cluster, ready=True)
        yield shell


def test_a_pod_of_the_plugin_certifies_its_node(
    shell: Shell, cluster: Cluster, tmp_path: Path
) -> None:
    """As Sonobuoy makes it of the definition, without the container that sends the results."""
    words = ["--image", IMAGE, "--workload-image", WORKLOAD_IMAGE, "-k", SCENARIO]
    plugin: Any = yaml.safe_load(pinproof("job", "sonobuoy", *words, status=0).stdout)
    (node,) = cluster.admin.list_node().items
    spec = {
        **plugin["podSpec"],
        "nodeName": node.metadata.name,
        "containers": [plugin["spec"]],
        "volumes": [{"name": "results", "emptyDir": {}}],
    }
    pod = {"metadata": {"name": "sonobuoy-pinproof"}, "spec": spec}
    made = cluster.admin.create_namespaced_pod(NAMESPACE, pod, field_validation="Strict")
    place = f"/var/lib/kubelet/pods/{made.metadata.uid}/volumes/kubernetes.io~empty-dir/results"
    done = until(lambda: shell.run(f"test -e {place}/done").status == 0, _PATIENCE)
    log = shell.run(f"cat {place}/out/log; cat /var/log/pods/*_{made.metadata.uid}/*/*.log").text
    assert done, log
    assert "pinproof ended with exit status 4" in log  # partial: one scenario of many
    tarball = shell.run(f"cat {place}/results.tar.gz", limit=1 << 24).stdout
    with tarfile.open(fileobj=io.BytesIO(tarball)) as results:
        results.extractall(tmp_path, filter="data")
    folder = tmp_path / node.metadata.name
    (judged,) = [one for one in result_stream(folder / "result.jsonl") if isinstance(one, Result)]
    assert (judged.scenario, judged.verdict) == (SCENARIO, "pass"), judged.explanation
    assert SCENARIO in (folder / "junit.xml").read_text()
    facts = read((folder / "certificate.json").read_bytes()).facts
    assert facts.system is not None
    assert facts.system.emulated == "QEMU"
    assert facts.configuration is not None
