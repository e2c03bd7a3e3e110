"""``pinproof fleet``: a cluster of real kubelets as its user has it, by kubectl's own API; and what
is left of it, however it ends."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, SCHEDULERS, find
from conformance.subject import SubjectUsageError
from conformance.subjects.kubelet.pod_resources import PodResourcesClient
from pinproof.fleet import _counted
from pinproof.fleet_folder import FleetFolder, Record, processes
from reference.cpumanager.state.state_checkpoint import parse_leniently
from tests.cli.running import here
from tests.kubelet.fleets import RELEASE, SMALL, Running, Up, create, names, pod_of, runs
from tests.kubelet.test_kubelet_runner_killed import leftovers, marked
from tests.support import lacking
from tests.support.until import until

WORDS: Final = (
    "2s-4n-64c-smt2=1", "1s-1n-4c-smt2", "--release", RELEASE,
    "--topology-manager-policy", "single-numa-node",
)  # fmt: skip


@pytest.fixture(scope="module")
def fleet(up: Up) -> Iterator[Running]:
    """Two nodes that are ready. The module is left only when nothing of them is."""
    before = leftovers()
    with up(*WORDS) as running:
        assert running.process.stdout is not None
        kubeconfig = Path(running.process.stdout.readline().strip())
        assert kubeconfig == running.folder() / "kubeconfig"
        yield running
        assert running.call("down").stdout == "default\n"
        assert running.process.wait(10) == 0
    assert not running.folder().exists()
    assert leftovers() == before


def test_nodes_are_ready_with_their_cpus(api: Any) -> None:
    """And a scheduler may choose them by their machine: none has a taint."""
    nodes = {one.metadata.name: one for one in api.list_node().items}
    capacity, allocatable = (
        {name: getattr(one.status, field)["cpu"] for name, one in nodes.items()}
        for field in ("capacity", "allocatable")
    )
    assert capacity == {"node1": "128", "node2": "8"}
    assert allocatable == {"node1": "126", "node2": "6"}
    for one in nodes.values():
        (ready,) = [each for each in one.status.conditions if each.type == "Ready"]
        assert ready.status == "True"
        assert one.spec.taints is None
    assert nodes["node1"].metadata.labels["pinproof/machine"] == "2s-4n-64c-smt2"
    assert nodes["node1"].status.node_info.kubelet_version.startswith(f"v{RELEASE}.")


def test_pods_are_pinned_refused_and_deleted(fleet: Running, api: Any) -> None:
    """A NUMA node of the first machine has 32 CPUs; of the second, none more than that."""
    create(api, "two", "node1", "2", "Running")
    create(api, "three", "node2", "3", "Running")
    refused = create(api, "forty", "node1", "40", "Failed")
    assert refused.reason == "TopologyAffinityError"

    nodes = fleet.folder() / "nodes"
    text = (nodes / "node1/var/lib/kubelet/cpu_manager_state").read_text()
    _, entries = parse_leniently(text, release=RELEASE)
    (held,) = entries.values()
    assert {name: str(cpus) for name, cpus in held.items()} == {"c": "1,65"}
    assert (nodes / "node1/sys/devices/system/node/online").read_text() == "0-3\n"
    settings = json.loads((nodes / "node1/pinproof/kubelet.yaml").read_text())
    assert settings["topologyManagerPolicy"] == "single-numa-node"
    socket = (nodes / "node2").readlink() / "var/lib/kubelet/pod-resources/kubelet.sock"
    listed = PodResourcesClient(socket).listed().cpus
    assert {pod: str(named["c"]) for pod, named in listed.items()} == {
        ("default", "three"): "1-2,5"
    }

    drawn = fleet.call("draw").stdout
    assert "node1, 2s-4n-64c-smt2: 128 CPUs" in drawn
    assert "two/c: 1,65 (2)" in drawn
    assert "three/c: 1-2,5 (3)" in drawn
    assert "reserved: 0,64 (2)" in drawn
    assert "shared pool: 2-63,66-127 (124)" in drawn
    assert "two/c" not in fleet.call("draw", "node2").stdout

    api.delete_namespaced_pod("two", "default")
    assert until(lambda: "two" not in names(api))
    assert until(lambda: "two/c" not in fleet.call("draw", "node1").stdout)


def _post(kubeconfig: Path, path: str, body: dict[str, Any]) -> None:
    """What the library kubernetes cannot do: it takes the answer to a binding for a binding."""
    config = json.loads(kubeconfig.read_text())
    ((cluster,), (user,)) = config["clusters"], config["users"]
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    request = urllib.request.Request(
        cluster["cluster"]["server"] + path,
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {user['user']['token']}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority)),
    )
    with opener.open(request, timeout=30) as answer:
        assert answer.status == 201


def test_a_scheduler_of_ones_own_can_bind_apod_of(fleet: Running, api: Any) -> None:
    """A pod that names no node waits until its scheduler has chosen one."""
    pod = pod_of("bound", "node2", "1")
    pod["spec"] |= {"nodeName": None, "schedulerName": "mine"}
    made = api.create_namespaced_pod("default", pod)
    assert (made.spec.node_name, made.status.phase) == (None, "Pending")
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "node2"}}
    _post(fleet.folder() / "kubeconfig", "/api/v1/namespaces/default/pods/bound/binding", binding)
    assert until(lambda: api.read_namespaced_pod("bound", "default").status.phase == "Running")


def test_the_scheduler_chooses_nodes(api: Any) -> None:
    """The second node has no 20 CPUs; that no NUMA node has 100 is unknown to the scheduler, and
    the kubelet's to say."""
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    assert create(api, "twenty", None, "20", "Running").reason is None
    assert api.read_namespaced_pod("twenty", "default").spec.node_name == "node1"
    assert create(api, "hundred", None, "100", "Failed").reason == "TopologyAffinityError"
    api.create_namespaced_pod("default", pod_of("many", None, "200"))
    assert until(lambda: _unschedulable(api, "many"))


