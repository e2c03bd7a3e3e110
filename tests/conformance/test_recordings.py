"""The recordings of real kubelets that judge the model: complete, current, and able to object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from conformance import record
from conformance.catalogue import catalogue
from conformance.judge import Case, judge
from conformance.lockstep import Seen
from conformance.record import MACHINES
from conformance.recording import (
    PromisesOnly,
    RecordedOracle,
    Recording,
    RecordingError,
    RecordingHeader,
    read,
    recorded,
    recorded_oracle,
    recorded_releases,
    shipped,
    write,
)
from conformance.results import Result
from conformance.session.judging import worth_recording
from conformance.subject import OF_REAL_NODES
from conformance.subjects.miniatures import MINIATURES, miniature
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUSet
from reference.releases import Release
from reference.steps import RemoveState, Start, Step
from reference.view import Phase, PodView, View
from tests.conformance.judging import scenario_of
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


def _shipped(release: str = NEWEST) -> Recording:
    found = shipped(release)
    assert found is not None
    return found


def _recorded(release: str = NEWEST) -> list[str]:
    """The machines of the catalogue that a shipped recording was made on: described ones.
    On the captured ones the invariants and the promises in words judge the model, and a real
    kubelet's own topology (tests/topologies/test_machine_golden.py)."""
    digests = {digest for _, digest in _shipped(release).cases}
    return [name for name in names() if machine(name).digest in digests]


def test_many_machines_are_recorded() -> None:
    """And each of those that ``conformance.record`` means is in the catalogue."""
    assert len(_recorded()) >= 24
    assert set(MACHINES) <= set(names())
    assert set(_recorded()) <= set(MACHINES)


#: What a kubelet does not do the same each time is not recorded: how much of a pod's end it has
#: begun when it is killed, and whether it reads a resize before or after it is stopped.
BY_CHANCE = {
    "crash/after-cpus-return",
    "crash/before-cpus-return",
    "crash/half-returned-cpus-stop-the-kubelet",
    "resize/granted-without-cpus",
    "resize/shared-containers-stay-shared",
}


@pytest.mark.parametrize(
    ("release", "name"),
    [(release, name) for release in recorded_releases() for name in _recorded(release)],
)
def test_the_model_does_what_a_real_kubelet_did(release: str, name: str) -> None:
    """On every machine recorded, in every scenario that applies there, after every step. What was
    recorded was the same steps. Of the newest release each of them was recorded as it is now."""
    oracles: list[RecordedOracle | PromisesOnly] = []
    judged = [_judged(case, release, oracles) for case in _cases(machine(name))]
    assert [one.lost for one in oracles if isinstance(one, RecordedOracle) and one.lost] == []
    ran = [one for one in judged if one.verdict != "skip"]
    wrong = [one.explanation for one in ran if one.verdict != "pass"]
    assert wrong == []
    recorded_ones = [
        one for one in ran if one.witness.startswith(f"a recording of a real kubelet v{release}.")
    ]
    assert recorded_ones
    if release == NEWEST:
        assert len(recorded_ones) > 10
        assert {one.scenario for one in ran if one not in recorded_ones} <= BY_CHANCE


def _judged(case: Case, release: str, oracles: list[RecordedOracle | PromisesOnly]) -> Result:
    """The result of the model; who judged it joins the ``oracles``."""
    maker = recorded_oracle(case.scenario.id, case.machine, release)

    def oracle(*given: Any, **named: Any) -> RecordedOracle | PromisesOnly:
        oracles.append(maker(*given, **named))
        return oracles[-1]

    return judge(case, ReferenceSubject(release=release), oracle=oracle, release=release).result


@pytest.mark.parametrize("name", [k for k, one in MINIATURES.items() if one.release == NEWEST])
def test_a_recording_objects(name: str) -> None:
    """To a wrong model, where the model would have agreed with itself: on the machine that its
    scenario needs, which is one of those recorded."""
    scenario = scenario_of(MINIATURES[name].caught_by)
    case = Case(scenario, machine(scenario.machine or MINIATURES[name].machine))
    oracle = recorded_oracle(scenario.id, case.machine, NEWEST)
    result = judge(case, miniature(name), oracle=oracle, release=NEWEST).result
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
    """By another run of the same kubelet, and by another build of its version, which is named then;
    a kubelet of another version begins anew."""
    on, path = machine("1s-1n-4c-smt2"), tmp_path / "r.jsonl"
    write(path, HEADER, [recorded("a/b", on, []), recorded("a/c", on, [])])
    again = recorded("a/b", on, [Seen("start the kubelet", VIEW)])
    write(path, HEADER, [again])
    assert set(read(path).cases) == {("a/b", on.digest), ("a/c", on.digest)}
    assert read(path).case("a/b", on) == again
    other = RecordingHeader(release=HEADER.release, version=HEADER.version, digest="sha256:ef")
    for build, others in ((other, (HEADER.digest,)), (HEADER, ("sha256:ef",))):
        write(path, build, [again])
        assert read(path).header.digest == build.digest
        assert read(path).header.others == others
        assert set(read(path).cases) == {("a/b", on.digest), ("a/c", on.digest)}
    write(path, RecordingHeader(release="1.36", version="v1.36.9", digest="sha256:cd"), [again])
    assert set(read(path).cases) == {("a/b", on.digest)}


