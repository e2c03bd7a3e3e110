"""``pinproof simulate`` and ``draw`` over pods, settings and a state file: what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pinproof.cli import app

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


def test_one_of_several_answers() -> None:
    note = ("note: up to 1.21 the kubelet's choice depends on Go's map order: this is one of the "
            "possible answers")  # fmt: skip
    assert note in printed("simulate", *MACHINE, "--pods", "2", "--release", "1.20")
    assert note not in printed("simulate", *MACHINE, "--pods", "2", "--release", "1.22")


def test_json_has_verdict_reason_rule_and_source() -> None:
    found = facts("--pods", "pods.yaml", "--state", "state")
    assert found["kubelet"]["starts"] is True
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