def test_a_claim_is_allocated_and_its_driver_is_asked_for(fleet: Running, api: Any) -> None:
    """A claim for CPUs of a grouped device, as dra-driver-cpu has them, without the driver."""
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    driver, claims = "dra.cpu", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    chosen = {"cel": {"expression": f'device.driver == "{driver}"'}}
    device = {
        "name": "cpudevnuma000",
        "allowMultipleAllocations": True,
        "capacity": {f"{driver}/cpu": {"value": "4"}},
    }
    pool = {"name": "node2", "generation": 1, "resourceSliceCount": 1}
    part = {"driver": driver, "nodeName": "node2", "pool": pool, "devices": [device]}
    asked = {"deviceClassName": driver, "capacity": {"requests": {f"{driver}/cpu": "2"}}}
    request = {"name": "cpus", "exactly": asked}
    for path, name, spec in (
        ("/apis/resource.k8s.io/v1/deviceclasses", driver, {"selectors": [chosen]}),
        ("/apis/resource.k8s.io/v1/resourceslices", "cpus", part),
        (claims, "two-cpus", {"devices": {"requests": [request]}}),
    ):
        body = {"metadata": {"name": name}, "spec": spec}
        _post(fleet.folder() / "kubeconfig", path, body)
    pod = pod_of("claims", None, "1")
    pod["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "two-cpus"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "own"}]
    api.create_namespaced_pod("default", pod)
    assert until(lambda: any("DRA driver dra.cpu is not registered" in one for one in _events(api)))
    resources = lacking.module("kubernetes.client").ResourceV1Api(api.api_client)
    allocation = resources.read_namespaced_resource_claim("two-cpus", "default").status.allocation
    (result,) = allocation.devices.results
    assert (result.device, result.consumed_capacity) == ("cpudevnuma000", {"dra.cpu/cpu": "2"})
    api.delete_namespaced_pod("claims", "default", grace_period_seconds=0)


def _events(api: Any) -> list[str]:
    return [one.message or "" for one in api.list_namespaced_event("default").items]


def test_controllers_make_pods_and_end_namespaces(api: Any) -> None:
    """A Deployment has its pods, pinned ones; a pod that is deleted has a successor; a namespace
    that is deleted is gone, with what was in it."""
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    if find(CONTROLLER_MANAGERS) is None:
        lacking.skip("controller manager")
    apps = lacking.module("kubernetes.client").AppsV1Api(api.api_client)
    api.create_namespace({"metadata": {"name": "made"}})
    template = pod_of("", None, "2")
    del template["spec"]["nodeName"]
    template["metadata"] = {"labels": {"app": "web"}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment("made", {"metadata": {"name": "web"}, "spec": spec})
    assert until(lambda: len(_running(api, "made")) == 2)
    gone = _running(api, "made")[0]
    api.delete_namespaced_pod(gone, "made")
    assert until(lambda: len(_running(api, "made")) == 2 and gone not in _running(api, "made"))
    api.delete_namespace("made")
    assert until(lambda: "made" not in {one.metadata.name for one in api.list_namespace().items})


def _running(api: Any, namespace: str) -> list[str]:
    found = api.list_namespaced_pod(namespace).items
    return [one.metadata.name for one in found if one.status.phase == "Running"]


def _unschedulable(api: Any, pod: str) -> bool:
    found = api.read_namespaced_pod(pod, "default").status.conditions or []
    return any((one.type, one.reason) == ("PodScheduled", "Unschedulable") for one in found)


def test_a_fleet_too_large_for_the_host_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    done = here("fleet", "up", "1s-1n-4c-smt2=9999", status=3, XDG_CACHE_HOME=str(tmp_path))
    assert done.stderr.startswith(
        "pinproof: too large a fleet for this host: 9999 nodes and the API server take 1000500 MiB "
    )
    assert list(tmp_path.iterdir()) == []


def test_a_fleet_is_listed(fleet: Running) -> None:
    (facts,) = json.loads(fleet.call("list", "--json").stdout)
    nodes = facts.pop("nodes")
    kubeconfig = str(fleet.folder() / "kubeconfig")
    state = {"name": "default", "state": "up", "release": RELEASE}
    assert facts == state | {"kubeconfig": kubeconfig}
    assert [(one["name"], one["machine"]) for one in nodes] == [
        ("node1", "2s-4n-64c-smt2"),
        ("node2", "1s-1n-4c-smt2"),
    ]
    assert (Path(nodes[0]["folder"]) / "var/lib/kubelet").is_dir()
    assert "default  up  1.36" in fleet.call("list").stdout


def test_what_is_taken_is_refused_in_one_line(fleet: Running) -> None:
    """The fleet that is up stays as it is."""
    kubeconfig = (fleet.folder() / "kubeconfig").read_text()
    port = json.loads(kubeconfig)["clusters"][0]["cluster"]["server"].rpartition(":")[2]
    there_is = "--name default: there is such a fleet; pinproof fleet down --name default ends it"
    for words, said in (
        (["up", *SMALL], there_is),
        (
            ["up", *SMALL, "--name", "other", "--port", port],
            f"--port {port}: Address already in use",
        ),
        (["draw", "node3"], "node3: fleet default has node1, node2"),
    ):
        assert fleet.call(*words, status=2).stderr == f"pinproof: {said}\n"
    assert (fleet.folder() / "kubeconfig").read_text() == kubeconfig
    assert not fleet.folder("other").exists()


def test_fleets_are_up_side_by_side(fleet: Running, up: Up) -> None:
    """A kubelet that ends is said, and the node stays; a fleet ends with its API server; the other
    fleet stays."""
    with up(*SMALL, "--name", "other") as other:
        other.line("node1  1s-1n-4c-smt2  ")
        names = [one["name"] for one in json.loads(fleet.call("list", "--json").stdout)]
        assert names == ["default", "other"]
        assert until(lambda: _written(other.folder("other")).get("ready"))
        (kubelet,) = [pid for pid in marked(other.mark) if runs(pid, "kubelet")]
        os.kill(kubelet, signal.SIGKILL)
        assert other.line("pinproof: node1: ") == (
            "pinproof: node1: the kubelet has ended: killed by SIGKILL\n"
        )
        server, _ = _written(other.folder("other"))["processes"][0]
        os.kill(server, signal.SIGKILL)
        assert other.process.wait(30) == 3
        assert other.last_line() == "pinproof: the API server has ended"
        assert not other.folder("other").exists()
    assert "default  up" in fleet.call("list").stdout


def test_a_fleet_ends_with_its_scheduler(up: Up) -> None:
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    with up(*SMALL, "--name", "headless") as running:
        running.line("pinproof: Ctrl-C")
        (scheduler,) = [pid for pid in marked(running.mark) if runs(pid, "scheduler")]
        os.kill(scheduler, signal.SIGKILL)
        assert running.process.wait(30) == 3
        assert running.line("pinproof: the scheduler has ended: ")
        assert not running.folder("headless").exists()


def test_what_was_not_built_is_said_and_standard_input_ends_a_fleet(fleet: Running, up: Up) -> None:
    """The fleet comes up without. Its standard input, or whatever holds the other end of it, ends
    it."""
    links = [fleet.cache / "pinproof" / name for name in ("schedulers", "controller-managers")]
    places = [one.readlink() for one in links]
    for one in links:
        one.unlink()
    try:
        with up(*SMALL, "--name", "bare", "--until-eof") as running:
            assert "`pinproof build scheduler 1.36`" in running.line("pinproof: no scheduler runs")
            said = running.line("pinproof: no controller manager runs here, so a Deployment or a ")
            assert "`pinproof build controller-manager 1.36`" in said
            running.line("pinproof: Ctrl-C")
            assert running.process.stdin is not None
            running.process.stdin.close()
            assert running.process.wait(30) == 0
            assert not running.folder("bare").exists()
    finally:
        for one, place in zip(links, places, strict=True):
            one.symlink_to(place)


def _written(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "fleet.json").read_text()))
    except FileNotFoundError:
        return {}


