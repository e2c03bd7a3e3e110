"""The comparison with the Go code itself: few differences are no news if it could not see any."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import get_args

import pytest

import reference.cpumanager.policy_static
import reference.cpumanager.state.checkpoint
from conformance.subjects.exec import wire
from conformance.subjects.exec.program import Program, Starved
from differential.exactness.__main__ import _report, main
from differential.exactness.cases import Action, Arrive, Case, Resize, Restart, dumps, loads
from differential.exactness.drawing import draw
from differential.exactness.driver import Driver
from differential.exactness.files import Change, Now, OtherFile
from differential.exactness.script import Difference, End
from differential.exactness.walk import Model
from reference import CPUSet, KubeletHangs, StaticPolicy
from reference.cpumanager import pod_level_resources as pod_level
from reference.cpumanager.policy_options import OPTIONS
from reference.cpumanager.state.state_mem import State
from reference.kubelet.container_manager import ContainerManager
from reference.steps import Container, Pod
from tests.cli.running import python

ROOT = Path(__file__).parents[2]
RELEASES = ("1.22", "1.26", "1.32", "1.36", "1.37")


@pytest.fixture
def driver(driver_path: Callable[[str], Path]) -> Iterator[Driver]:
    """The driver of 1.36."""
    with closing(Driver(driver_path("1.36"))) as made:
        yield made


@pytest.mark.parametrize("release", RELEASES)
def test_the_first_cases_have_no_difference(
    release: str, driver_path: Callable[[str], Path]
) -> None:
    with closing(Driver(driver_path(release))) as made:
        for number in range(25):
            case = draw(3, release, number)
            found, _ = made.compare(case)
            assert found is None, f"case {number} of seed 3\n{dumps(case)}\n{found}"


@pytest.mark.parametrize("number", range(12))
def test_a_case_survives_being_written_down(number: int) -> None:
    case = draw(4, "1.36", number)
    assert loads(dumps(case)) == case
    assert draw(4, "1.36", number) == case


def test_a_difference_ends_the_command_with_one_and_can_be_replayed(
    driver_path: Callable[[str], Path], tmp_path: Path
) -> None:
    """So the comparison can fail: here with the model of another release. What it shows is made
    small and kept."""
    driver, saved = ("--driver", str(driver_path("1.36"))), tmp_path / "difference.json"
    said = _differs(*driver, "--release", "1.32", "--save", str(saved), "--cases", "300")
    assert f"replay: python -m differential.exactness --replay {saved}" in said
    assert re.search(r"^release 1\.32", said, re.MULTILINE)
    model, go = (re.findall(rf"^  {one}: (.*)", said, re.M) for one in ("model", "go"))
    assert model != go
    assert len(loads(saved.read_text()).actions) < 5
    assert _differs(*driver, "--replay", str(saved)).partition("differs at:")[2] in said


def _differs(*arguments: str) -> str:
    """What the command writes, which has to find a difference."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setattr(sys, "argv", ["exactness", *arguments])
        assert main() == 1
    return out.getvalue()


def test_no_difference_ends_it_with_zero(driver_path: Callable[[str], Path]) -> None:
    words = ("--release", "1.36", "--driver", str(driver_path("1.36")), "--cases", "20")
    done = python("-m", "differential.exactness", *words, cwd=ROOT, status=0)
    assert done.stdout.startswith("1.36 (seed 1): 20 cases, ")
    assert "0 differences" in done.stdout


def test_what_is_drawn_is_what_the_page_promises() -> None:
    """Machines, options and histories of every kind, among a few hundred cases."""
    cases = [draw(1, "1.36", number) for number in range(400)]
    machines = [case.machine for case in cases]
    topologies = [machine.cpu_topology() for machine in machines]
    assert any(not one.even_cores for one in topologies)
    assert any(len(set(one.numa_masks)) > 4 for one in topologies)
    assert any(one.num_uncore_caches > one.num_numa_nodes for one in topologies)
    assert any(max(one.details) >= len(one.details) for one in topologies)
    assert any(one.num_sockets > one.num_numa_nodes for one in topologies)
    assert any(not node.cores for machine in machines for node in machine.nodes)
    options = {name for case in cases for name in case.config.policy_options}
    assert options >= set(OPTIONS)
    policies = {case.config.topology_manager_policy for case in cases}
    assert policies == {"none", "best-effort", "restricted", "single-numa-node"}
    actions = [action for case in cases for action in case.actions]
    assert {type(action) for action in actions} == set(get_args(Action))
    restarts = [one for one in actions if isinstance(one, Restart)]
    assert {one.file.change for one in restarts if one.file} == set(Change)
    assert any(one.rebooted for one in restarts)
    pods = [one.pod for one in actions if isinstance(one, Arrive)]
    assert {one.resources is None for one in pods} == {True, False}
    gates = {gate for case in cases for gate in case.config.feature_gates}
    assert {"PodLevelResourceManagers", "InPlacePodVerticalScalingExclusiveCPUs"} <= gates


