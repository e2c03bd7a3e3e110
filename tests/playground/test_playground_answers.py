"""What the page gets to show is what ``pinproof simulate`` says, and each fault is one line."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import topologies
from pinproof.playground.asked import Page
from tests.cli.running import here
from tests.playground.conftest import Ask, pod

CONFIG = """\
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,4"
topologyManagerPolicy: single-numa-node
"""
STATE = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,2,4,6-7",
        "entries": {"0c6f": {"app": "1,5"}, "7d21": {"app": "3"}},
        "checksum": 0,
    }
)
PODS = [pod("web", "2"), pod("db", "1.5"), pod("odd", "3"), pod("big", "40")]


def without_words(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the words in which pods are refused: in the playground these are static,
    and those of ``simulate`` come from an API server."""
    pods = {
        name: {what: told for what, told in one.items()
               if one["phase"] != "rejected" or what not in ("qos", "reason", "message")}
        for name, one in answer["pods"].items()
    }  # fmt: skip
    return {**answer, "pods": pods}


@pytest.mark.parametrize("release", ["1.20", "1.28", "1.36", "1.37"])
@pytest.mark.parametrize("config", ["", CONFIG])
@pytest.mark.parametrize("state", ["", STATE])
def test_simulate_says_the_same(
    release: str, config: str, state: str, ask: Ask, tmp_path: Path
) -> None:
    if config and release == "1.20":
        config = config.replace('cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n', "")
    story = {"release": release, "config": config, "state": state}
    shown = ask(*(("apply", text) for text in PODS), **story)
    words = ["--machine", "1s-1n-4c-smt2", "--release", release, "--json"]
    given = {"pods": "\n---\n".join(PODS), "config": config, "state": state}
    for option, text in given.items():
        if text:
            (tmp_path / option).write_text(text)
            words += [f"--{option}", str(tmp_path / option)]
    said = json.loads(here("simulate", *words, status=0).stdout)
    assert shown["state"] == said["state file"]
    same = {**said, "notes": shown["answer"]["notes"]}
    assert without_words(shown["answer"]) == without_words(same)
    assert [row["pod"] for row in shown["rows"] if row["words"]]  # at least big is refused


def test_a_refused_pod_is_shown_in_the_kubelets_words(ask: Ask) -> None:
    shown = ask(("apply", pod("odd", "3")), config=CONFIG)
    (row,) = shown["rows"]
    assert row["words"] == (
        "SMTAlignmentError: Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple "
        "cpus per core = 2"
    )
    assert shown["steps"][-1]["came"] == [f"odd: rejected: {row['words']}"]


def test_a_step_says_what_it_changes(ask: Ask) -> None:
    steps = [("apply", pod("web", "2")), ("kill", ""), ("apply", pod("late", "2")), ("start", "")]
    came = [one["came"] for one in ask(*steps)["steps"]]
    assert came == [
        ["the kubelet: it runs"],
        ["web/c: 1,5 (exclusive)"],
        ["the kubelet: it is down; containers run on"],
        [],
        ["the kubelet: it runs", "late/c: 2,6 (exclusive)"],
    ]
    down = ask(*steps[:3])
    assert [(row["pod"], row["cpus"]) for row in down["rows"]] == [("web", "1,5")]
    assert down["pods"] == ["web", "late"]


def test_steps_that_are_taken_back_leave_no_trace(ask: Ask) -> None:
    steps = [("apply", pod("web", "2")), ("restart", ""), ("delete", "web"), ("reboot", "")]
    forward = [ask(*steps[:count]) for count in range(len(steps) + 1)]
    back = [ask(*steps[:count]) for count in reversed(range(len(steps) + 1))]
    assert forward == back[::-1]
    assert len({one["state"] for one in forward}) == 2


def test_a_pod_that_comes_back_is_another_pod(ask: Ask) -> None:
    """Without a uid in its manifest; the kubelet would take the former pod's resources."""
    steps = [("apply", pod("web", "2")), ("delete", "web"), ("apply", pod("web", "1"))]
    assert ask(*steps)["rows"][0]["cpus"] == "1"
    again = ask(*steps[:2], ("apply", pod("web", "1", uid="a")), ("delete", "web"),
                ("apply", pod("web", "3", uid="a")))  # fmt: skip
    assert again == {"error": "Apply: uid a was another pod's; give the pod a new one"}


def test_settings_releases_and_machines_change_on_a_node(ask: Ask) -> None:
    web = ("apply", pod("web", "2"))
    upgraded = ask(web, ("upgrade", "1.37"))
    assert upgraded["head"].startswith("kubelet 1.37 with ")
    assert upgraded["rows"][0]["cpus"] == "1,5"
    larger = ask(web, ("reboot", "1s-1n-8c-smt2"))
    assert larger["kubelet"] == (
        'it gave up with exit status 1: current set of available CPUs "0-15" doesn\'t match with '
        'CPUs in state "0-7"'
    )
    assert larger["recover"].startswith("drain the node, stop the kubelet, remove ")
    drained = ask(web, ("reboot", "1s-1n-8c-smt2"), ("remove-state", ""), ("start", ""))
    assert drained["kubelet"] == "it runs"
    other = ask(web, ("configure", CONFIG), ("apply", pod("odd", "3")))
    assert [row["words"][:17] for row in other["rows"]] == ["", "SMTAlignmentError"]


