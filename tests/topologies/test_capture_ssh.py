"""Nodes over SSH: a real sshd on this host, with a host key and users' keys of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from reference import discover
from tests.cli.running import here, ran
from tests.support.carrying import free_port
from tests.support.hostile_ssh import Moment, silent_server
from tests.support.sshd import OwnSshd
from topologies.capturing import BadTarget, Capture, CaptureError, HostKeyError, capture_ssh
from topologies.capturing.address import Address

#: All that the script starts, and a shell.
PROGRAMS = ("awk", "cat", "ls", "sh", "uname")
#: What a command is run under, so that it is not root's.
DROP = "setpriv --reuid=65534 --regid=65534 --clear-groups " * (os.geteuid() == 0)


class Node(OwnSshd):
    """A server that any user may start, and that is captured."""

    def answers(self, command: str = "") -> None:
        """From now on it runs ``command`` instead of what it is asked for."""
        option = 'command="{}" '.format(command.replace('"', '\\"')) if command else ""
        public = self.key.with_suffix(".pub").read_text()
        (self.folder / "authorized_keys").write_text(option + public)

    def capture(self, **more: object) -> Capture:
        settings: dict[str, object] = {"known_hosts": self.known_hosts, "key": self.key, **more}
        return capture_ssh(self.url, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with contextlib.closing(Node(tmp_path_factory.mktemp("node"), root=False)) as made:
        made.new_key("other")
        made.new_key("ecdsa", kind="ecdsa")
        made.new_key("stranger")
        yield made


@pytest.fixture
def node(sshd: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """It is known, and lets us in."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    sshd.answers()
    sshd.remember(sshd.host_key)
    return sshd


# --- it works --------------------------------------------------------------------------------


def test_a_node_is_captured_by_one_command_and_is_this_host(node: Node) -> None:
    before = len(node.log.read_text())
    made = node.capture()
    said = node.log.read_text()[before:]
    host = discover(topologies.load("/"))
    assert discover(made.tree).cpu_topology() == host.cpu_topology()
    assert (made.left_out, made.kernel) == ((), os.uname().release)
    assert made.source.startswith("captured over SSH, Linux ")
    assert os.uname().nodename not in made.source
    assert "127.0.0.1" not in made.source
    assert said.count("Accepted publickey") == 1
    assert said.count("Starting session: command for ") == 1


def test_neither_root_nor_python_is_needed(node: Node, open_folder: Path) -> None:
    """Whoever is let in runs five programs of POSIX."""
    for name in PROGRAMS:
        (open_folder / name).symlink_to(shutil.which(name) or "/nonexistent")
    node.answers(f"{DROP}env -i PATH={open_folder} /bin/sh -s")
    made = node.capture()
    assert discover(made.tree).cpu_topology() == discover(topologies.load("/")).cpu_topology()
    assert made.left_out == ()


# --- who it is -------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_with_its_fingerprint(node: Node) -> None:
    node.known_hosts.unlink()
    shown = ran("ssh-keygen", "-l", "-f", node.folder / "host.pub", status=0).stdout.split()[1]
    with pytest.raises(HostKeyError) as caught:
        node.capture()
    assert str(caught.value) == (
        f"cannot capture {node.url}: its host key ssh-ed25519 {shown} is not in "
        f"{node.known_hosts}: check it and let it be added: --accept-new-host-key of capture and "
        "probe, or accept_new = true in an inventory"
    )
    assert not node.known_hosts.exists()


def test_a_new_host_key_is_remembered_when_told_so(node: Node) -> None:
    node.known_hosts.write_text("# mine\nother ssh-ed25519 AAAA")
    node.capture(accept_new_host_key=True)
    lines = node.known_hosts.read_text().splitlines()
    assert lines[:2] == ["# mine", "other ssh-ed25519 AAAA"], "what was there stays"
    assert len(lines) == 3
    assert node.capture().left_out == ()


@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize("key", ["other", "ecdsa"])
def test_a_changed_host_key_is_refused(node: Node, key: str, accept: bool) -> None:
    """Also where a key of another kind is known."""
    node.remember(node.folder / key)
    before = node.known_hosts.read_text()
    changed = r"is another than the one in .*the connection is intercepted"
    with pytest.raises(HostKeyError, match=changed):
        node.capture(accept_new_host_key=accept)
    assert node.known_hosts.read_text() == before