BEGUN, READY = "pinproof: fleet up: the API server", "pinproof: Ctrl-C"


@pytest.mark.parametrize(
    ("stage", "sign", "status"), [(BEGUN, signal.SIGTERM, 130), (READY, signal.SIGINT, 0)]
)
def test_a_signal_takes_the_fleet_down(
    up: Up, stage: str, sign: signal.Signals, status: int
) -> None:
    with up(*SMALL, "--name", "signal") as running:
        running.line(stage)
        if stage == READY:
            assert until(lambda: _written(running.folder("signal")).get("ready"))
        running.process.send_signal(sign)
        assert running.process.wait(30) == status
        assert not running.folder("signal").exists()
        assert list(marked(running.mark)) == []


@pytest.mark.parametrize("stage", [BEGUN, READY])
def test_what_is_left_of_a_killed_fleet_is_removed(up: Up, stage: str) -> None:
    """``fleet down`` returns when the sandboxes that it knew are gone. Until then, too, the name is
    free again."""
    with up(*SMALL, "--name", "killed") as running:
        running.line(stage)
        folder = running.folder("killed")
        assert until(lambda: _written(folder))
        known = [pid for pid, _ in _written(folder)["processes"]]
        running.process.kill()
        running.process.wait(10)
        if stage == READY:
            assert "killed  killed  1.36" in running.call("list").stdout
            refused = running.call("draw", "--name", "killed", status=3).stderr
            assert refused == "pinproof: fleet killed: it is killed, not up\n"
            with up(*SMALL, "--name", "killed") as again:
                again.line("node1  1s-1n-4c-smt2  ")
        running.call("down", "--name", "killed")
        assert not folder.exists()
        assert {started for _, started in processes(known)} == {""}


