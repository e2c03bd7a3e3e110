"""Kubelets of a fleet that are stopped, started and upgraded by commands, while pods run."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, find
from conformance.subject import SubjectLostError
from pinproof import fleet_control
from reference.cpumanager.state.state_checkpoint import parse_leniently
from tests.kubelet.conftest import cached_kubelet
from tests.kubelet.fleets import RELEASE, Running, Up, create, names
from tests.support import lacking
from tests.support.until import until

STATE: Final = "var/lib/kubelet/cpu_manager_state"


@pytest.fixture(scope="module")
def fleet(up: Up) -> Iterator[Running]:
    """Three nodes; a pod with two CPUs of its own is on the first, one with one on the second."""
    with up("1s-1n-4c-smt2=3", "--release", RELEASE) as running:
        running.line("pinproof: Ctrl-C")
        api = running.api()
        create(api, "two", "node1", "2", "Running")
        create(api, "one", "node2", "1", "Running")
        assert running.call("stop", "node3").stdout == (
            "node3: the kubelet is stopped; its containers go on\n"
        )
        yield running
        running.call("down")
        assert running.process.wait(10) == 0
    assert not running.folder().exists()


def _held(fleet: Running, node: str) -> list[str]:
    """The exclusive CPUs that the node's state file names."""
    text = (fleet.folder() / "nodes" / node / STATE).read_text()
    _, entries = parse_leniently(text, release=RELEASE)
    return [str(cpus) for named in entries.values() for cpus in named.values()]


def _version(api: Any, node: str) -> str:
    return str(api.read_node(node).status.node_info.kubelet_version)


def test_a_kubelet_is_stopped_and_started(fleet: Running, api: Any) -> None:
    """Its container goes on; a pod that comes meanwhile waits for the kubelet."""
    fleet.call("stop", "node2", "--kill")
    assert "node2  1s-1n-4c-smt2  1.36  " in fleet.call("list").stdout
    assert re.search("  node2  .*  stopped\n", fleet.call("list").stdout)
    said = fleet.call("stop", "node2", status=2).stderr
    assert said == "pinproof: node2: its kubelet does not run\n"
    create(api, "later", "node2", "1", "Pending")
    assert fleet.call("start", "node2").stdout == (
        "node2: the kubelet is up, and the node is Ready\n"
    )
    assert until(lambda: api.read_namespaced_pod("later", "default").status.phase == "Running")
    assert sorted(_held(fleet, "node2")) == ["1", "5"]
    said = fleet.call("start", "node2", status=2).stderr
    assert said == "pinproof: node2: its kubelet runs\n"
    api.delete_namespaced_pod("later", "default")


def test_another_kubelet_takes_over(fleet: Running, api: Any) -> None:
    """State file and containers stay; the node says the new version."""
    cached_kubelet("1.37")
    before = _held(fleet, "node1")
    said = fleet.call("upgrade", "node1", "1.37").stdout.splitlines()
    assert said[0].startswith("node1: the kubelet v1.37.")
    assert said[1:] == ["node1: 1 container keeps the exclusive CPUs from before"]
    assert _version(api, "node1").startswith("v1.37.")
    assert _held(fleet, "node1") == before == ["1,5"]
    facts = json.loads(fleet.call("list", "--json").stdout)[0]["nodes"]
    assert [one["release"] for one in facts] == ["1.37", "1.36", "1.36"]
    assert "two/c: 1,5 (2)" in fleet.call("draw", "node1").stdout
    fleet.call("upgrade", "node1", RELEASE)
    assert _version(api, "node1").startswith(f"v{RELEASE}.")


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_the_same_release_may_take_over(fleet: Running, api: Any, way: str) -> None:
    """As a patch release does."""
    uid = api.read_namespaced_pod("two", "default").metadata.uid
    said = fleet.call("upgrade", "node1", RELEASE, "--by", way).stdout.splitlines()
    assert said[1:] == ["node1: 1 container keeps the exclusive CPUs from before"]
    pod = api.read_namespaced_pod("two", "default")
    assert (pod.metadata.uid, pod.status.phase) == (uid, "Running")
    (status,) = pod.status.container_statuses
    assert status.restart_count == 0


