"""Looks, as nodes answer them: cgroup v1 and v2, both drivers, runc and crun; and nonsense."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from hil.observation import (
    ContainerObserved,
    NotAnObservation,
    Places,
    PodResources,
    look,
    read_observation,
)
from hil.observation.places import pods_url
from hil.session.views import Refusal, refusal
from reference import CPUSet
from reference.view import CFS

MARK: Final = "@@pin-0123456789abcdef"
UID: Final = "a160faa7-14ad-54c3-ae98-386533a8703a"
TASKS: Final = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
ID: Final = "281873ce66c6b7fd5704ea0ae63317e498a549939b942971be09ddc7e3a6d251"
SANDBOX: Final = "a7bf8e9dbe8ed568935ba0581c94b5c6595f2c2a06f99fcd7e67f2e908c0036a"
SERVICE: Final = """MainPID=1325
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
ActiveState=active
SubState=running
InvocationID=972a3d300d534ce298fe8ac1cd3a7325
"""
NAMES: Final = f"""{TASKS}/{ID}/config.json:"io.kubernetes.cri.container-name":"c"
{TASKS}/{ID}/config.json:"io.kubernetes.cri.container-type":"container"
{TASKS}/{ID}/config.json:"io.kubernetes.cri.sandbox-id":"{SANDBOX}"
{TASKS}/{ID}/config.json:"io.kubernetes.cri.sandbox-name":"pinproof-a-lab"
{TASKS}/{ID}/config.json:"io.kubernetes.cri.sandbox-namespace":"default"
{TASKS}/{SANDBOX}/config.json:"io.kubernetes.cri.container-type":"sandbox"
{TASKS}/{SANDBOX}/config.json:"io.kubernetes.cri.sandbox-name":"pinproof-a-lab"
"""
SLICE: Final = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
SCOPE: Final = f"{SLICE}/cri-containerd-{ID}.scope"
V2_ROOT: Final = "/sys/fs/cgroup"


def section(kind: str, body: str) -> str:
    return f"\n{MARK} {kind}\n{body}"


def v2(path: str, *, cpus: str, effective: str, quota: str = "max 100000") -> str:
    """A container below a pod's slice, as the systemd driver has it."""
    return f"""cpuset {path}
cpu {path}
{V2_ROOT}{path}/cpuset.cpus:{cpus}
{V2_ROOT}{path}/cpuset.cpus.effective:{effective}
{V2_ROOT}{SLICE}/cpuset.cpus:
{V2_ROOT}{SLICE}/cpuset.cpus.effective:0-15
{V2_ROOT}/kubepods.slice/cpuset.cpus:
{V2_ROOT}/kubepods.slice/cpuset.cpus.effective:0-15
{V2_ROOT}/cpuset.cpus.effective:0-15
{V2_ROOT}{path}/cpu.max:{quota}
{V2_ROOT}{SLICE}/cpu.max:max 100000
{V2_ROOT}/kubepods.slice/cpu.max:max 100000
/proc/1507/task/1507/status:Cpus_allowed_list:\t{effective}
/proc/1507/task/1509/status:Cpus_allowed_list:\t{effective}
"""


def answer(*containers: tuple[int, str, str], more: str = "", end: bool = True) -> str:
    text = section("online", "0-15\n") + section("service", SERVICE) + section("names", NAMES)
    for pid, folder, body in containers:
        text += section(f"container {pid} {folder}", body)
    return text + more + (section("end", "") if end else "")


def only(body: str, *, more: str = "") -> ContainerObserved:
    """The one container of an answer that has this of it."""
    (seen,) = read_observation(answer((1507, f"{TASKS}/{ID}", body), more=more), MARK).containers
    return seen