def test_a_step_that_was_not_recorded_ends_what_the_oracle_knows() -> None:
    """A changed scenario must not be judged by what was seen of another."""
    case = recorded("a/b", machine("1s-1n-4c-smt2"), [Seen("start the kubelet", VIEW)] * 2)
    oracle = RecordedOracle(case, HEADER)
    assert oracle.after(RemoveState()) is None
    assert oracle.after(Start()) is None


def test_a_changed_machine_has_no_recording() -> None:
    on = machine("1s-1n-4c-smt2")
    recording = Recording(HEADER, [recorded("a/b", on, [])])
    assert recording.case("a/b", replace(on, name="another")) is not None
    assert recording.case("a/b", replace(machine("1s-1n-4c-smt1"), name=on.name)) is None


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"kind":"case"}\n'])
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"^[^\n]*not a recording[^\n]*$"):
        read(path)


@pytest.mark.parametrize("release", recorded_releases())
def test_a_shipped_recording_names_its_kubelet(release: str) -> None:
    """Release, version and digest; it judges its minor and its own patch release."""
    header = _shipped(release).header
    assert header.release == release
    assert header.version.startswith(f"v{release}.")
    assert header.digest.startswith("sha256:")
    assert shipped(header.version.removeprefix("v")) is not None
    assert shipped(f"{release}.99") is None


def test_what_was_not_recorded_has_no_recording() -> None:
    assert NEWEST in recorded_releases()
    assert shipped("1.8") is None
    assert shipped(f"{NEWEST}+true-sizes") is None


def test_what_chance_decided_is_not_recorded() -> None:
    """Another kubelet of the release may do otherwise."""
    case = Case(scenario_of("packing/whole-core"), machine("1s-1n-4c-smt2"))

    class Lucky(PromisesOnly):
        """Expects another pool than there is, and takes what comes."""

        def after(self, step: Step) -> View | None:
            return replace(VIEW, shared_pool=CPUSet([9]))

        def follow(self, seen: View, *, late: bool) -> View | None:
            return seen

    sure = judge(case, ReferenceSubject(), oracle=lambda *_, **__: PromisesOnly(), release=NEWEST)
    lucky = judge(case, ReferenceSubject(), oracle=lambda *_, **__: Lucky(), release=NEWEST)
    assert sure.result.verdict == lucky.result.verdict == "pass"
    assert (sure.by_chance, lucky.by_chance) == (False, True)
    assert worth_recording(sure)
    assert not worth_recording(lucky)


def test_a_run_that_breaks_replaces_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its exit status is the command's."""
    monkeypatch.setattr(record, "SHIPPED", tmp_path)
    kept = tmp_path / "1.36.jsonl.xz"
    kept.write_bytes(b"as it was")
    monkeypatch.setattr(record, "arguments", lambda *_: ["--no-such-option"])
    assert record.main(["1.36"]) == 4
    assert kept.read_bytes() == b"as it was"
    monkeypatch.setattr(record, "arguments", lambda *given: ["--collect-only", "-q", *_made(given)])
    assert record.main(["1.36"]) == 0
    assert kept.read_bytes() == b"anew"


def _made(given: tuple[object, ...]) -> list[str]:
    """A suite of no test, and what a run would have recorded."""
    path = given[3]
    assert isinstance(path, Path)
    path.write_bytes(b"anew")
    suite = path.with_name("test_nothing.py")
    suite.write_text("def test_it(): pass")
    return [str(suite), "-c", "/dev/null"]


def test_what_is_missing_is_recorded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--missing``: a new scenario takes no hour."""
    asked: list[tuple[str, list[str], list[str]]] = []
    monkeypatch.setattr(
        record, "record", lambda release, machines, _, ids: asked.append((release, machines, ids))
    )
    whole, gone = _shipped(), "discovery/cores-of-two-packages-differ"
    own = scenario_of(gone).machine
    rest = [one for key, one in whole.cases.items() if key[0] != gone]
    monkeypatch.setattr(record, "shipped", lambda _: Recording(whole.header, rest))
    assert record.main(["--missing", "--machine", own, NEWEST]) == 0
    [(release, machines, ids)] = asked
    assert (release, machines, {*ids} - BY_CHANCE) == (NEWEST, [own], {gone})
    assert record.main(["--missing", "--machine", "1s-1n-2c-smt1", NEWEST]) == 0
    assert len(asked) == 1, "a machine where nothing is missing is left out"
    words = record.arguments(NEWEST, ["1s-1n-4c-smt2"], 2, Path("x"), ["a/b", "c/d"])
    assert words[-2:] == ["-k", "a/b or c/d"]


def test_every_scenario_is_recorded_somewhere() -> None:
    """A scenario that no machine of the catalogue can run has never been seen on a kubelet."""
    recording, machines = _shipped(), [machine(name) for name in _recorded()]
    minor = Release.parse(NEWEST).minor
    promised = [
        one
        for one in catalogue()
        if Release.parse(one.since).minor <= minor
        and (not one.until or minor <= Release.parse(one.until).minor)
        and not one.capabilities & OF_REAL_NODES
        and not one.of_fork
    ]
    seen = {one.id for one in promised if any(recording.case(one.id, on) for on in machines)}
    assert {one.id for one in promised} - seen <= BY_CHANCE
