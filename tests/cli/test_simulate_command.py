"""``pinproof simulate`` and ``draw`` over pods, settings and a state file: what they print.

The transcripts of docs/how-to/simulate.md, which tests/test_docs.py types, show the rest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from tests.cli.running import here, lines
from topologies import Tree, describe, pack

MACHINE: Final = ("--machine", "1s-1n-4c-smt2")
#: A checksum of 0 is not compared by any kubelet.
STATE: Final = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,3-4,6-7",
        "entries": {"uid-1": {"app": "1,5"}, "uid-2": {"c": "2"}},
        "checksum": 0,
    }
)
PODS: Final = """
kind: Pod
metadata: {name: web, uid: uid-1}
spec:
  containers:
  - name: app
    resources: {limits: {cpu: 2, memory: 1Gi}}
---
kind: Pod
metadata: {name: log}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}
"""
KUBELET: Final = """
kind: KubeletConfiguration
cpuManagerPolicy: static
kubeReserved: {cpu: 500m}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a node, in the folder that commands run in; lines long enough for any reason."""
    files = {
        "state": STATE,
        "pods.yaml": PODS,
        "kubelet.yaml": KUBELET,
        "memory.yaml": MEMORY,
        "large.yaml": LARGE,
        "paged.yaml": PAGED,
        "gpus.yaml": GPUS,
        **{f"{name}.yaml": text for name, text in OTHER.items()},
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


def printed(*arguments: str) -> list[str]:
    """The lines of a command that succeeds, without the blanks around them."""
    return lines(here(*arguments, status=0))


def facts(*arguments: str) -> Any:
    return json.loads(here("simulate", *MACHINE, *arguments, "--json").stdout)


#: Where half cores are left over, these releases search for ever (pull request 140730).
HANGING: Final = (
    "simulate", "--machine", "2s-4n-40c-smt2-interleaved", "--reserved", "7,34,44,64",
    "--policy-option", "distribute-cpus-across-numa=true", "--policy-option",
    "full-pcpus-only=true", "--pods", "1.5,70,2", "--release",
)  # fmt: skip
LINK: Final = "https://github.com/kubernetes/kubernetes/pull/140730"


def test_a_kubelet_that_hangs_is_said_to_never_answer() -> None:
    said = printed(*HANGING, "1.36", "--why")
    (first,) = [line for line in said if line.endswith(LINK) and line != LINK]
    assert first.startswith("kubelet 1.36 hangs at pod2 and never answers: ")
    assert "pod1/c: 1.5 0-79 shared pool: 1.5 CPUs is not a whole number" in said
    assert "pod2/c: 70 none no answer: the kubelet hangs at pod2" in said
    assert "pod3/c: 2 none no answer: the kubelet hangs at pod2" in said
    assert LINK in said
    found, mended = (
        json.loads(here(*HANGING, release, "--json").stdout)
        for release in ("1.36", "1.36+distribution-ends")
    )
    assert found["kubelet"]["hangs"].endswith(LINK)
    verdicts = {name: pod["containers"]["c"]["verdict"] for name, pod in found["pods"].items()}
    assert verdicts == {"pod1": "shared pool", "pod2": "no answer", "pod3": "no answer"}
    assert mended["kubelet"]["hangs"] == ""


def test_the_options_reach_the_kubelet() -> None:
    said = printed(
        "simulate", *MACHINE, "--pods", "2", "--reserved", "1", "--feature-gate",
        "CPUManagerPolicyAlphaOptions=true", "--policy-option",
        "distribute-cpus-across-cores=true", "--topology-manager-policy", "restricted",
        "--topology-manager-scope", "pod", "--topology-manager-policy-option",
        "max-allowable-numa-nodes=9",
    )  # fmt: skip
    assert said[0] == (
        "kubelet 1.36 with policy static, reservedSystemCPUs 1, option "
        "distribute-cpus-across-cores=true, Topology Manager restricted, Topology Manager scope "
        "pod, Topology Manager option max-allowable-numa-nodes=9, gate "
        "CPUManagerPolicyAlphaOptions=True"
    )
    assert "pod1/c: 2 0,2 exclusive" in said


def test_json_has_verdict_reason_rule_and_source() -> None:
    found = facts("--pods", "pods.yaml", "--state", "state")
    assert found["kubelet"]["starts"] is True
    assert found["shared pool"] == "0,3-4,6-7"
    assert found["pods"]["web"]["exclusive"] == {"app": "1,5"}
    assert json.loads(found["state file"])["policyName"] == "static"
    assert found["pods"]["web"]["containers"]["app"]["verdict"] == "exclusive"
    assert found["pods"]["log"]["qos"] == "Burstable"
    (shared,) = found["pods"]["log"]["containers"].values()
    assert shared == {
        "verdict": "shared pool",
        "cpus": "0,3-4,6-7",
        "reason": "the pod is Burstable: container c has cpu limit 2 and request 1",
        "rule": "guaranteed-pod",
        "statement": shared["statement"],
        "source": "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/#guaranteed",
    }
    refused = facts("--pods", "9")["pods"]["pod1"]
    assert refused["containers"]["c"]["verdict"] == "refused"
    assert refused["message"].endswith("requested=9, available=6, which is unexpected")
    assert refused["containers"]["c"]["rule"] == "free-cpus"


def test_drawn_is_what_is_simulated(tmp_path: Path) -> None:
    given = ("--pods", "pods.yaml", "--state", "state", "--reserved", "0")
    picture = printed("draw", "1s-1n-4c-smt2", *given)
    assert "B web/app: 1,5 (2)" in picture
    assert {"R reserved: 0 (1)", "S shared pool: 3-4,6-7 (4)"} < set(picture)
    assert picture[-6:] == printed("simulate", *MACHINE, *given)[-6:]
    path = tmp_path / "x.svg"
    assert printed("draw", "1s-1n-4c-smt2", *given, "--svg", str(path)) == [str(path)]
    assert "web/app: 1,5" in (ElementTree.parse(path).getroot().findtext(
        "{http://www.w3.org/2000/svg}desc") or "")  # fmt: skip


def test_drawn_with_the_reserved_cpus_of_a_configuration() -> None:
    picture = printed("draw", "1s-1n-4c-smt2", "--state", "state", "--config", "kubelet.yaml")
    assert {"A uid-1/app: 1,5 (2)", "R reserved: 0 (1)"} < set(picture)
    assert not any("reserved" in line for line in printed("draw", "1s-1n-4c-smt2"))


# -- another machine, other settings ---------------------------------------------------------------

NEW_CONFIG: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: {policy}
reservedSystemCPUs: "{reserved}"
"""


