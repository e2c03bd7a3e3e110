"""The recordings of real kubelets that judge the model: complete, current, and able to object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from conformance.judge import Case, judge
from conformance.lockstep import Seen
from conformance.recording import (
    RecordedOracle,
    Recording,
    RecordingError,
    RecordingHeader,
    read,
    recorded,
    recorded_oracle,
    shipped,
    write,
)
from conformance.scenario import Scenario, catalogue
from conformance.subject import OF_REAL_NODES
from conformance.subjects.miniatures import MINIATURES, miniature
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUSet
from reference.releases import Release
from reference.steps import RemoveState, Start
from reference.view import Phase, PodView, View
from topologies import Machine, machine, names

HEADER: Final = RecordingHeader(release="1.36", version="v1.36.4", digest="sha256:ab")
VIEW: Final = View(
    running=True,
    pods={"a": PodView(Phase.REJECTED, "R", "M", "Guaranteed")},
    assignments={"a": {"c": CPUSet([1, 5])}},
    shared_pool=CPUSet([0, 2]),
    state_file="{}",
    cpusets={"a": {"c": CPUSet([1, 5]), "d": None}},
)


def _cases(one: Machine) -> list[Case]:
    return [Case(scenario, one) for scenario in catalogue() if scenario.machine in ("", one.name)]


def _recorded() -> list[str]:
    """The machines of the catalogue that the shipped recording was made on: the described ones.
    On the captured ones the invariants and the promises in words judge the model, and a real
    kubelet's own topology (tests/topologies/test_machine_golden.py)."""
    recording = shipped(NEWEST)
    assert recording is not None
    digests = {digest for _, digest in recording.cases}
    return [name for name in names() if machine(name).digest in digests]


def test_many_machines_are_recorded() -> None:
    assert len(_recorded()) >= 24


@pytest.mark.parametrize("name", _recorded())
def test_the_model_does_what_a_real_kubelet_did(name: str) -> None:
    """On every machine recorded, in every scenario that applies there, after every step; and each
    of them was recorded as it is now."""
    ran = 0
    for case in _cases(machine(name)):
        result = judge(
            case,
            ReferenceSubject(),
            oracle=recorded_oracle(case.scenario.id, case.machine, NEWEST),
            release=NEWEST,
        ).result
        if result.verdict == "skip":
            continue
        assert result.verdict == "pass", result.explanation
        assert result.witness.startswith("a recording of a real kubelet v1.36"), case.id
        ran += 1
    assert ran > 10


@pytest.mark.parametrize("name", [k for k, one in MINIATURES.items() if one.release == NEWEST])
def test_a_recording_objects(name: str) -> None:
    """To a wrong model, where the model would have agreed with itself: on the machine that its
    scenario needs, which is one of those recorded."""
    caught_by = MINIATURES[name].caught_by
    scenario = next(one for one in catalogue() if one.id == caught_by)
    case = Case(scenario, machine(scenario.machine or MINIATURES[name].machine))
    result = judge(
        case,
        miniature(name),
        oracle=recorded_oracle(caught_by, case.machine, NEWEST),
        release=NEWEST,
    ).result
    assert result.verdict == "fail"
    assert "recording of a real kubelet" in result.witness


def test_a_recording_is_read_as_written(tmp_path: Path) -> None:
    """Packed or plain."""
    on = machine("1s-1n-4c-smt2")
    case = recorded("a/b", on, [Seen("start the kubelet", VIEW)])
    for name in ("r.jsonl", "r.jsonl.xz"):
        write(tmp_path / name, HEADER, [case])
        recording = read(tmp_path / name)
        assert recording.header == HEADER
        assert recording.case("a/b", on) == case
        assert recording.case("a/c", on) is None
        found = RecordedOracle(case, recording.header).after(Start())
        assert found == VIEW


def test_a_recording_is_added_to(tmp_path: Path) -> None:
    """By another run of the same kubelet; another kubelet begins anew."""
    on, path = machine("1s-1n-4c-smt2"), tmp_path / "r.jsonl"
    write(path, HEADER, [recorded("a/b", on, []), recorded("a/c", on, [])])
    again = recorded("a/b", on, [Seen("start the kubelet", VIEW)])
    write(path, HEADER, [again])
    assert set(read(path).cases) == {("a/b", on.digest), ("a/c", on.digest)}
    assert read(path).case("a/b", on) == again
    write(path, RecordingHeader(release="1.36", version="v1.36.9", digest="sha256:cd"), [again])
    assert set(read(path).cases) == {("a/b", on.digest)}


def test_a_step_that_was_not_recorded_ends_what_the_oracle_knows() -> None:
    """A changed scenario must not be judged by what was seen of another."""
    case = recorded("a/b", machine("1s-1n-4c-smt2"), [Seen("start the kubelet", VIEW)] * 2)
    oracle = RecordedOracle(case, HEADER)
    assert oracle.after(RemoveState()) is None
    assert oracle.after(Start()) is None


def test_a_changed_machine_has_no_recording() -> None:
    """Its digest differs."""
    on = machine("1s-1n-4c-smt2")
    recording = Recording(HEADER, [recorded("a/b", on, [])])
    assert recording.case("a/b", replace(on, name="another")) is not None
    assert recording.case("a/b", replace(machine("1s-1n-4c-smt1"), name=on.name)) is None


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"kind":"case"}\n'])
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes) -> None:
    """In one line."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="not a recording") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_the_shipped_recording_names_its_kubelet() -> None:
    """Release, version and digest."""
    recording = shipped(NEWEST)
    assert recording is not None
    assert recording.header.release == NEWEST
    assert recording.header.digest.startswith("sha256:")
    assert shipped("1.8") is None


def test_every_scenario_is_recorded_somewhere() -> None:
    """A scenario that no machine of the catalogue can run has never been seen on a kubelet."""
    recording = shipped(NEWEST)
    assert recording is not None
    machines = [machine(name) for name in _recorded()]

    def seen(scenario: Scenario) -> bool:
        return any(recording.case(scenario.id, one) is not None for one in machines)

    minor = Release.parse(NEWEST).minor
    promised = [
        one
        for one in catalogue()
        if Release.parse(one.since).minor <= minor
        and (not one.until or minor <= Release.parse(one.until).minor)
        and not one.capabilities & OF_REAL_NODES
    ]
    assert [one.id for one in promised if not seen(one)] == []