# --- what goes wrong -------------------------------------------------------------------------


def test_a_key_that_cannot_be_used_is_one_line(node: Node, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key\n")
    for key, reason in (
        (node.new_key("locked", passphrase="secret words"), "the private key is encrypted"),
        (tmp_path / "none", "this is not a private key"),
        (tmp_path / "missing", "No such file"),
    ):
        with pytest.raises(CaptureError, match=f"identity {key}: {reason}") as caught:
            node.capture(key=key)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("moment", "reason"),
    [("login", "did not answer the login within"), ("command", "did not answer a request within")],
)
def test_a_silent_server_is_given_up(tmp_path: Path, moment: Moment, reason: str) -> None:
    began = time.monotonic()
    with silent_server(tmp_path, moment) as address:
        key, known = address.identity[0], address.known_hosts
        with pytest.raises(CaptureError, match=reason):
            capture_ssh(address.url, key=key, known_hosts=known, deadline=1.5)
    assert time.monotonic() - began < 8


def test_where_no_node_listens_it_says_so(node: Node) -> None:

    def refused(url: str, why: str = "", deadline: float = 60) -> None:
        with pytest.raises(CaptureError, match=f"cannot capture {url}: {why}"):
            capture_ssh(url, known_hosts=node.known_hosts, key=node.key, deadline=deadline)

    refused(f"ssh://127.0.0.1:{free_port()}", ".*[Uu]nable|refused")
    refused("ssh://no.such.host.invalid")
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused(f"ssh://127.0.0.1:{server.getsockname()[1]}", deadline=0.5)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("printf '\\033[2Jhello\\n'", r"it sent something other than a capture: '\x1b[2Jhello'"),
        ("PATH=/nonexistent exec /bin/sh -s", "it has no awk"),
        ("exec sleep 600", "it was not read in time"),
        ("exec yes", "it sent more than 1 MiB"),
        ("exec yes >&2", "it sent more than 1 MiB"),
    ],
    ids=["escape", "no awk", "hangs", "yes", "aside"],
)
def test_what_it_does_wrong_is_one_line(
    node: Node, command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topologies.capturing.ssh.MAX_STREAM", 1 << 20)
    node.answers(command)
    with pytest.raises(CaptureError) as caught:
        node.capture(deadline=2 if "sleep" in command else 60)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"cannot capture {node.url}: ")
    assert str(caught.value).isprintable()


# --- the command -----------------------------------------------------------------------------


def test_the_command_captures_a_node(node: Node, tmp_path: Path) -> None:
    reached = ("--known-hosts", str(node.known_hosts), "--key", str(node.key))
    assert here("capture", node.url, *reached, cwd=tmp_path, status=0).stdout == "machine.tar.xz\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["machine.tar.xz", "machine.toml"]


@pytest.mark.parametrize(
    ("known", "key", "said"),
    [("other", "client", "its host key "), ("host", "stranger", "authentication failed: ")],
)
def test_a_fault_is_one_line_and_status_3(
    node: Node, tmp_path: Path, known: str, key: str, said: str
) -> None:
    node.remember(node.folder / known)
    reached = ("--known-hosts", str(node.known_hosts), "--key", str(node.folder / key))
    done = here("capture", node.url, *reached, cwd=tmp_path, status=3)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pinproof: cannot capture {node.url}: {said}")
    assert list(tmp_path.iterdir()) == []


# --- addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host", "user", "port", "known_as"),
    [
        ("ssh://node7", "node7", None, 22, "node7"),
        ("ssh://root@node7:2222", "node7", "root", 2222, "[node7]:2222"),
        ("ssh://a.b-c@[fe80::1]:22/", "fe80::1", "a.b-c", 22, "fe80::1"),
    ],
)
def test_addresses(url: str, host: str, user: str | None, port: int, known_as: str) -> None:
    address = Address.parse(url)
    assert (address.host, address.user, address.port) == (host, user, port)
    assert address.known_as == known_as
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "url",
    [
        "ssh://", "ssh:node7", "ssh://root:secret@node7", "ssh://-oProxyCommand=x",
        "ssh://-x@node7", "ssh://node7:0", "ssh://node7:70000", "ssh://node7/etc/passwd",
        "ssh://no de", "ssh://[::1", "ssh://node7?x",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anything_happens(url: str) -> None:
    with pytest.raises(BadTarget) as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value)
