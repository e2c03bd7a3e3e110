"""State files that real kubelets wrote and read, release by release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from differential.record_golden import read_by_model
from reference import Checkpoint, CheckpointError, CPUSet
from reference.cpumanager.state.state_checkpoint import exit_status, reported
from reference.cpumanager.state.state_mem import State
from tests.reference.recorded import golden

RESIZE = "InPlacePodVerticalScalingExclusiveCPUs"


def texts(entries: Mapping[str, Mapping[str, CPUSet]]) -> dict[str, dict[str, str]]:
    return {uid: {name: str(one) for name, one in named.items()} for uid, named in entries.items()}


def outcome(case: dict[str, Any], release: str) -> dict[str, Any]:
    try:
        read = read_by_model(case, release)
    except CheckpointError as error:
        return {"ok": False, "error": str(error)}
    shown = {
        "ok": True,
        "defaultCpuSet": str(read.default_cpuset),
        "entries": texts(read.entries),
        "podEntries": {uid: str(cpus) for uid, cpus in read.pod_entries.items()},
        "baselines": texts(read.baselines),
    }
    return {key: one for key, one in shown.items() if one or key in ("defaultCpuSet", "entries")}


def test_every_file_that_was_read() -> None:
    seen, expected = {}, {}
    for case in golden("checkpoints-1.37.json")["read"]:
        for release, recorded in case["outcome"].items():
            key = (case["name"], release)
            expected[key] = {k: v for k, v in recorded.items() if k != "file_untouched"}
            seen[key] = outcome(case, release)
            assert recorded["file_untouched"], key
    assert len(seen) > 200
    assert seen == expected


def replayed(case: dict[str, Any], *, baselines: bool) -> Iterator[State]:
    """The state before the operations, and after each of them."""
    state = State.fresh(case["policy"], keeps_baselines=baselines)
    yield state
    for operation in case["operations"]:
        match operation:
            case {"op": "default", "cpus": cpus}:
                state.set_default(CPUSet.parse(cpus))
            case {"op": "set", "pod": uid, "container": name, "cpus": cpus}:
                state.set(uid, name, CPUSet.parse(cpus))
            case {"op": "podset", "pod": uid, "cpus": cpus}:
                state.set_pod(uid, CPUSet.parse(cpus))
            case {"op": "delete", "pod": uid, "container": name}:
                state.delete(uid, name)
            case {"op": "clear"}:
                state.clear()
            case _:
                raise AssertionError(operation)
        yield state


def test_every_file_that_was_written_to_the_byte() -> None:
    files = 0
    for case in golden("checkpoints-1.37.json")["write"]:
        gates = case["feature_gates"]
        for release, text in case["file"].items():
            keeps = release == "1.37.0" and gates.get(RESIZE, False)
            written = [
                state.checkpoint().dumps(release=release, feature_gates=gates)
                for state in replayed(case, baselines=keeps)
            ]
            assert written[-1] == text, case["name"]
            step_by_step = case["file_after_each_operation"].get(release)
            if step_by_step is not None:
                assert written[1:] == step_by_step, case["name"]
            files += 1
    assert files > 20


def test_what_each_release_writes_it_reads_and_writes_alike() -> None:
    files = 0
    for release, recorded in golden("checkpoints-by-release.json")["releases"].items():
        for name, file in recorded["files"].items():
            read = Checkpoint.loads(file["text"], release=release)
            assert read.dumps(release=release) == file["text"], (release, name)
            assert f'"checksum":{file["checksum"]}' in file["text"]
            files += 1
    assert files == 25


#: What a case says of the runtime, in its name.
_UNKNOWN = re.compile(r"unknown|without entries")


def _containers(case_name: str, pods: list[list[str]]) -> dict[str, tuple[str, str]]:
    return {} if _UNKNOWN.search(case_name) else {one: (pod, name) for pod, name, one in pods}


def test_a_file_of_1_17_in_every_release_that_was_given_it() -> None:
    data = golden("checkpoints-by-release.json")
    pods = data["releases"]["1.17.17"]["container ids (pod, container, id)"]
    tried = 0
    for release, cases in data["migration: release reading a 1.17.17 file"].items():
        for name, case in cases.items():
            if not isinstance(case, dict):
                continue  # the containers of the runtime
            known = _containers(name, pods)
            if "restart of" in name or "then a new" in name:
                known = known or {one: (pod, part) for pod, part, one in pods}
            judge(case, release, known)
            tried += 1
    for case in data["rollback: 1.17.17 reading a v2 file"].values():
        judge(case, "1.17.17", {})
        tried += 1
    assert tried > 25


def judge(case: dict[str, Any], release: str, known: dict[str, tuple[str, str]]) -> None:
    """Outcome, exit status and the words of the refusal."""
    try:
        Checkpoint.loads(case["file before"], release=release, containers=known)
    except CheckpointError as error:
        assert case["outcome"] == f"exits, status {exit_status(release)}", case
        lines = "\n".join(case["error lines"])
        path = "<root-dir>/cpu_manager_state"
        possible = [reported(text, release, path) for text in error.possible]
        assert any(one in lines or one.replace('"', '\\"') in lines for one in possible), lines
    else:
        assert case["outcome"] == "runs", case
