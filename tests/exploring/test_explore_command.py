"""``pinproof explore``, as a user runs it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import conformance.scenario as registry
from conformance.pods import guaranteed
from conformance.subjects import open_subject
from hunting.exploring.history import History, history_at
from hunting.exploring.plan import write_plan
from hunting.exploring.settings import machine_of
from hunting.exploring.telling import write_history
from hunting.scope import Task
from reference import CPUSet
from reference.steps import Apply, Delete, KubeletConfig, Resize, Start, Step, Stop
from tests.cli.running import here, pinproof
from tests.conformance.judging import judged
from tests.support import lacking
from tests.support.until import content, until

if TYPE_CHECKING:
    from tests.cli.conftest import Stream

FAULT: Final = "miniature:forgets-to-give-back"
SMALL: Final = ("--machine", "1s-1n-4c-smt2")
SEED: Final = ("--seed", "3")
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an exploration that found a fault."""
    folder = tmp_path_factory.mktemp("found")
    words = (*SMALL, *SEED, "--time", "1", "-x", "--report", str(folder / "out"))
    done = pinproof("explore", FAULT, *words, status=1)
    assert "Not conformant" in done.stdout
    assert f"cause 1: {folder / 'out/causes/1'}" in done.stderr
    return folder / "out"


# -- what it leaves ------------------------------------------------------------------------------


def test_a_cause_is_told_in_a_folder_of_its_own(found: Path) -> None:
    """As a story with a command that replays it, as a history, as a scenario."""
    folder = found / "causes/1"
    assert {one.name for one in folder.iterdir()} == {"story.txt", "history.json", "scenario.py"}
    story = (folder / "story.txt").read_text()
    assert f"pinproof explore {FAULT} --replay {folder / 'history.json'}" in story
    kinds = [type(step).__name__ for step in history_at(folder / "history.json").taken]
    # A pod that goes gives nothing back, nor does one that is refused halfway.
    assert kinds in (["Start", "Apply", "Delete"], ["Start", "Apply"])