def test_a_kubelet_that_does_not_start_ends_all_pods_that_hold_cpus() -> None:
    """As in the incident: the machine has more CPUs than its state file."""
    words = (*MACHINE, "--pods", "2,2,1.5", "--to-machine", "1s-1n-8c-smt2")
    said = lines(here("simulate", *words, status=1))
    assert "pod1/c 1,5 ended" in said
    assert "pod3" not in " ".join(said)
    assert said[-1] == "2 pods that hold CPUs would be ended: pod1, pod2"


def test_pods_that_keep_their_cpus_are_no_loss() -> None:
    said = printed("simulate", *MACHINE, "--pods", "2", "--to-machine", MACHINE[1])
    assert "pod1/c 1,5 1,5" in said
    assert said[-1] == "No pod that holds CPUs would be ended."


@pytest.mark.parametrize(("policy", "reserved", "status"), [("static", "0,4", 0), ("none", "0", 1)])
def test_settings_are_changed_as_the_file_says(
    policy: str, reserved: str, status: int, tmp_path: Path
) -> None:
    """Another policy refuses the state file."""
    new = tmp_path / "new.yaml"
    new.write_text(NEW_CONFIG.format(policy=policy, reserved=reserved))
    words = (*MACHINE, "--pods", "2", "--to-config", str(new), "--json")
    found = json.loads(here("simulate", *words, status=status).stdout)
    assert found["ended"] == ([] if status == 0 else ["pod1"])
    assert found["before"]["holdings"]["pod1/c"] == "1,5"
    assert found["after"]["kubelet"]["starts"] is (status == 0)


