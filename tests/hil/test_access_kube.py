"""The way to a node through its API server: exec, and the relay that outlasts a kubelet. What is
said is real; a small server on loopback stands for API server, kubelet and pod."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from hil.apiserver import Server
from hil.shell import NodeTimeout, NodeUnreachable, NodeUsageError
from hil.transport import connect, nodes
from hil.transport.kube import KubeShell
from hil.transport.kube.executing import Frames
from hil.transport.kube.pod import TransportPod
from hil.transport.kube.relay import END
from tests.hil.test_access_shells import (
    gone,
    test_large_input_and_output_do_not_wait_for_each_other,
    test_status_streams_and_stdin,
    when_alive,
)
from tests.support.cluster import kubeconfig
from tests.support.exec_server import ExecServer
from tests.support.until import until

pytestmark = pytest.mark.needs("root")


#: A transport pod that runs.
RUNS: Final = SimpleNamespace(
    namespace="pinproof-transport-test",
    await_running=lambda patience: None,
    remove=lambda: None,
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExecServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(TransportPod, "started", lambda *a, **k: RUNS)
    made = ExecServer(tmp_path)
    yield made
    made.close()


@pytest.fixture
def api(server: ExecServer, tmp_path: Path) -> Server:
    authority, path = tmp_path / "a.crt", tmp_path / "kubeconfig"
    authority.touch()
    return Server.of(kubeconfig(path, server.url, authority, (authority, authority)))


by_relay = pytest.mark.parametrize("shell", ["relay", "relay of the node"], indirect=True)


@pytest.fixture(params=["exec", "relay", "relay of the node"])
def shell(request: pytest.FixtureRequest, server: ExecServer, api: Server) -> Iterator[KubeShell]:
    if request.param == "relay of the node":
        (server.image / "perl").unlink()
    made = KubeShell("node1", api, "node1", then=api.close)
    made.connect()
    if request.param != "exec":
        made.outlast_kubelet()
    yield made
    made.close()


#: Of every shell; its fixture ``shell`` is the one above.
OF_SHELLS = (
    test_status_streams_and_stdin,
    test_large_input_and_output_do_not_wait_for_each_other,
)


def test_a_deadline_ends_the_command_and_its_children(shell: KubeShell) -> None:
    with pytest.raises(NodeTimeout, match="took longer"):
        shell.run("export MARK=pinproof-late-kube; (sleep 60 & sleep 60) & sleep 60", deadline=1)
    with pytest.raises(NodeTimeout, match="wrote more than 1000 bytes"):
        shell.run("export MARK=pinproof-late-kube; yes", limit=1000)
    assert gone("MARK=pinproof-late-kube", within=30)


def test_a_connection_that_is_cut_ends_what_ran(server: ExecServer, shell: KubeShell) -> None:
    with (
        when_alive("MARK=pinproof-cut-kube", server.cut),
        pytest.raises(NodeUnreachable, match="connection broke"),
    ):
        shell.run("export MARK=pinproof-cut-kube; sleep 60; sleep 61")
    assert gone("MARK=pinproof-cut-kube", within=30)
    assert shell.run("echo again").text == "again\n"


@pytest.mark.parametrize("shell", ["exec"], indirect=True)
def test_without_a_kubelet_exec_does_not_reach_the_node(
    server: ExecServer, shell: KubeShell
) -> None:
    server.kubelet = False
    with pytest.raises(NodeUnreachable, match="error dialing backend") as caught:
        shell.run("echo in")
    assert "\n" not in str(caught.value)


@by_relay
def test_without_a_kubelet_the_relay_reaches_the_node(server: ExecServer, shell: KubeShell) -> None:
    server.kubelet = False
    assert shell.run("echo in").text == "in\n"
    server.kubelet = True


def test_a_boot_ends_a_relay_and_the_agent_starts_it_again(
    server: ExecServer, api: Server, tmp_path: Path
) -> None:
    """The kubelet does not come up; the way is there again."""
    folder = tmp_path / "agent"
    folder.mkdir()
    with contextlib.closing(KubeShell("node1", api, "node1", then=api.close)) as shell:
        shell.connect()
        shell.outlast_kubelet()
        shell.outlast_boot(str(folder))
        assert (folder / "relay").stat().st_mode & 0o077 == 0
        server.kubelet = False
        shell.run(END + "; sleep 0.2")
        with pytest.raises(NodeUnreachable, match="cannot run a command on node1"):
            shell.run("echo down")
        subprocess.run(["sh", folder / "relay"], check=True, timeout=10)
        assert shell.run("echo up").text == "up\n"
    relays = ["pgrep", "-f", f"{folder}/relay.pl"]
    assert until(lambda: subprocess.run(relays, capture_output=True, check=False).returncode == 1)


@by_relay
def test_a_relay_runs_nothing_without_its_key(shell: KubeShell) -> None:
    relay: Any = shell._relay
    right, relay._key = relay._key, "0" * 64
    with pytest.raises(NodeUnreachable):
        shell.run("touch /tmp/pinproof-never")
    assert not Path("/tmp/pinproof-never").exists()
    relay._key = right


@by_relay
def test_strangers_that_connect_do_not_shut_the_run_out(shell: KubeShell) -> None:
    """They have no key: each is let go of after 30 s, or when it says something wrong."""
    relay: Any = shell._relay
    port = int(relay._path.rpartition(":")[2].partition("/")[0])
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert shell.run("echo in").text == "in\n"


def _frame(code: int, payload: bytes) -> bytes:
    return bytes([code, len(payload)]) + payload


def test_a_message_may_come_in_pieces_with_pings_between() -> None:
    frames = Frames("node1")
    sent = [(0x02, b"\x01on"), (0x89, b"p"), (0x80, b"e"), (0x82, b"\x02x")]
    whole = b"".join(_frame(*one) for one in sent)
    read = [each for at in range(len(whole)) for each in frames.read(whole[at : at + 1])]
    streams = {stream: b"".join(data for s, data in read if s == stream) for stream in (1, 2)}
    assert streams == {1: b"one", 2: b"x"}
    assert frames.replies()[0] == 0x8A
    assert frames.replies() == b""


BAD_LENGTH = b"\x82\xff" + b"\xff" * 8
FROM_NOTHING = _frame(0x80, b"goes on from nothing")


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n", BAD_LENGTH, b"\xf2\x00", FROM_NOTHING]
)
def test_what_is_not_a_websocket_is_told_in_one_line(data: bytes) -> None:
    with pytest.raises(NodeUnreachable, match="node1: an answer is not a websocket: ") as caught:
        list(Frames("node1").read(data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"null", b"{}", b'{"status":1}', b"\xff", b"[" * 99999]
)
def test_an_end_without_a_status_is_told(said: bytes) -> None:
    with pytest.raises(NodeUnreachable, match="without its exit status"):
        Frames("node1").status(said)


def test_a_node_of_a_cluster_needs_a_kubeconfig_and_a_name() -> None:
    (address,) = nodes("kube://node7")
    assert (address.name, address.node) == ("node7", "node7")
    with pytest.raises(NodeUsageError, match="needs a kubeconfig"):
        connect(address)
    with pytest.raises(NodeUsageError, match="a node of a cluster is kube://NODE"):
        nodes("kube://NOT_A_NODE/x")