def test_a_state_file_that_the_kubelet_refuses_is_shown_with_its_words(ask: Ask) -> None:
    shown = ask(state='{"policyName":"none","defaultCpuSet":"","checksum":0}')
    assert "it gave up with exit status 1" in shown["kubelet"]
    differs = 'configured policy "static" differs from state checkpoint policy "none"'
    assert differs in shown["kubelet"]
    assert ask(("remove-state", ""), ("start", ""), state="junk")["kubelet"] == "it runs"


def test_the_memory_manager_is_modelled(ask: Ask) -> None:
    reserved = "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]"
    memory = f"memoryManagerPolicy: Static\n{reserved}\n"
    shown = ask(("apply", pod("web", "2")), config=CONFIG + memory)
    assert "memory manager Static, reservedMemory 1Gi in NUMA node 0" in shown["head"]
    assert not shown["notes"]


def test_a_capture_is_a_machine(ask: Ask, tmp_path: Path) -> None:
    topologies.pack(topologies.load("1s-1n-2c-smt1"), tmp_path / "node7.tar.xz")
    data = base64.b64encode((tmp_path / "node7.tar.xz").read_bytes()).decode()
    assert ask(machine="node7.tar.xz", archive=data)["machine"].startswith("node7: 2 CPUs (0-1)")
    for name, text, why in (
        ("node7.tar.xz", "AAAA", "node7.tar.xz: "),
        ("node7.tar.xz", "#", "the capture is damaged: it is not base64"),
        ("../node7.tar.xz", data, "../node7.tar.xz: not the name of an archive that pinproof"),
        ("node7", data, "node7: not the name of an archive that pinproof capture writes"),
    ):
        assert ask(machine=name, archive=text)["error"].startswith(why)


def test_a_captured_node_goes_on_as_it_was(ask: Ask, node7: Path) -> None:
    """As simulate does with all of it."""
    text = base64.b64encode(node7.read_bytes()).decode()
    capture = {"name": node7.name, "text": text}
    parts = json.loads(Page().asked(json.dumps({"capture": capture})))["parts"]
    assert parts["release"] == "1.35"
    shown = ask(machine=node7.name, archive=text, **parts)
    said = json.loads(here("simulate", "--node", str(node7), "--json").stdout)
    assert shown["answer"] == said
    assert [(row["pod"], row["cpus"]) for row in shown["rows"]] == [("web", "1,5")]
    assert json.loads(Page().asked(json.dumps({"capture": {**capture, "text": "AAAA"}})))["error"]


@pytest.mark.parametrize(
    ("steps", "story", "why"),
    [
        ((), {"machine": "2s-0n-4c-smt2"}, "'2s-0n-4c-smt2' is not a valid description: "),
        ((), {"machine": "nothing"}, "there is no machine 'nothing': "),
        ((), {"release": "2.0"}, "not a Kubernetes release (such as 1.36 or 1.36.3): '2.0'"),
        ((), {"release": "1.8"}, "release 1.8 has no state file and logs no CPUs; "),
        ((), {"config": "kind: Pod"}, "KubeletConfiguration: kind Pod: it must be a Kubelet"),
        ((), {"config": "a: [\n"}, "KubeletConfiguration: line 2, column 1: "),
        ((), {"ran": "kind: [1]"}, "pods that ran before: document 1: not a Kubernetes object"),
        ((("apply", "kind: Pod"),), {}, "manifest: document 1: metadata: missing"),
        ((("apply", "[" * 101),), {}, "manifest: nested too deeply"),
        ((("apply", "- " * 101),), {}, "manifest: line 1, column 201: nested too deeply"),
        ((("apply", "&a [*a]"),), {}, "manifest: line 1, column 5: an alias of a value that"),
        ((("apply", pod("web", "x")),), {}, "manifest: document 1: pod web: "),
        ((("apply", pod("web", "1")),) * 2, {}, "pod web is in place"),
        ((("delete", "web"), ("start", "")), {}, "step 1: Delete: no pod web"),
        ((("start", ""),), {}, "Start: the kubelet runs"),
        ((("upgrade", "1.99"),), {}, "release 1.99: whole nodes are modelled from "),
        ((("reboot", "2s-0n-4c-smt2"),), {}, "'2s-0n-4c-smt2' is not a valid description: "),
    ],
)
def test_what_is_wrong_is_one_line_and_changes_nothing(
    steps: tuple[tuple[str, str], ...], story: dict[str, str], why: str, ask: Ask
) -> None:
    before = ask(("apply", pod("first", "2")))
    wrong = ask(*steps, **story)
    assert list(wrong) == ["error"]
    assert wrong["error"].startswith(why)
    assert "\n" not in wrong["error"]
    assert ask(("apply", pod("first", "2"))) == before