def test_some_cases_end_with_a_kubelet_that_hangs(driver_path: Callable[[str], Path]) -> None:
    """The model says so and goes on; the Go code is asked whether it does, which costs it."""
    drawn = (draw(1, "1.26", number) for number in range(1230, 6000))
    case = next(one for one in drawn if Model(one).script().end is End.HANGS)
    with closing(Driver(driver_path("1.26"), hang_patience=1.0)) as driver:
        assert driver.make_sure_it_hangs(case)[0] is None


def test_a_hang_that_is_none_is_a_difference(
    driver_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(*_: object) -> CPUSet:
        raise KubeletHangs("it seems")

    monkeypatch.setattr(StaticPolicy, "take", hangs)
    cases = (draw(3, "1.36", number) for number in range(50))
    case = next(one for one in cases if Model(one).script().end is End.HANGS)
    with closing(Driver(driver_path("1.36"), hang_patience=30.0)) as driver:
        found, _ = driver.make_sure_it_hangs(case)
    assert found is not None
    assert (found.asked, found.model) == ("the last request", "hangs")


def test_a_busy_host_is_no_difference(
    driver_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that had no processor is asked again, with more patience, and at last given up."""
    case, given = draw(3, "1.36", 0), []

    def starved_until(enough: float) -> Callable[[object, object, float], None]:
        def made_sure(_script: object, _program: object, seconds: float) -> None:
            given.append(seconds)
            if seconds < enough:
                raise Starved("the program gave no answer")

        return made_sure

    place = "differential.exactness.driver.make_sure_it_hangs"
    with closing(Driver(driver_path("1.36"), hang_patience=2.0)) as driver:
        monkeypatch.setattr(place, starved_until(20))
        assert driver.make_sure_it_hangs(case)[0] is None
        monkeypatch.setattr(place, starved_until(1e9))
        with pytest.raises(Starved, match="gave no answer"):
            driver.make_sure_it_hangs(case)
    assert given == [2, 20, 2, 20, 200]


def test_a_program_that_had_no_processor_is_asked_again_in_a_walk(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is another program; the second time there is no verdict, and no difference."""
    received, starved = Program.receive, cycle([True, False])

    def receive(self: Program, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        if len(requests) > 1 and next(starved):
            raise Starved("the program gave no answer")
        return received(self, requests)

    monkeypatch.setattr(Program, "receive", receive)
    cases = [draw(3, "1.36", number) for number in range(2)]
    assert [found for _, found, _ in driver.walk(cases)] == [None, None]
    starved = cycle([True])
    with pytest.raises(Starved, match="gave no answer"):
        list(driver.walk(cases))


@pytest.mark.parametrize("starved", [False, True])
def test_a_difference_that_does_not_come_again_is_told(
    starved: bool,
    driver: Driver,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the Go code has no processor any more."""

    def compare(*_: object) -> None:
        raise Starved("the program gave no answer")

    if starved:
        monkeypatch.setattr(driver, "compare", compare)
    asked = argparse.Namespace(save=tmp_path / "difference.json", seed=3)
    _report(driver, draw(3, "1.36", 0), asked, 0, Difference("the last request", "hangs", "pong"))
    said = capsys.readouterr().out
    assert "it differed once: the last request: model: hangs, Go: pong" in said
    assert f"replay: python -m differential.exactness --replay {asked.save}" in said


# -- what a wrong model would be caught by -------------------------------------------------------


def _caught(driver: Driver, release: str, cases: int = 500) -> tuple[Case, Difference]:
    """The first case that shows a difference, and the difference."""
    drawn = (draw(3, release, number) for number in range(cases))
    for case, found, _ in driver.walk(drawn):
        if found is not None:
            return case, found
    pytest.fail(f"no difference in {cases} cases")


def test_a_pool_dealt_out_wrongly_is_seen(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose shared containers run on all CPUs of their pod."""
    right = pod_level.partition

    def wrong(pod: Pod, cpus: CPUSet, counts: dict[str, int], take: object) -> dict[str, CPUSet]:
        given = right(pod, cpus, counts, take)  # type: ignore[arg-type]
        return {name: held if counts.get(name) else cpus for name, held in given.items()}

    monkeypatch.setattr(reference.cpumanager.policy_static, "partition", wrong)
    case, found = _caught(driver, "1.36")
    assert found.asked.startswith("admit ")
    assert found.asked.endswith(": state file")
    assert case.config.topology_manager_scope == "pod"


def test_cpus_of_a_pool_that_are_lost_are_seen(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that forgets a pod's CPUs with its last container."""
    monkeypatch.setattr(State, "delete_pod", lambda self, uid: None)
    _, found = _caught(driver, "1.36")
    assert found.asked.endswith(": state file")


@pytest.mark.parametrize("release", ["1.22", "1.36", "1.37"])
def test_a_checksum_not_looked_at_is_seen(
    release: str, driver_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference.cpumanager.state.checkpoint, "_checksum", lambda *_: 0)
    monkeypatch.setattr(reference.cpumanager.state.checkpoint, "_CORRUPTED", "checkpoint is fine")
    with closing(Driver(driver_path(release))) as made:
        _, found = _caught(made, release)
    assert found.asked.startswith("start the kubelet") or found.asked.endswith(": state file")


def test_a_state_that_is_not_judged_is_seen(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that starts on any state that it can read."""
    monkeypatch.setattr(StaticPolicy, "validate", lambda self, state: None)
    _, found = _caught(driver, "1.36")
    assert found.asked.startswith("start the kubelet")
    assert found.model == "runs"


def test_a_file_of_another_release_that_is_not_understood_is_seen(
    driver_path: Callable[[str], Path],
) -> None:
    """The model of 1.36 beside the Go code of 1.32, which cannot read a third layout."""
    files = [Restart(file=OtherFile(Change.RELEASE, seed)) for seed in range(40)]
    with closing(Driver(driver_path("1.32"))) as made:
        assert any(made.compare(_on_a_file(each, release="1.36"))[0] for each in files)


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_a_resize_as_another_release_does_it_is_seen(
    release: str, driver_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model in which 1.37 takes CPUs as 1.36 does, and the other way round."""
    before = Pod("a", (Container("c", "500m", "500m", "1Mi", "1Mi"),))
    after = Pod("a", (Container("c", "1", "1", "1Mi", "1Mi"),))
    case = replace(_on_a_file(Restart(), release), actions=(Arrive(before), Resize(after)))
    made = Driver(driver_path(release))
    assert made.compare(case)[0] is None

    def wrong(self: ContainerManager, pod: Pod) -> None:
        if release == "1.37":
            self.admit(pod)

    monkeypatch.setattr(ContainerManager, "resize", wrong)
    found, _ = made.compare(case)
    made.close()
    assert found is not None
    assert found.asked.startswith("resize to ")


def test_resizes_are_among_what_is_drawn() -> None:
    """Both of cpu and of memory, and some that a Topology Manager refuses."""
    scripts = [Model(draw(3, "1.36", number)).script() for number in range(100)]
    asked = [one for script in scripts for one in script.asked if "resize to" in one.words]
    assert {one.model[:8] for one in asked} == {"admitted", "refused:"}


# -- files ---------------------------------------------------------------------------------------


@cache
def _plain(release: str) -> Case:
    """The first one under the static policy without options, on which a kubelet runs."""
    return next(
        case
        for case in (draw(3, release, number) for number in range(100))
        if not case.config.policy_options and case.config.policy == "static"
        if Model(replace(case, actions=())).script().asked[0].model == "runs"
    )


def _on_a_file(restart: Restart, release: str = "1.36") -> Case:
    """A case with a pod, whose kubelet finds another file."""
    pod = Pod("a", (Container("c", "1", "1", "1Mi", "1Mi"),))
    return replace(_plain(release), actions=(Arrive(pod), restart))


@pytest.mark.parametrize("change", list(Change))
def test_a_file_follows_from_its_seed_and_the_node(change: Change) -> None:
    text = Model(_on_a_file(Restart())).script().asked[-1].state_file
    now = Now(text, "1.36", {}, "static", CPUSet(range(8)), {("u", "c"): "id"})
    files = [OtherFile(change, seed).of(now) for seed in range(20)]
    assert files == [OtherFile(change, seed).of(now) for seed in range(20)]
    if change is Change.GONE:
        assert set(files) == {None}
    else:
        assert len(set(files)) > 3


@pytest.mark.parametrize("change", list(Change))
def test_every_change_of_a_file_says_the_same_to_both(change: Change, driver: Driver) -> None:
    for seed in range(12):
        case = _on_a_file(Restart(file=OtherFile(change, seed)))
        assert driver.compare(case)[0] is None, f"{change} {seed}"


def test_an_old_release_is_not_asked_for_what_it_has_not() -> None:
    case = draw(1, "1.22", 7)
    assert set(case.config.policy_options) <= {"full-pcpus-only"}
    drawn = [action for number in range(60) for action in draw(1, "1.22", number).actions]
    assert not any(isinstance(one, Resize) for one in drawn)
    assert all(one.pod.resources is None for one in drawn if isinstance(one, Arrive))