def test_the_stream_is_one_that_every_command_reads(found: Path, results: Stream) -> None:
    jsonschema = lacking.module("jsonschema")
    schema = json.loads((ROOT / "conformance/schemas/result-stream-2.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    for line in (found / "result.jsonl").read_text().splitlines():
        validator.validate(json.loads(line))
    header, every, footer = results(found)
    assert header.subject.name == FAULT
    assert footer.counts["fail"] == 1 == [one.verdict for one in every].count("fail")
    said = here("report", str(found / "result.jsonl"), "--gate", status=1)
    assert "explored/3-" in said.stdout
    assert all((found / name).stat().st_size for name in ("junit.xml", "report.html"))


def test_what_was_covered_is_in_a_file(found: Path) -> None:
    coverage = json.loads((found / "coverage.json").read_text())
    (machine,) = coverage["machines"].values()
    assert 0 < machine["pairs met"] < machine["pairs possible"]
    assert 0 < coverage["lines of the model"]["met"] < coverage["lines of the model"]["total"]


def test_a_cause_is_replayed(found: Path) -> None:
    """It differs on the faulty subject, and not on the model."""
    words = ("--replay", str(found / "causes/1/history.json"))
    again = here("explore", FAULT, *words, status=1)
    assert "shared pool" in again.stdout
    assert f"pinproof explore {FAULT} --replay " in again.stdout
    right = here("explore", "reference", *words, status=0)
    assert re.fullmatch(r"pass: \d steps as the model of 1.36 has them\n", right.stdout)


def test_another_history_of_a_cause_is_below_its_story(tmp_path: Path) -> None:
    """With its steps, and in a file that is replayed."""
    task = Task("1.36", SMALL[1], KubeletConfig(reserved_system_cpus=CPUSet([0])))
    shown = ((Apply(guaranteed("a", 1)), Delete("a")), (Apply(guaranteed("a", 2, 6)),))
    plan = [History.of(task, (Start(), *steps)) for steps in shown]
    write_plan(plan, "1.36", tmp_path / "plan.json")
    words = ("--plan", str(tmp_path / "plan.json"), "--report", str(tmp_path / "out"))
    here("explore", FAULT, *words, status=1)
    (folder,) = (tmp_path / "out/causes").iterdir()
    (other,) = (folder / "others").iterdir()
    _, _, below = (folder / "story.txt").read_text().partition(f"{other}:\n")
    assert [line.partition(". ")[2] for line in below.splitlines()][1:] == [
        "start the kubelet",
        "apply Guaranteed pod a (c1: 1 CPU; c2: 1 CPU)",
    ]
    here("explore", FAULT, "--replay", str(other), status=1)


def test_the_scenario_fails_for_the_fault(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And passes without it."""
    monkeypatch.setattr(registry, "_REGISTRY", {})
    spec = importlib.util.spec_from_file_location("explored", found / "causes/1/scenario.py")
    assert spec
    assert spec.loader
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    (one,) = registry.registered()
    machine = machine_of(one.machine or "")
    assert judged(one, machine, open_subject(FAULT)).verdict == "fail"
    assert judged(one, machine).verdict == "pass"


# -- going on --------------------------------------------------------------------------------------


def test_an_exploration_goes_on(results: Stream, tmp_path: Path) -> None:
    """Where it was; no history is walked twice, and a cause keeps its number and its folder."""
    words = ("explore", FAULT, *SMALL, "--report", str(tmp_path / "out"))
    here(*words, "--time", "1", "-x", status=1)
    first = results(tmp_path / "out")[1]
    story = (tmp_path / "out/causes/1/story.txt").read_text()
    here(*words, "--time", "0.05", "--resume", status=1)
    header, every, _ = results(tmp_path / "out")
    names = [one.scenario for one in every]
    assert len(set(names)) == len(names) > len(first)
    assert names[: len(first)] == [one.scenario for one in first]
    assert len(header.resumed) == 1
    assert (tmp_path / "out/causes/1/story.txt").read_text().startswith(story)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("reference", *SMALL), "subject"),
        ((FAULT, *SMALL, "--seed", "2"), "seed"),
        ((FAULT, *SMALL, *SEED, "--release", "1.35"), "release to judge by"),
        ((FAULT, *SEED, "--machine", "1s-1n-2c-smt2"), "list of machines"),
    ],
)
def test_another_exploration_is_not_gone_on_with(
    found: Path, words: tuple[str, ...], what: str
) -> None:
    """In one line, and the folder stays as it is."""
    before = (found / "result.jsonl").read_bytes()
    done = here("explore", *words, "--resume", "--report", str(found), status=2)
    assert done.stderr == f"pinproof: --resume: {found}/result.jsonl is of another {what}\n"
    assert (found / "result.jsonl").read_bytes() == before


def test_an_exploration_leaves_nothing_of_an_earlier_one(found: Path, tmp_path: Path) -> None:
    """Its causes are none of this one's."""
    folder = shutil.copytree(found, tmp_path / "out")
    here("explore", "reference", *SMALL, "--time", "0.02", "--report", str(folder), status=0)
    assert not (folder / "causes").exists()


# -- plans and shards ------------------------------------------------------------------------------


def test_a_plan_is_kept_and_walked(results: Stream, tmp_path: Path) -> None:
    """Its shards walk each of its histories once."""
    plan, words = tmp_path / "plan.json", ("--report", str(tmp_path / "out"))
    drawn = (*SMALL, "--time", "0.05", "--keep-plan", str(plan))
    here("explore", "reference", *drawn, *words, status=0)
    count = len(json.loads(plan.read_text())["histories"])
    assert count > 1  # so that each shard has one
    names: list[str] = []
    for number in (1, 2):
        walk = ("--plan", str(plan), "--shard", f"{number}/2", *words)
        here("explore", "reference", *walk, status=0)
        names += [one.scenario for one in results(tmp_path / "out")[1]]
    assert sorted(names) == sorted(f"explored/plan-{n}" for n in range(1, count + 1))


def _history(**changed: Any) -> str:
    plain: dict[str, Any] = {"machine": "1s-1n-4c-smt2", "config": {}, "steps": [{"Start": {}}]}
    return json.dumps({**plain, "format": 1, **changed})


def _plan(**changed: Any) -> str:
    history = json.loads(_history())
    return json.dumps({"format": 1, "release": "1.36", "histories": [history], **changed})


#: The model does not know the resize of a pod that does not run, nor do two pods have one name.
_TOO_LARGE: Final = guaranteed("a", 9)
_UNKNOWN_STEPS: Final = {
    "the model does not know: Resize: pod a does not run": Resize(guaranteed("a", 1)),
    "it is not possible here: ": Delete("b"),
}


@pytest.mark.parametrize(("why", "step"), _UNKNOWN_STEPS.items())
def test_a_replay_that_ends_early_says_so(tmp_path: Path, why: str, step: Step) -> None:
    """Which step it did not take, and why; the steps after it do not count."""
    path = tmp_path / "history.json"
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]), api_server=True)
    steps = (Start(), Apply(_TOO_LARGE), step, Stop())
    write_history(History.of(Task("1.36", "1s-1n-4c-smt2", config), steps), path)
    done = here("explore", "reference", "--replay", str(path), status=0)
    first, second = done.stdout.splitlines()
    assert first == "pass: 3 steps as the model of 1.36 has them"
    assert second.startswith(f"the walk ended before step 4 ({step.sentence}): {why}")


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--replay", None, "No such file or directory"),
        ("--replay", "{", "not JSON"),
        ("--replay", "[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("--plan", " " * ((64 << 20) + 1), "longer than 67108864 bytes"),
        ("--replay", "[]", "format None; this pinproof reads format 1"),
        ("--replay", _history(format=2), "format 2; this pinproof reads format 1"),
        ("--replay", _history(steps=[{"Jump": {}}]), "Jump"),
        ("--replay", _history(steps=[{}]), "not enough values"),
        ("--replay", _history(steps=[]), "the first step of a history is Start"),
        ("--replay", _history(steps=[{"Stop": {}}]), "the first step of a history is Start"),
        ("--replay", _history(config={"policy": 1}), "policy"),
        ("--replay", _history(machine="nowhere"), "there is no machine 'nowhere'"),
        (
            "--replay",
            _history(config={"feature_gates": {"Pinning": True}}),
            "the feature gate Pinning: the model of 1.36 has none",
        ),
        ("--plan", _plan(format=9), "format 9; this pinproof reads format 1"),
        ("--plan", _plan(histories=[]), "the plan has no history"),
        ("--plan", _plan(release="1.99"), "1.99"),
        (
            "--plan",
            _plan(histories=[json.loads(_history(row={"colour": "red"}))]),
            "history 1: no factor colour with the value red",
        ),
    ],
)
def test_a_file_that_cannot_be_walked_is_one_line(
    tmp_path: Path, option: str, text: str | None, says: str
) -> None:
    """It names the file, with the status of wrong usage."""
    path = tmp_path / "file.json"
    if text is not None:
        path.write_text(text)
    done = here("explore", "reference", option, str(path), cwd=tmp_path, status=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pinproof: {path}: "), line
    assert says in line
    assert list(tmp_path.iterdir()) in ([], [path])


def test_the_model_is_of_the_release_that_judges(tmp_path: Path) -> None:
    """1.26 and the newest release differ in most histories."""
    words = ("explore", "reference", "--release", "1.26", *SMALL, "--time", "0.03", "--report")
    done = here(*words, str(tmp_path / "out"), cwd=tmp_path, status=0)
    assert "reference  release 1.26" in done.stdout


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.needs("sandbox")
def test_a_kubelet_that_dies_is_not_explored(tmp_path: Path) -> None:
    """Status 3: nothing can be said of it."""
    kubelet = tmp_path / "kubelet"
    says = 'if [ "$1" = --version ]; then echo Kubernetes v1.36.4; exit 0; fi\nexit 7\n'
    kubelet.write_text(f"#!/bin/sh\n{says}")
    kubelet.chmod(0o755)
    done = here("explore", f"kubelet:{kubelet}", *SMALL, "--time", "0.1", cwd=tmp_path, status=3)
    assert "does not start on the simplest machine" in done.stderr
    assert not (tmp_path / "explored").exists()


def test_an_interrupted_exploration_keeps_what_it_found(results: Stream, tmp_path: Path) -> None:
    """Status 3 where nothing was found; the next one goes on. See test_exploring_interrupted.py for
    one that has found something, and for the other signal."""
    words = ("explore", "reference", *SMALL, "--report", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-m", "pinproof", *words, "--time", "5"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        stream = tmp_path / "result.jsonl"
        assert until(lambda: content(stream).count(b"\n") >= 10)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 3, said
    assert "interrupted; what was found is kept, --resume goes on" in said
    assert "Traceback" not in said
    walked = json.loads((tmp_path / "coverage.json").read_text())["histories"]
    assert walked > 1
    here(*words, "--time", "0.05", "--resume", status=0)
    assert len(results(tmp_path)[1]) > walked


# -- after a run -----------------------------------------------------------------------------------


def test_a_run_explores_at_its_end(results: Stream, tmp_path: Path) -> None:
    """The same subject and machines; the worse of both decides the exit status. This fault is one
    that the chosen scenarios do not show."""
    run = ("run", "-k", "packing/", "-n", "0", *SMALL, "--report", str(tmp_path))
    here(*run, "--subject", FAULT, "--explore", "0.1", status=1)
    assert results(tmp_path)[2].exit_status == 0
    header, _, footer = results(tmp_path / "explored")
    assert footer.exit_status == 1
    assert header.subject.name == FAULT
    assert header.machines == ["1s-1n-4c-smt2"]
    assert (tmp_path / "explored/causes/1/scenario.py").exists()