def test_a_pinned_container_on_v2_with_systemd() -> None:
    seen = only(v2(SCOPE, cpus="2-3", effective="2-3"))
    assert (seen.id, seen.pid, seen.uid, seen.name) == (ID, 1507, UID, "c")
    assert (seen.namespace, seen.pod) == ("default", "pinproof-a-lab")
    assert [one.path for one in seen.levels] == [SCOPE, SLICE, "/kubepods.slice", "/"]
    assert seen.cpuset == seen.effective == seen.allowed == CPUSet([2, 3])
    assert set(seen.tasks) == {1507, 1509}
    assert seen.cfs == CFS(None)
    assert (seen.levels[-1].cpus, seen.levels[1].cpus) == (None, CPUSet())


def test_a_quota_has_its_period() -> None:
    """100 ms, unless the kubelet is configured otherwise."""
    seen = only(v2(SCOPE, cpus="", effective="0-15", quota="25000 50000"))
    assert seen.cfs == CFS(25_000, period=50_000)
    assert seen.cpuset is None


def test_crun_has_a_cgroup_more() -> None:
    """What was asked for lies one level above the tasks' own."""
    scope = f"{SLICE}/crio-{ID}.scope"
    body = v2(f"{scope}/container", cpus="", effective="2-3").replace(
        f"{V2_ROOT}{SLICE}/cpuset.cpus:\n",
        f"{V2_ROOT}{scope}/cpuset.cpus:2-3\n{V2_ROOT}{SLICE}/cpuset.cpus:\n",
    )
    seen = only(body)
    assert seen.cpuset == seen.effective == CPUSet([2, 3])
    assert len(seen.own_levels) == 2


def test_cgroupfs_on_v1() -> None:
    """Two hierarchies, other names for the files; -1 is no quota."""
    path = f"/kubepods/pod{UID}/{ID}"
    cpuset, cpu = "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpu"
    body = f"""cpuset {path}
cpu {path}
{cpuset}{path}/cpuset.cpus:4,12
{cpuset}{path}/cpuset.effective_cpus:4,12
{cpuset}/kubepods/pod{UID}/cpuset.cpus:0-15
{cpuset}/kubepods/cpuset.cpus:0-15
{cpuset}/cpuset.cpus:0-15
{cpu}{path}/cpu.cfs_quota_us:-1
{cpu}{path}/cpu.cfs_period_us:100000
/proc/99/task/99/status:Cpus_allowed_list:\t4,12
"""
    seen = only(body)
    assert (seen.uid, seen.cfs) == (UID, CFS(None))
    assert seen.cpuset == seen.effective == seen.allowed == CPUSet([4, 12])
    assert (seen.levels[-1].path, seen.levels[-1].cpus) == ("/", CPUSet.parse("0-15"))
    assert only(body.replace("quota_us:-1", "quota_us:50000")).cfs == CFS(50_000)


def test_a_sandbox_is_no_container() -> None:
    """It is never pinned, and has no name of a container."""
    body = v2(f"{SLICE}/cri-containerd-{SANDBOX}.scope", cpus="", effective="0-15")
    assert read_observation(answer((1480, f"{TASKS}/{SANDBOX}", body)), MARK).containers == ()


def test_a_container_of_cri_o_knows_what_its_pod_is_called() -> None:
    folder = "/t/2/userdata"
    names = f"""{folder}/config.json:"io.kubernetes.container.name":"c"
{folder}/config.json:"io.kubernetes.pod.name":"pinproof-b-lab"
"""
    text = answer((8, folder, "cpuset /pod/8\ncpu /pod/8")).replace(NAMES, names)
    (seen,) = read_observation(text, MARK).containers
    assert (seen.name, seen.namespace, seen.pod) == ("c", "", "pinproof-b-lab")


def test_where_it_ran() -> None:
    """Of this process alone, as often as it was seen."""
    more = section("ran", "1507 3\n1507 2\n1480 9\nrubbish\n")
    body = v2(SCOPE, cpus="2-3", effective="2-3")
    assert only(body, more=more).ran_on == CPUSet([2, 3])


def test_the_state_file_is_there_to_the_byte() -> None:
    for text in ("", "{}", "{}\n", "\n\n", f"x\n{MARK}x online\n9\n", "\udcff"):
        seen = read_observation(answer(more=section("state", text)), MARK)
        assert seen.state_file == text
        assert seen.online == CPUSet.parse("0-15")
    assert read_observation(answer(), MARK).state_file is None