def test_numbers_that_are_on_other_numa_nodes_now_are_noted() -> None:
    """Both machines have CPUs 0 to 15."""
    machines = ("--machine", "1s-1n-8c-smt2", "--to-machine", "2s-2n-8c-smt2")
    said = printed("simulate", *machines, "--pods", "12")
    assert "of NUMA node 0 before and 0-1 after" in " ".join(said)


# -- draw ------------------------------------------------------------------------------------------


def test_who_holds_what_comes_from_the_command_line() -> None:
    """One owner may be named twice; each has a letter, so that colours are not all there is."""
    said = printed("draw", MACHINE[1], "--held", "web/app=1", "--held", "db/a=b=2,6",
                   "--held", "web/app=5", "--reserved", "0,4")  # fmt: skip
    assert "0R 4R 1A 5A 2B 6B 3 7" in said
    assert said[-3:] == ["A web/app: 1,5 (2)", "B db/a=b: 2,6 (2)", "R reserved: 0,4 (2)"]


def test_a_name_of_a_state_file_commands_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "state").write_text(STATE.replace('"c"', r'"\u001b[31mred"'))
    assert "B uid-2/\ufffd[31mred: 2 (1)" in printed("draw", MACHINE[1], "--state", "state")


def test_numa_nodes_without_cpus_are_drawn(tmp_path: Path) -> None:
    here("draw", "qemu-2s-2n-8c-smt1-mem1", "--svg", "m.svg", status=0)
    assert "NUMA node 2: no CPUs, 15" in (tmp_path / "m.svg").read_text()


def test_cpus_in_no_numa_node_are_drawn_and_counted(tmp_path: Path) -> None:
    whole = describe("2s-2n-4c-smt2").tree
    gone = ("node0/cpu1", "node0/cpu5")
    tree = Tree({path: text for path, text in whole.items() if not path.endswith(gone)})
    pack(tree, tmp_path / "mine.tar")
    text = here("draw", "./mine.tar").stdout
    assert "in no NUMA node: CPUs 1,5" in " ".join(text.split())
    assert "\nCPUs in no NUMA node\n   1   5\n" in text


#: The threshold and the reservation are what the NUMA node reserves.
MEMORY: Final = """
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,8"
memoryManagerPolicy: Static
evictionHard: {memory.available: 100Mi}
systemReserved: {memory: 412Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]
"""
LARGE: Final = """
{kind: Pod, metadata: {name: a},
 spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 600Mi}}}]}}
---
{kind: Pod, metadata: {name: b},
 spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1500Mi}}}]}}
"""
WITH_MEMORY: Final = ("simulate", "--machine", "2s-2n-8c-smt2-1024mib", "--config", "memory.yaml")


def test_the_memory_manager_of_a_node() -> None:
    """Pod b would need both NUMA nodes, and pod a has memory of one of them alone."""
    said = printed(*WITH_MEMORY, "--pods", "large.yaml")
    assert "memory manager Static, reservedMemory 512Mi in NUMA node 0" in said[0]
    assert "a/c: 2 1,9 exclusive, memory of NUMA node 1" in said
    (refused,) = (line for line in said if line.startswith("Guaranteed pod b"))
    assert refused.endswith("its memory cannot be reserved in NUMA nodes")
    found = json.loads(here(*WITH_MEMORY, "--pods", "large.yaml", "--json", status=0).stdout)
    assert found["pods"]["a"]["containers"]["c"]["memory NUMA nodes"] == "1"
    assert found["pods"]["b"]["containers"]["c"]["rule"] == "memory-manager"
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("before", "after", "release"),
    [
        ("numaNode: 0, limits: {memory: 512Mi}", "numaNode: 0, limits: {memory: 9Gi}", "1.36"),
        ("Static", "Static", "1.25"),
    ],
)
def test_a_memory_manager_that_is_not_modelled_is_left_out(
    before: str, after: str, release: str
) -> None:
    text = MEMORY.replace(before, after)
    text = text.replace("412Mi", "9116Mi") if "9Gi" in after else text
    Path("memory.yaml").write_text(text)
    said = printed(*WITH_MEMORY, "--pods", "large.yaml", "--release", release)
    assert any("what the Memory Manager reserves is not modelled" in line for line in said)
    assert not any("memory of NUMA" in line for line in said)


