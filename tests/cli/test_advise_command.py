"""``pinproof advise``: what it prints, how it ends, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from conformance.pods import guaranteed
from conformance.subject import SubjectError
from hunting.advising.deciding import Found, advice
from hunting.scope import Task
from pinproof import advise
from pinproof.cli import app
from reference import NotModelled
from tests.support.node_archives import write_archive

KUBELET: Final = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,3"
"""
WHOLE_CORES: Final = KUBELET + 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n'
#: Defects of 1.36 that depend on a clock, or on more than whole containers.
UNDECIDED: Final = [
    "pod-level/empty-resources-make-best-effort",
    "ephemeral/pool-changes-pass-it-by",
    "stopping/static-pods-cpus-are-given-away",
]
DECIDED: Final[dict[str, Found]] = {}
NODE: Final = ("--machine", "1s-1n-3c-smt2", "--release", "1.36")


@pytest.fixture(autouse=True)
def _decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that another test has asked too is not walked again."""
    walk = advice

    def remembered(task: Task, pods: object = None, **more: Any) -> Found:
        key = f"{task} {pods}"
        if key not in DECIDED:
            DECIDED[key] = walk(task, pods, **more)  # type: ignore[arg-type]
        return DECIDED[key]

    monkeypatch.setattr(advise, "advice", remembered)


def asked(*words: str, width: int = 80) -> Result:
    """The command in this process; its exit status and what it prints."""
    return CliRunner().invoke(app, ["advise", *words], env={"COLUMNS": str(width)})


def facts(*words: str) -> tuple[int, dict[str, Any]]:
    done = asked(*words, "--format", "json")
    return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A KubeletConfiguration with full-pcpus-only."""
    path = tmp_path / "kubelet.yaml"
    path.write_text(WHOLE_CORES)
    return str(path)


def test_the_defect_of_a_full_node_under_full_pcpus_only_is_named(config: str) -> None:
    status, found = facts(*NODE, "--config", config, "--pods", "2,2")
    assert status == 1
    [one] = found["applies"]
    assert (one["issue"], one["releases"][0], one["releases"][-1]) == (129078, "1.27", "1.36")
    assert one["mended"] == ["1.37"]
    assert one["url"] == "https://github.com/kubernetes/kubernetes/issues/129078"
    assert one["command"] == (
        "pinproof run --subject kubelet:1.36 --machine 1s-1n-3c-smt2 "
        "-k options/full-pcpus-restart-refuses-what-runs"
    )
    assert "Pod pod1 is refused" in one["steps"][-1]


def test_pods_that_leave_room_do_not_meet_it(config: str) -> None:
    """What other pods would meet is listed apart, and counts for no exit status."""
    status, found = facts(*NODE, "--config", config, "--pods", "2")
    assert (status, found["applies"], found["pods"]) == (0, [], ["pod1"])
    [one] = [each for each in found["otherwise"] if each["issue"] == 129078]
    assert one["if"] == "other pods of one container come and go"


@pytest.mark.parametrize(("release", "issues"), [("1.36", [129078]), ("1.37", [])])
def test_without_pods_a_node_is_filled(release: str, issues: list[int], config: str) -> None:
    """The defect is mended in the next release."""
    status, found = facts("--machine", NODE[1], "--release", release, "--config", config)
    assert (status, [one["issue"] for one in found["applies"]]) == (len(issues), issues)


@pytest.mark.parametrize("text", [KUBELET, "kind: KubeletConfiguration\n"])
def test_nothing_applies_to_a_plain_configuration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(text)
    status, found = facts(*NODE, "--config", str(path))
    assert (status, found["applies"]) == (0, [])
    without_pinning = "static" not in text
    assert bool(found["otherwise"]) is not without_pinning
    left = [] if without_pinning else UNDECIDED
    assert found["undecided"] == left


def test_a_person_reads_lines_of_the_terminals_width(config: str) -> None:
    """Links and commands are whole, so that a terminal opens and a shell takes them."""
    done = asked(*NODE, "--config", config, width=70)
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert "1 known defect applies." in lines
    assert "  https://github.com/kubernetes/kubernetes/issues/129078" in lines
    words = ("https://", "pinproof run", "kubelet 1.36 on")
    assert [x for x in lines if len(x) > 70 and not x.lstrip().startswith(words)] == []


def test_markdown_has_a_section_for_each_defect(config: str) -> None:
    text = asked(*NODE, "--config", config, "--format", "md").stdout
    assert text.startswith("# 1 known defect applies\n")
    assert "## kubernetes/kubernetes#129078: a restart under" in text
    assert "| if | defect |" in text


@pytest.mark.needs("kubelet", "sandbox")
def test_a_kubelet_shows_it(config: str) -> None:
    """``--confirm`` walks a real kubelet through the same steps."""
    status, found = facts(*NODE, "--config", config, "--pods", "2,2", "--confirm", "kubelet:1.36")
    assert (status, found["applies"][0]["confirmed"]) == (1, {"kubelet:1.36": True})


def test_where_the_model_does_not_know_there_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    """Exit status 3, not "nothing applies"."""

    def unknown(*_: object, **__: object) -> None:
        raise NotModelled("that is not known")

    monkeypatch.setattr(advise, "advice", unknown)
    done = asked(*NODE, "--config", config)
    assert isinstance(done.exception, SubjectError)
    assert str(done.exception) == "no answer: that is not known"


def test_a_captured_node_brings_its_settings_and_pods(tmp_path: Path) -> None:
    """The archive of ``pinproof capture --node`` is all that is needed."""
    settings = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,3",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    }
    pods = [guaranteed("db", 2), guaranteed("web", 2)]
    place = tmp_path / "node7.tar.xz"
    write_archive(place, machine="1s-1n-3c-smt2", settings=settings, state=None, pods=pods)
    status, found = facts("--machine", str(place))
    assert (status, found["release"], found["pods"]) == (1, "1.36", ["db", "web"])
    assert [one["issue"] for one in found["applies"]] == [129078]
