"""``pinproof simulate`` and ``draw`` over pods, settings and a state file: what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pinproof.cli import app
from tests.cli.running import pinproof
from topologies import Tree, describe, pack

MACHINE: Final = ("--machine", "1s-1n-4c-smt2")
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


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a node, in the folder that commands run in; lines long enough for any reason."""
    (tmp_path / "state").write_text(STATE)
    (tmp_path / "pods.yaml").write_text(PODS)
    (tmp_path / "kubelet.yaml").write_text(
        "kind: KubeletConfiguration\ncpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


def printed(*arguments: str) -> list[str]:
    """The lines of a command that succeeds, without the blanks around them."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def facts(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ("simulate", *MACHINE, *arguments, "--json"))
    return json.loads(done.stdout)


def test_a_short_reason_stands_beside_each_container_that_shares() -> None:
    lines = printed("simulate", *MACHINE, "--pods", "pods.yaml")
    assert "web/app: 2 1,5 exclusive" in lines
    assert (
        "log/c: 1 0,2-4,6-7 shared pool: the pod is Burstable: container c has cpu limit 2 and "
        "request 1"
    ) in lines


#: Where half cores are left over, these releases search for ever (pull request 140730).
HANGING: Final = (
    "simulate", "--machine", "2s-4n-40c-smt2-interleaved", "--reserved", "7,34,44,64",
    "--policy-option", "distribute-cpus-across-numa=true", "--policy-option",
    "full-pcpus-only=true", "--pods", "1.5,70,2", "--release",
)  # fmt: skip
LINK: Final = "https://github.com/kubernetes/kubernetes/pull/140730"


def test_a_kubelet_that_hangs_is_said_to_never_answer() -> None:
    lines = printed(*HANGING, "1.36", "--why")
    (said,) = [line for line in lines if line.endswith(LINK) and line != LINK]
    assert said.startswith("kubelet 1.36 hangs at pod2 and never answers: ")
    assert "pod1/c: 1.5 0-79 shared pool: 1.5 CPUs is not a whole number" in lines
    assert "pod2/c: 70 none no answer: the kubelet hangs at pod2" in lines
    assert "pod3/c: 2 none no answer: the kubelet hangs at pod2" in lines
    assert LINK in lines


def test_a_kubelet_that_hangs_is_said_to_programs() -> None:
    done = CliRunner().invoke(app, (*HANGING, "1.36", "--json"))
    found = json.loads(done.stdout)
    assert found["kubelet"]["hangs"].endswith(LINK)
    verdicts = {name: pod["containers"]["c"]["verdict"] for name, pod in found["pods"].items()}
    assert verdicts == {"pod1": "shared pool", "pod2": "no answer", "pod3": "no answer"}
    fixed = CliRunner().invoke(app, (*HANGING, "1.36+distribution-ends", "--json"))
    assert json.loads(fixed.stdout)["kubelet"]["hangs"] == ""


def test_why_says_each_rule_once_with_its_source() -> None:
    lines = printed("simulate", *MACHINE, "--pods", "1.5,2.5,9", "--why")
    at = lines.index("pod1/c, pod2/c: by the rule whole-cpus")
    assert lines[at + 1].startswith("Under policy static a container of a Guaranteed pod")
    assert lines[at + 3].endswith("/cpu-management-policies/#static-policy")
    assert "pod3/c: by the rule free-cpus" in lines
    assert "by the rule" not in " ".join(printed("simulate", *MACHINE, "--pods", "1.5"))


def test_a_refusal_is_said_plainly_and_in_the_kubelets_words() -> None:
    text = " ".join(printed("simulate", *MACHINE, "--pods", "3",
                            "--policy-option", "full-pcpus-only=true"))  # fmt: skip
    assert "rejected a request is not a whole number of physical cores" in text
    assert "SMTAlignmentError: Pod was rejected: SMT Alignment Error: requested 3 cpus" in text


def test_the_options_reach_the_kubelet() -> None:
    lines = printed(
        "simulate", *MACHINE, "--pods", "2", "--reserved", "1", "--feature-gate",
        "CPUManagerPolicyAlphaOptions=true", "--policy-option",
        "distribute-cpus-across-cores=true", "--topology-manager-policy", "restricted",
        "--topology-manager-scope", "pod", "--topology-manager-policy-option",
        "max-allowable-numa-nodes=9",
    )  # fmt: skip
    assert lines[0] == (
        "kubelet 1.36 with policy static, reservedSystemCPUs 1, option "
        "distribute-cpus-across-cores=true, Topology Manager restricted, Topology Manager scope "
        "pod, Topology Manager option max-allowable-numa-nodes=9, gate "
        "CPUManagerPolicyAlphaOptions=True"
    )
    assert "pod1/c: 2 0,2 exclusive" in lines


def test_a_configuration_file_and_an_option_over_it() -> None:
    lines = printed("simulate", *MACHINE, "--pods", "1", "--config", "kubelet.yaml",
                    "--kube-reserved", "cpu=2")  # fmt: skip
    assert lines[0] == "kubelet 1.36 with policy static, kubeReserved cpu 2"
    assert "R reserved: 0,4 (2)" in lines


def test_over_a_state_file() -> None:
    lines = printed("simulate", *MACHINE, "--pods", "pods.yaml", "--state", "state")
    assert "note: known only from the state file, and assumed to run: uid-2" in lines
    assert "web/app: 2 1,5 exclusive" in lines
    assert "uid-2/c: 1 2 exclusive" in lines


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


def test_json_of_a_kubelet_that_does_not_start() -> None:
    found = facts("--pods", "1", "--state", "state", "--reserved", "1")
    assert found["kubelet"]["starts"] is False
    assert found["kubelet"]["error"].startswith('not all reserved cpus: "1" are present')
    assert found["kubelet"]["way out"].startswith("drain the node, stop the kubelet, remove ")


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


def _run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["simulate", *words])
    return done.exit_code, done.stdout


def test_a_kubelet_that_does_not_start_ends_all_pods_that_hold_cpus() -> None:
    """As in the incident: the machine has more CPUs than its state file."""
    status, out = _run(*MACHINE, "--pods", "2,2,1.5", "--to-machine", "1s-1n-8c-smt2")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 1
    assert "pod1/c 1,5 ended" in lines
    assert "pod3" not in out
    assert lines[-1] == "2 pods that hold CPUs would be ended: pod1, pod2"


def test_pods_that_keep_their_cpus_are_no_loss() -> None:
    status, out = _run(*MACHINE, "--pods", "2", "--to-machine", MACHINE[1])
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert "pod1/c 1,5 1,5" in lines
    assert lines[-1] == "No pod that holds CPUs would be ended."


@pytest.mark.parametrize(("policy", "reserved", "status"), [("static", "0,4", 0), ("none", "0", 1)])
def test_settings_are_changed_as_the_file_says(
    policy: str, reserved: str, status: int, tmp_path: Path
) -> None:
    """Another policy refuses the state file."""
    new = tmp_path / "new.yaml"
    new.write_text(NEW_CONFIG.format(policy=policy, reserved=reserved))
    seen, out = _run(*MACHINE, "--pods", "2", "--to-config", str(new), "--json")
    found = json.loads(out)
    assert seen == status
    assert found["ended"] == ([] if status == 0 else ["pod1"])
    assert found["before"]["holdings"]["pod1/c"] == "1,5"
    assert found["after"]["kubelet"]["starts"] is (status == 0)


def test_numbers_that_are_on_other_numa_nodes_now_are_noted() -> None:
    """Both machines have CPUs 0 to 15."""
    status, out = _run(
        "--machine", "1s-1n-8c-smt2", "--pods", "12", "--to-machine", "2s-2n-8c-smt2"
    )
    assert status == 0
    assert "of NUMA node 0 before and 0-1 after" in out


# -- draw ------------------------------------------------------------------------------------------

#: A checksum of 0 is not compared by any kubelet.
OTHER_STATE = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,3-4,6-7",
        "entries": {"uid-1": {"app": "1,5"}, "uid-2": {"\x1b[31mred": "2"}},
        "checksum": 0,
    }
)


def test_who_holds_what_comes_from_the_command_line() -> None:
    """One owner may be named twice; each has a letter, so that colours are not all there is."""
    done = pinproof("draw", MACHINE[1], "--held", "web/app=1", "--held", "db/a=b=2,6",
                    "--held", "web/app=5", "--reserved", "0,4", status=0)  # fmt: skip
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "0R 4R   1A 5A   2B 6B   3  7" in lines
    assert lines[-3:] == ["A  web/app: 1,5 (2)", "B  db/a=b: 2,6 (2)", "R  reserved: 0,4 (2)"]


def test_who_holds_what_comes_from_a_state_file(tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text(OTHER_STATE)
    done = pinproof("draw", MACHINE[1], "--state", str(path), "--reserved", "0,4", status=0)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "0R 4R   1A 5A   2B 6S   3S 7S" in lines
    assert lines[-4:] == [
        "A  uid-1/app: 1,5 (2)",
        "B  uid-2/\ufffd[31mred: 2 (1)",
        "R  reserved: 0,4 (2)",
        "S  shared pool: 3,6-7 (3)",
    ]
    target = tmp_path / "picture.svg"
    done = pinproof("draw", MACHINE[1], "--state", str(path), "--svg", str(target))
    assert (done.returncode, done.stdout) == (0, f"{target}\n")
    said = ElementTree.parse(target).getroot().findtext("{http://www.w3.org/2000/svg}desc")
    assert said is not None
    assert "shared pool: 0,3-4,6-7" in said


def test_numa_nodes_without_cpus_are_drawn_and_counted(tmp_path: Path) -> None:
    text = pinproof("draw", "qemu-2s-2n-8c-smt1-mem1").stdout
    assert "2 NUMA nodes, 2 sockets, 1 NUMA node without CPUs (2)" in " ".join(text.split())
    assert "\nNUMA node 2: no CPUs, 15" in text
    pinproof("draw", "qemu-2s-2n-8c-smt1-mem1", "--svg", "m.svg", cwd=tmp_path)
    assert "NUMA node 2: no CPUs, 15" in (tmp_path / "m.svg").read_text()


def test_cpus_in_no_numa_node_are_drawn_and_counted(tmp_path: Path) -> None:
    whole = describe("2s-2n-4c-smt2").tree
    gone = ("node0/cpu1", "node0/cpu5")
    pack(
        Tree({path: text for path, text in whole.items() if not path.endswith(gone)}),
        tmp_path / "mine.tar",
    )
    text = pinproof("draw", "./mine.tar", cwd=tmp_path).stdout
    assert "in no NUMA node: CPUs 1,5" in " ".join(text.split())
    assert "\nCPUs in no NUMA node\n   1   5\n" in text