PAGED: Final = """
{kind: Pod, metadata: {name: a},
 spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 64Mi, hugepages-2Mi: 64Mi}}}]}}
"""
PAGED_MACHINE: Final = "2s-2n-8c-smt2-1024mib-hugepages-2Mi-0,32"
WITH_PAGES: Final = (*WITH_MEMORY[:2], PAGED_MACHINE, *WITH_MEMORY[3:])


def test_huge_pages_decide_where_a_pod_lies() -> None:
    """From the memory manager on; the node predicates count them without it."""
    words = (*WITH_PAGES, "--pods", "paged.yaml", "--topology-manager-policy", "restricted")
    assert "a/c: 2 4,12 exclusive, memory of NUMA node 1" in printed(*words)
    Path("paged.yaml").write_text(PAGED.replace("64Mi}", "128Mi}"))
    for more in ((), ("--config", "none.yaml")):
        said = " ".join(printed(*words, *more))
        assert ("it requests more huge pages than the node has left" in said) is bool(more)
        assert ("its memory cannot be reserved in NUMA nodes" in said) is not bool(more)


def test_a_size_that_the_machine_has_not_ends_the_kubelet() -> None:
    Path("paged.yaml").write_text(PAGED.replace("hugepages-2Mi", "hugepages-64Mi"))
    said = here(*WITH_PAGES, "--pods", "paged.yaml", status=2).stderr
    assert "the kubelet would end at the admission of pod a: panic: runtime error: " in said
    assert "; to recover: delete the pod, start the kubelet again" in said
    Path("paged.yaml").write_text(PAGED.replace("2Mi: 64Mi", "2Mi: 3Mi"))
    said = here(*WITH_PAGES, "--pods", "paged.yaml", status=2).stderr
    assert "pod a: container c: 3Mi of huge pages of 2Mi: not a whole number of them" in said


def test_huge_pages_of_which_a_machine_says_nothing_are_ignored() -> None:
    """With a note. So are those beside pod-level resources."""
    words = ("simulate", "--pods", "paged.yaml", "--machine")
    note = "note: requests ignored, which may decide NUMA nodes: hugepages-2Mi"
    assert note in printed(*words, "2s-2n-8c-smt2-1024mib")
    whole = PAGED.replace("spec: {", "spec: {resources: {limits: {cpu: 2, memory: 64Mi}}, ")
    Path("paged.yaml").write_text(whole)
    assert note in printed(*words, "2s-2n-8c-smt2")


GPUS: Final = """
{kind: Pod, metadata: {name: a},
 spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 2}}}]}}
---
{kind: Pod, metadata: {name: b},
 spec: {containers: [{name: c, resources: {limits: {cpu: 2, example.com/gpu: 1, x.com/nic: 1}}}]}}
"""
WITH_DEVICES: Final = ("simulate", "--machine", "2s-2n-8c-smt2", "--pods", "gpus.yaml")


def test_devices_decide_the_numa_node() -> None:
    aligned = (*WITH_DEVICES, "--topology-manager-policy", "restricted")
    said = printed(*aligned, "--device", "example.com/gpu=0,1,1")
    assert "a/c: 2 4,12 exclusive, 2 example.com/gpu of NUMA node 1" in said
    assert any(line.endswith(", 1 example.com/gpu of NUMA node 0") for line in said)
    assert "note: requests ignored, which may decide NUMA nodes: x.com/nic" in said
    found = json.loads(here(*WITH_DEVICES, "--device", "example.com/gpu=-,0+1", "--json").stdout)
    assert found["pods"]["a"]["containers"]["c"]["devices"] == [
        {"resource": "example.com/gpu", "id": "gpu0", "NUMA nodes": ""},
        {"resource": "example.com/gpu", "id": "gpu1", "NUMA nodes": "0-1"},
    ]
    assert found["pods"]["b"]["containers"]["c"]["rule"] == "devices"