def test_a_boot_of_the_machine_starts_containers_again(fleet: Running, api: Any) -> None:
    fleet.call("upgrade", "node1", RELEASE, "--by", "reboot")

    def restarted() -> bool:
        statuses = api.read_namespaced_pod("two", "default").status.container_statuses
        return bool(statuses[0].restart_count == 1 and statuses[0].state.running)

    assert until(restarted)


def test_a_kubelet_that_refuses_the_state_file_says_so(fleet: Running) -> None:
    """And what helps, does."""
    (fleet.folder() / "nodes/node2" / STATE).write_text("junk")
    said = fleet.call("upgrade", "node2", RELEASE, status=3).stderr.splitlines()[-1]
    assert said.startswith(
        f"pinproof: node2: the kubelet {RELEASE} does not start: could not restore state from "
        "checkpoint: invalid character 'j' looking for beginning of value"
    )
    _, _, help_ = said.partition("; to start it without that file: rm ")
    path, _, command = help_.partition("; ")
    assert command == "pinproof fleet start node2"
    Path(path).unlink()
    fleet.call(*command.split()[2:])
    assert until(lambda: len(_held(fleet, "node2")) == 1)


def test_a_node_is_drained_first(fleet: Running, api: Any) -> None:
    """Its pods are gone, and others may come again."""
    said = fleet.call("upgrade", "node1", RELEASE, "--by", "drain").stdout.splitlines()
    assert said[0] == "node1: 1 pod was evicted"
    assert len(said) == 2
    assert "two" not in names(api)
    assert api.read_node("node1").spec.unschedulable is None
    create(api, "after", "node1", "3", "Running")


def test_what_cannot_be_done_is_one_line(fleet: Running, tmp_path: Path) -> None:
    none, release = f"{tmp_path}/none", "it is a release such as 1.37, or kubelet:PATH\n"
    for words, said in (
        (["stop", "node9"], "node9: the fleet has node1, node2, node3\n"),
        (["upgrade", "node1", "soon"], f"RELEASE 'soon': {release}"),
        (["upgrade", "node1", f"kubelet:{none}"], none),
        (["stop", "node1", "--name", "none"], "--name none: there is no such fleet"),
    ):
        assert fleet.call(*words, status=2).stderr.startswith(f"pinproof: {said}")


def test_who_asks_for_nonsense_harms_nobody(fleet: Running) -> None:
    """A client that goes away, one that says nothing, and ones whose words are not understood."""
    place = fleet.folder()
    assert (place / "control").stat().st_mode & 0o777 == 0o600
    for text in (b"", b"{", b"[]\n", b'{"node": "node1"}\n', b'{"do": "no", "node": "node1"}\n'):
        with socket.socket(socket.AF_UNIX) as client, fleet_control._short(place) as path:
            client.connect(path)
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            answer = client.makefile().readline()
            assert "the request is invalid" in answer, text
    assert "node1" in fleet.call("list").stdout


def test_a_fleet_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    with fleet_control.listening(tmp_path) as listener:
        listener.close()
        with pytest.raises(SubjectLostError, match="fleet mine: it does not answer"):
            fleet_control.ask("mine", tmp_path, {}, print)


def test_a_node_without_its_kubelet_becomes_not_ready(api: Any) -> None:
    """Soon after its last sign of life. The kubelet of the third node was stopped when all began;
    this test is the last, so that it has not to wait long."""
    if find(CONTROLLER_MANAGERS) is None:
        lacking.skip("controller manager")

    def ready() -> Any:
        conditions = api.read_node("node3").status.conditions
        return next(one for one in conditions if one.type == "Ready")

    assert until(lambda: ready().status == "Unknown", 120)
    silent = ready().last_transition_time - ready().last_heartbeat_time
    assert silent.total_seconds() < 35