def test_a_service_that_crash_loops() -> None:
    text = SERVICE.replace("MainPID=1325", "MainPID=0").replace("NRestarts=0", "NRestarts=4")
    text = text.replace("ExecMainCode=0", "ExecMainCode=1").replace("Status=0", "Status=1")
    text = text.replace("ActiveState=active", "ActiveState=activating")
    seen = read_observation(answer().replace(SERVICE, text), MARK).service
    assert (seen.running, seen.restarts) == (False, 4)
    assert (seen.exit_status, seen.exit_code) == (1, "exited")


@pytest.mark.parametrize(("ended", "status"), [("exited 1\n", 1), ("killed 9\n", 137), ("", None)])
def test_how_a_kubelet_ended_that_was_started_anew(ended: str, status: int | None) -> None:
    """Its service manager tells of the one that runs now."""
    text = SERVICE.replace("NRestarts=0", "NRestarts=1")
    more = section("log", "Error: no such policy\n") + section("ended", ended)
    seen = read_observation(answer(more=more).replace(SERVICE, text), MARK)
    assert refusal(seen) == Refusal("Error: no such policy", status)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sh: 1: not found\n",
        answer(end=False),
        answer().replace("online\n0-15", "online\n0-x"),
        answer().replace(MARK, "@@pin-ffffffffffffffff"),
        section("end", ""),
        answer((1, f"{TASKS}/{ID}", "cpuset /../../etc\ncpu /\n")),
    ],
)
def test_nonsense_is_no_look(text: str) -> None:
    with pytest.raises(NotAnObservation) as caught:
        read_observation(text, MARK)
    assert "\n" not in str(caught.value)


PLACES: Final = Places(
    unit="kubelet.service; rm -rf /",
    state_file="/var/lib/it's/state",
    root_dir="/var/lib/kubelet",
    manifests="/etc/kubernetes/manifests",
    cgroup=2,
    mount="/sys/fs/cgroup",
    cpu_mount="/sys/fs/cgroup",
    runtime_dirs=(f"{TASKS}/*",),
    pods_url="http://127.0.0.1:10255/pods",
)


def test_facts_are_quoted() -> None:
    """A unit's name is a word of the script, never a command."""
    script = look(PLACES, MARK)
    assert "pin_unit='kubelet.service; rm -rf /'" in script
    assert "pin_state='/var/lib/it'\"'\"'s/state'" in script


def test_the_answer_of_pod_resources_has_its_own_section() -> None:
    plain, asking = look(PLACES, MARK), look(PLACES, MARK, ask=True)
    assert "kubelet.sock" not in plain
    assert asking.index("pin_s answer") < asking.index("/var/lib/kubelet/pod-resources")
    assert asking.index("/var/lib/kubelet/pod-resources") < asking.rindex("pin_look")
    told = section("answer", "IW5v\n")
    assert read_observation(answer(more=told), MARK).pod_resources == PodResources(why="no")
    assert read_observation(answer(), MARK).pod_resources is None
    with pytest.raises(NotAnObservation, match="cut off"):
        read_observation(answer(more=told, end=False), MARK)


def test_a_runtime_folder_is_plain() -> None:
    """It is the one thing that the shell expands."""
    with pytest.raises(ValueError, match="not a plain folder"):
        look(replace(PLACES, runtime_dirs=("/run/$(reboot)",)), MARK)


ANYBODY: Final = {"anonymous": {"enabled": True}}


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, ""),
        ({"readOnlyPort": 10255}, "http://127.0.0.1:10255/pods"),
        ({"authentication": ANYBODY}, ""),
        (
            {"authentication": ANYBODY, "authorization": {"mode": "AlwaysAllow"}},
            "https://127.0.0.1:10250/pods",
        ),
    ],
)
def test_where_pods_are_listed(settings: dict[str, object], url: str) -> None:
    """To anybody on the node, or to nobody."""
    assert pods_url(settings) == url