def test_devices_without_a_plugin_are_ignored() -> None:
    said = printed(*WITH_DEVICES)
    assert "note: requests ignored, which may decide NUMA nodes: example.com/gpu, x.com/nic" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["gpu=0"], "--device 'gpu=0': it is RESOURCE=NODES, as nvidia.com/gpu=0,0,1"),
        (["a.com/gpu="], "it is RESOURCE=NODES"),
        (["a.com/gpu=0,,1"], "it is RESOURCE=NODES"),
        (["a.com/gpu=0", "a.com/gpu=1"], "--device a.com/gpu: given twice"),
        (["a.com/gpu=0,7"], "a device of a.com/gpu: 2s-2n-8c-smt2 has no NUMA node 7"),
    ],
)
def test_devices_that_cannot_be(given: list[str], said: str) -> None:
    options = [word for one in given for word in ("--device", one)]
    assert said in here(*WITH_DEVICES, *options, status=2).stderr


@pytest.mark.parametrize(
    "other", [("--state", "state"), ("--to-machine", "1s-1n-4c-smt2"), ("--to-config", "x")]
)
def test_devices_of_pods_that_ran_are_not_known(other: tuple[str, str]) -> None:
    done = here(*WITH_DEVICES, "--device", "a.com/gpu=0", *other, status=2)
    assert f"--device with {other[0]}: which devices pods hold is not known" in done.stderr


def test_a_pod_that_is_put_out_is_shown_as_ended() -> None:
    Path("critical.yaml").write_text(
        "{kind: Pod, metadata: {name: a},"
        " spec: {containers: [{name: c, resources: {requests: {cpu: 5}}}]}}\n---\n"
        "{kind: Pod, metadata: {name: b}, spec: {priorityClassName: system-node-critical,"
        " containers: [{name: c, resources: {requests: {cpu: 2}}}]}}\n"
    )
    said = printed("simulate", *MACHINE, "--pods", "critical.yaml", "--why")
    ended = "ended it was ended to make room for a critical pod"
    assert f"Burstable pod a (c: cpu request 5) {ended}" in said
    assert "a/c: by the rule critical-pods" in said
    assert any(line.startswith("b/c: 2 0-7 shared pool") for line in said)


OTHER: Final = {
    "none": MEMORY.replace("memoryManagerPolicy: Static", "").partition("reservedMemory")[0],
    "static": MEMORY,
    "moved": MEMORY.replace("numaNode: 0", "numaNode: 1"),
    "twice": MEMORY.replace("512Mi}}", "256Mi}}, {numaNode: 0, limits: {memory: 256Mi}}"),
}


@pytest.mark.parametrize(
    ("before", "change", "said"),
    [
        ("none", ("--to-config", "static.yaml"), 'configured policy "Static" differs'),
        ("static", ("--to-config", "none.yaml"), 'configured policy "None" differs'),
        ("static", ("--to-config", "moved.yaml"), "the expected machine state is different"),
        ("static", ("--to-machine", "2s-2n-8c-smt2-2048mib"), "machine state is different"),
    ],
)
def test_a_change_of_the_memory_manager_stops_the_kubelet(
    before: str, change: tuple[str, str], said: str
) -> None:
    """Over the file that the memory manager has left, which the way out names."""
    words = ("simulate", "--machine", "2s-2n-8c-smt2-1024mib", "--pods", "large.yaml")
    done = here(*words, "--config", f"{before}.yaml", *change, status=1)
    told = " ".join(done.stdout.split())
    assert said in told
    assert "remove /var/lib/kubelet/memory_manager_state" in told


