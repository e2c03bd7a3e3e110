"""Inventories: what they may say, and how a mistake in one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.inspection.paths import KubeletPaths
from hil.safety import Allow
from hil.shell import NodeUsageError
from hil.transport import nodes
from hil.transport.route import route

FULL = """\
[[node]]
name = "node7"
url = "ssh://root@10.0.0.7:2222"
identity = ["keys/one", "/keys/two"]
known_hosts = "hosts"
jump = "ssh://me@bastion"
sudo = true
accept_new = true
kubeconfig = "admin.conf"
context = "Lab x"
namespace = "pinproof-a"
node = "node7.example"
distribution = "k3s"
lab = "2s-2n-8c-smt2"
allow = ["reboot", "static-pods"]

[node.kubelet]
root_dir = "/data/kubelet"

[[node]]
url = "ssh://10.0.0.8"
"""


def write(folder: Path, text: str) -> str:
    path = folder / "lab.toml"
    path.write_text(text)
    return str(path)


def refused(text: str) -> str:
    with pytest.raises(NodeUsageError) as caught:
        nodes(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_keys_are_read(tmp_path: Path) -> None:
    """Relative paths are taken from the inventory's folder."""
    first, second = nodes(write(tmp_path, FULL))
    assert (first.name, first.url) == ("node7", "ssh://root@10.0.0.7:2222")
    assert first.identity == (tmp_path / "keys/one", Path("/keys/two"))
    assert (first.known_hosts, first.jump) == (tmp_path / "hosts", ("ssh://me@bastion",))
    assert (first.sudo, first.accept_new) == (True, True)
    assert first.kubeconfig == tmp_path / "admin.conf"
    assert (first.context, first.namespace) == ("Lab x", "pinproof-a")
    assert (first.node, first.lab) == ("node7.example", "2s-2n-8c-smt2")
    assert first.allow == {Allow.REBOOT, Allow.STATIC_PODS}
    assert first.kubelet == KubeletPaths(root_dir="/data/kubelet", distribution="k3s")
    assert (second.name, second.sudo, second.known_hosts) == ("10.0.0.8", False, None)


@pytest.mark.parametrize(
    ("url", "name"),
    [("ssh://admin@node7:2200", "node7"), ("local:", "this-host"), ("host:", "this-host")],
)
def test_an_address_alone_is_a_node(url: str, name: str, tmp_path: Path) -> None:
    """An inventory names it otherwise."""
    (alone,) = nodes(url)
    assert (alone.name, alone.url) == (name, url)
    (named,) = nodes(write(tmp_path, f'[[node]]\nname = "other"\nurl = "{url}"\n'))
    assert (named.name, named.url) == ("other", url)


NODE = '[[node]]\nurl = "ssh://a"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NODE + "hots = 1\n", ":3: hots: unknown key"),
        ('[[node]]\nname = "a"\n', ":1: url: missing"),
        ('[[node]]\nurl = "http://a"\n', ":2: url: 'http://a': a url is one of"),
        ('[[node]]\nurl = "ssh://a:x"\n', ":2: url: "),
        (NODE + 'sudo = "yes"\n', ":3: sudo: 'yes' is neither true nor"),
        (NODE + 'allow = ["all"]\n', ":3: allow: 'all': it is one of"),
        (NODE + "identity = 3\n", ":3: identity: 3 is neither"),
        (NODE + NODE, ":3: name: 'a' occurs twice"),
        (NODE + 'name = "a b"\n', ":3: name: 'a b' is not a name"),
        (NODE + 'name = "a\\u001b[1m"\n', ":3: name: 'a\\x1b[1m' is no"),
        (NODE + '[node.kubelet]\nunti = "k"\n', ":4: unti: unknown key in kubelet"),
        (NODE + '[node.kubelet]\nconfig = "c"\n', ":4: config: 'c' is not an abs"),
        (
            NODE + 'namespace = "Upper"\n',
            ":3: namespace: 'Upper' is not a valid name in Kubernetes",
        ),
        (NODE + 'namespace = "a.b"\n', ":3: namespace: 'a.b' is not a"),
        (NODE + f'namespace = "{"a" * 64}"\n', ":3: namespace: "),
        (NODE + 'node = "n7/../x"\n', ":3: node: 'n7/../x' is not a"),
        (NODE + "context = 3\n", ":3: context: 3 is not a text"),
        ('[[nodes]]\nurl = "ssh://a"\n', ":1: nodes: unknown key"),
        ('[node]\nurl = "ssh://a"\n', ":1: node: nodes are [[node]] tables"),
        ("", "it names no node"),
        ("a = = b", "line 1"),
        ('[defaults]\nurl = "ssh://node1"\n' + NODE, ":2: url: it cannot be a default"),
        ('[defaults]\nname = "node1"\n' + NODE, ":2: name: it cannot be a default"),
        ("[defaults]\nwrong = 1\n" + NODE, ":2: wrong: it cannot be a default"),
    ],
)
def test_a_mistake_is_told_with_key_and_line(tmp_path: Path, text: str, expected: str) -> None:
    message = refused(write(tmp_path, text))
    assert expected in message
    assert message.startswith(str(tmp_path / "lab.toml"))


def test_what_is_no_node_is_refused(tmp_path: Path) -> None:
    assert "a node is ssh://" in refused("node7")
    assert "No such file" in refused(str(tmp_path / "absent.toml"))
    message = refused("ssh://root:secret@node7")
    assert "must not contain a password" in message
    assert "secret" not in message
    path = tmp_path / "lab.toml"
    path.write_bytes(b'[[node]]\nurl = "\xff"\n')
    assert refused(str(path)).endswith("lab.toml: byte 16 is not UTF-8 text")


def test_the_users_ssh_configuration_is_honoured(tmp_path: Path) -> None:
    """What the inventory says goes before it; strictness of host keys is not up to it."""
    config = tmp_path / "config"
    config.write_text(
        "Host node7\n  HostName 10.0.0.7\n  User admin\n  Port 2222\n  IdentityFile /keys/a\n"
        "  ProxyJump me@bastion:2200\n  UserKnownHostsFile /known\n  StrictHostKeyChecking no\n"
    )
    bastion, node = route("ssh://node7", config=config)
    assert str(bastion) == "ssh://me@bastion:2200"
    assert str(node) == "ssh://admin@10.0.0.7:2222"
    assert (node.identity, node.known_hosts) == ((Path("/keys/a"),), Path("/known"))
    *between, node = route(
        "ssh://root@node7:22", config=config, identity=[Path("/mine")], jump=["ssh://other"]
    )
    assert [str(one) for one in between] == ["ssh://other"]
    assert node.address.user == "root"
    assert node.identity == (Path("/mine"),)


def test_a_proxy_command_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host node7\n  ProxyCommand nc %h %p\n")
    with pytest.raises(NodeUsageError, match="ProxyCommand is not supported"):
        route("ssh://node7", config=config)


def test_defaults_are_of_every_node_that_does_not_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "admin.conf"))
    path = write(
        tmp_path,
        '[defaults]\nsudo = true\nidentity = "key"\nkubeconfig = "$KUBECONFIG"\n'
        '[[node]]\nurl = "ssh://node1"\n[[node]]\nurl = "ssh://node2"\nsudo = false\n',
    )
    first, second = nodes(path)
    assert (first.sudo, second.sudo) == (True, False)
    assert first.identity == second.identity == (tmp_path / "key",)
    assert first.kubeconfig == tmp_path / "admin.conf"
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(NodeUsageError, match=r"there is no environment variable \$KUBECONFIG"):
        nodes(path)
