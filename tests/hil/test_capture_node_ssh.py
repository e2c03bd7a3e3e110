"""``pinproof capture --node`` over a real SSH server: all of a node into one archive, which
``pinproof upgrade --node`` takes.

The node is one made of files, laid over the root of this host, read-only, for what the server runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.kept_files import FILES
from tests.hil.conftest import Says
from tests.support import lacking
from tests.support.fakenode import PINNED, FakeNode
from tests.support.sshd import OwnSshd, own_sshd

POD: Final = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: prod, uid: {PINNED}}}
spec:
  containers:
  - name: main
    env: [{{name: TOKEN, value: ENVIRONMENT}}]
    resources: {{limits: {{cpu: 2, memory: 1Gi}}}}
"""
#: Its own mounts: the node's files over those of this host, and nothing can be written.
INSIDE: Final = """\
#!/bin/sh
exec unshare --mount sh -c '
mount -t tmpfs none @OVER@ && cp -a @ROOT@ @OVER@/node && mkdir @OVER@/root &&
mount -t overlay overlay -o ro,lowerdir=@OVER@/node:/ @OVER@/root &&
mount --rbind /dev @OVER@/root/dev || exit 99
exec chroot @OVER@/root sh -c "$SSH_ORIGINAL_COMMAND"'
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeNode:
    node = FakeNode(tmp_path / "root")
    for name in FILES[1:]:
        node.file(f"/var/lib/kubelet/{name}", "{}", 0o600)
    node.file("/etc/kubernetes/manifests/own.yaml", POD, 0o600)
    return node


@pytest.fixture
def server(fake: FakeNode, tmp_path: Path) -> Iterator[OwnSshd]:
    (tmp_path / "over").mkdir()
    text = INSIDE.replace("@OVER@", str(tmp_path / "over")).replace("@ROOT@", str(fake.root))
    inside = fake.file("/fake/inside", text, 0o755)
    path = f"{fake.root}/fake/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    with own_sshd(tmp_path / "sshd", force_command=str(inside), path=path) as running:
        yield running


def test_a_node_is_captured_over_ssh_and_rehearsed(
    server: OwnSshd,
    fake: FakeNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    says: Says,
) -> None:
    monkeypatch.chdir(tmp_path)
    login = ("--key", str(server.key), "--known-hosts", str(server.known_hosts))
    with fake.unchanged():
        status, out, error = says("capture", server.url, "--node", "-o", "node7.tar.xz", *login)
    if "(status 99)" in error:
        lacking.skip("overlay", error)
    assert (status, out) == (0, "node7.tar.xz\n"), error
    model = ("--model", "--node", "node7.tar.xz", "--json")
    status, out, error = says("upgrade", "1.36", "1.37", *model)
    assert status == 0, error
    facts = json.loads(out)
    assert facts["settings"] == "policy static, reservedSystemCPUs 0,16"
    assert [one["exclusive"]["web"] for one in facts["stages"]] == [{"main": "2-3"}] * 4