@pytest.mark.parametrize("pair", [("static", "static"), ("static", "twice"), ("twice", "static")])
def test_a_change_that_leaves_the_memory_manager(pair: tuple[str, str]) -> None:
    words = ("simulate", "--machine", "2s-2n-8c-smt2-1024mib", "--pods", "1,1")
    said = printed(*words, "--config", f"{pair[0]}.yaml", "--to-config", f"{pair[1]}.yaml")
    assert "No pod that holds CPUs would be ended." in said
    noted = any("what the Memory Manager reserves is not modelled" in line for line in said)
    assert noted is ("twice" in pair)


def test_memory_of_pods_that_ran_is_not_known() -> None:
    said = printed(*WITH_MEMORY, "--state", "state", "--reserved", "0,4", "--machine", MACHINE[1])
    assert any(line.startswith("note: which memory the pods of the state file") for line in said)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("{memory.available: 100Mi}", "[memory.available]", "evictionHard: not a mapping"),
        ("{memory.available: 100Mi}", "{memory.available: 100mi}", "evictionHard: memory.availa"),
        ("100Mi}", "100Mi, x: 1}", "evictionHard: not a mapping of names to strings"),
        ("memory: 412Mi", "memory: 412MiB", "systemReserved: memory: "),
        ("memory: 512Mi", "memory: foo", "reservedMemory: NUMA node 0: "),
        ("memory: 512Mi", "memory: 1e9000", "reservedMemory: NUMA node 0: "),
        ("memory: 512Mi", "memory: 0", "NUMA node 0: it has to be more than 0"),
        ("numaNode: 0", "numaNode: true", "an entry is numaNode and limits"),
        ("[{numaNode: 0, limits: {memory: 512Mi}}]", "[]", "specify the system reserved memory"),
        ("[{numaNode: 0, limits: {memory: 512Mi}}]", "foo", "reservedMemory: not a list"),
        ("Policy: Static", "Policy: static", "memoryManagerPolicy 'static': it is None or Static"),
        ("412Mi", "400Mi", 'not equal to the value "524288k" determined by Node Allocatable'),
        ("numaNode: 0", "numaNode: 7", "references a NUMA node 7 that does not exist"),
        ("512Mi}}", "512Mi, hugepages-2Mi: 10Mi}}", 'of type "hugepages-2Mi" is not equal to the'),
        ("evictionHard: {memory.available: 100Mi}", "", "is not equal to the value"),
        ("{memory.available: 100Mi}", "{nodefs.available: 10%}", "is not equal to the value"),
    ],
)
def test_a_memory_manager_that_cannot_be(before: str, after: str, said: str) -> None:
    text = MEMORY.replace("412Mi", "400Mi") if said.startswith("is not equal") else MEMORY
    assert before in text
    Path("memory.yaml").write_text(text.replace(before, after))
    done = here(*WITH_MEMORY, "--pods", "large.yaml", status=2)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_threshold_that_is_a_share_is_not_checked() -> None:
    Path("memory.yaml").write_text(MEMORY.replace("100Mi}", "10%}"))
    said = printed(*WITH_MEMORY, "--pods", "large.yaml")
    assert any(line.startswith("note: evictionHard is a share of the memory") for line in said)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("limits: {cpu: 2, memory: 1Gi, example.com/gpu: 2}",
         "requests: {example.com/gpu: 1}, limits: {example.com/gpu: 2}", "to equal the limit"),
        ("limits: {cpu: 2, memory: 1Gi, example.com/gpu: 2}",
         "requests: {example.com/gpu: 1}", "example.com/gpu: the request has to equal the limit"),
        ("gpu: 2", "gpu: 1500m", "container c: example.com/gpu: 1500m is not a number of devices"),
    ],
)  # fmt: skip
def test_devices_that_an_api_server_refuses(before: str, after: str, said: str) -> None:
    assert before in GPUS
    Path("gpus.yaml").write_text(GPUS.replace(before, after))
    assert said in here(*WITH_DEVICES, "--device", "example.com/gpu=0", status=2).stderr


def test_devices_of_old_releases() -> None:
    done = here("simulate", "--pods", "2", "--device", "a.b/c=0", "--release", "1.19", status=2)
    assert "devices are simulated from 1.20 on, not 1.19" in done.stderr