def test_a_kubelet_that_does_not_come_up_is_one_line(up: Up) -> None:
    with up(*SMALL, "--name", "refused", "--policy", "best") as running:
        assert running.process.wait(60) == 3
        line = running.last_line()
        assert line.startswith("pinproof: node1 (1s-1n-4c-smt2): the kubelet does not come up: ")
        assert "best" in line
        assert not running.folder("refused").exists()


def test_without_an_api_server_nothing_is_started(tmp_path: Path) -> None:
    """The line says what to install and to build; nothing is left."""
    words = ("fleet", "up", "1s-1n-4c-smt2")
    done = here(*words, status=3, XDG_CACHE_HOME=str(tmp_path), PATH="/none")
    assert done.stdout == ""
    assert done.stderr.startswith("pinproof: etcd is not on PATH (Debian: etcd-server); there is ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.rglob("*")) == [tmp_path / "pinproof", tmp_path / "pinproof/fleets"]


# -- folders, without a fleet --------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return FleetFolder("mine")


def test_a_folder_has_one_holder(folder: FleetFolder) -> None:
    with folder.held():
        with pytest.raises(SubjectUsageError, match="there is such a fleet"), folder.held():
            pass
        assert folder.state == "starting"
        folder.write(Record("1.36", ready=True))
        assert folder.state == "up"
    assert not folder.path.exists()
    with pytest.raises(SubjectUsageError, match="there is no such fleet"):
        folder.take_down()


def test_a_link_is_removed_and_not_what_it_leads_to(folder: FleetFolder, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    with folder.held():
        assert (folder.link("node1", tmp_path / "kept") / "file").exists()
    assert (tmp_path / "kept/file").exists()


def test_processes_of_the_fleet_are_waited_for(folder: FleetFolder) -> None:
    """Until each has ended, though its parent does not know yet."""
    with subprocess.Popen(["sleep", "1"]) as sandbox:
        folder.path.mkdir(parents=True)
        folder.write(Record("1.36", processes=processes([sandbox.pid])))
        folder.take_down()
        assert sandbox.poll() == 0


def test_another_process_of_the_same_number_is_not_waited_for(folder: FleetFolder) -> None:
    """A fleet's process has ended long ago, and its number is this one's now."""
    ((pid, started),) = processes([os.getpid()])
    folder.path.mkdir(parents=True)
    folder.write(Record("1.36", processes=((pid, f"{started}0"),)))
    folder.take_down()
    assert not folder.path.exists()


def test_a_kubeconfig_is_for_its_user_alone(folder: FleetFolder) -> None:
    with folder.held():
        folder.write_kubeconfig("{}")
        assert folder.kubeconfig.stat().st_mode & 0o777 == 0o600
        assert folder.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a/b", "..", "a" * 21])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(SubjectUsageError, match="--name"):
        FleetFolder(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2s-4n-64c-smt2=10", ("2s-4n-64c-smt2", 10)),
        ("2s-4n-64c-smt2", ("2s-4n-64c-smt2", 1)),
        ("./a=b/node7.tar.xz", ("./a=b/node7.tar.xz", 1)),
        ("./a=b/node7.tar.xz=2", ("./a=b/node7.tar.xz", 2)),
    ],
)
def test_a_machine_may_have_a_number_of_nodes(text: str, expected: tuple[str, int]) -> None:
    assert _counted(text) == expected
