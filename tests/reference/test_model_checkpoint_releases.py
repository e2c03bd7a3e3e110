"""The state file by release: layouts, reading order, texts, exit status; what is written is read
back, and which release reads whose file. Checksums, and what wins where a file says two things,
are recorded (``test_model_checkpoint_golden``).

Sources: ``pkg/kubelet/cm/cpumanager/state`` (``state_file.go``, ``checkpoint.go``,
``state_checkpoint.go``) of 1.17.17, 1.20.15, 1.26.15, 1.32.13, 1.36.3 and 1.37.0."""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance import strategies
from reference import Checkpoint, CheckpointError, CPUSet, NotModelled, parse_leniently
from reference.cpumanager.state.checkpoint import Layout
from reference.cpumanager.state.state_checkpoint import exit_status, parse_pods_leniently, reported
from reference.cpumanager.state.state_mem import State
from reference.golang.spew import struct_checksum, text_checksum
from reference.releases import Release

POD_LEVEL = {"PodLevelResourceManagers": True}
RESIZE = {"InPlacePodVerticalScalingExclusiveCPUs": True}
UID = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"
EMPTY_V2 = '{"policyName":"static","defaultCpuSet":"0-3","checksum":611748604}'
EMPTY_V4 = (
    '{"policyName":"static","defaultCpuSet":"0-3","checksum":611748604,'
    '"data":"{\\"policyName\\":\\"static\\",\\"defaultCpuSet\\":\\"0-3\\"}",'
    '"dataChecksum":270902611}'
)


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def error_of(text: str, release: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.loads(text, release=release)
    return str(caught.value)


# -- what each release writes ------------------------------------------------------------------


def test_1_8_writes_no_file_and_restores_nothing() -> None:
    with pytest.raises(NotModelled, match=r"1\.8 writes no state file"):
        Checkpoint("static").dumps(release="1.8")
    assert Checkpoint.loads(EMPTY_V2, release="1.8") == Checkpoint("static")


@pytest.mark.parametrize("release", ["1.9", "1.10", "1.11"])
def test_until_1_11_a_file_has_no_checksum(release: str) -> None:
    one = Checkpoint("static", cpus("0,3"), {"": {"id2": cpus("2"), "id1": cpus("1")}})
    text = '{"policyName":"static","defaultCpuSet":"0,3","entries":{"id1":"1","id2":"2"}}'
    assert one.dumps(release=release) == text
    assert Checkpoint.loads(text, release=release) == one


V1, V2 = ["1.12", "1.17"], ["1.18", "1.32", "1.36", "1.37"]


@pytest.mark.parametrize(
    ("releases", "policy", "default", "entries", "checksum"),
    [
        # Beside those that real kubelets wrote (``test_model_checkpoint_golden``).
        # https://github.com/kubernetes/kubernetes/issues/86255, a real 1.16.0
        (V1, "static", "0-2,4-26,28-47",
         {"": {"ab9940917010576bd755870dab91e2cd2fc531a04ac362d44a62950aaa41c527": "3,27"}},
         1300288133),
        (V1, "none", "1-3", {"": {"containerID1": "4-6", "containerID2": "1-3"}}, 3680390589),
        (V1, "none", "", {}, 3242152201),
        (V2, "static", "0-151", {}, 2944298236),
        (V2, "other", "1-3", {}, 1394507217),
        (V2, "none", "1-3", {"pod": {"container1": "4-6", "container2": "1-3"}}, 3610638499),
        # https://github.com/kubernetes/kubernetes/issues/123816
        (V2, "static", "1,3,15-31,47-63",
         {"69aa6124-4e0e-4c66-94ea-feae7df25b68": {"init-container": "35"},
          "e49ac32c-22a3-4c8c-8be3-721bd1fd9eaa": {
              "centos": "0,2,4-14,32,34,36-46", "init-container": "33"}}, 3748757820),
    ],
)  # fmt: skip
def test_checksums_of_versions_1_and_2(
    releases: list[str],
    policy: str,
    default: str,
    entries: dict[str, dict[str, str]],
    checksum: int,
) -> None:
    held = {
        uid: {name: cpus(text) for name, text in named.items()} for uid, named in entries.items()
    }
    one = Checkpoint(policy, cpus(default), held)
    for release in releases:
        text = one.dumps(release=release)
        assert json.loads(text)["checksum"] == checksum, release
        assert Checkpoint.loads(text, policy=policy, release=release) == one


def test_version_3_is_written_by_1_36_with_its_gate() -> None:
    """As 1.36.4 wrote it: the CPUs of pods are hashed by number, and an empty set is left out."""
    one = Checkpoint("static", CPUSet(), {}, {"q": CPUSet(), "p": cpus("4-5,10")})
    assert one.dumps(release="1.36", feature_gates=POD_LEVEL) == (
        '{"policyName":"static","defaultCpuSet":"",'
        '"podEntries":{"p":{"cpuSet":"4-5,10"},"q":{}},"checksum":3668794603}'
    )
    for release, gates in (("1.36", {}), ("1.35", POD_LEVEL), ("1.36", RESIZE)):
        assert "podEntries" not in one.dumps(release=release, feature_gates=gates)


def test_entries_of_pods_cannot_be_written_by_container_id() -> None:
    with pytest.raises(NotModelled, match="by container id"):
        Checkpoint("static", entries={UID: {"a": cpus("1")}}).dumps(release="1.17")


def test_a_baseline_is_what_a_container_was_given_first() -> None:
    """``state_mem.go``, 1.37.0."""
    state = State.fresh("static", keeps_baselines=True)
    state.set("p", "c", cpus("1-3"))
    state.set("p", "c", cpus("1-4"))
    assert state.baselines == {"p": {"c": cpus("1-3")}}
    assert state.copy().baselines == state.baselines
    state.set_pod("p", cpus("1-4"))
    state.delete("p", "c")
    assert (state.entries, state.baselines, state.pod_entries) == ({}, {}, {"p": cpus("1-4")})
    state.delete_pod("p")
    assert (state.pod_entries, state.changes) == ({}, 6)
    plain = State.fresh("static")
    plain.set("p", "c", cpus("1"))
    assert plain.baselines == {}


# -- what each release reads -------------------------------------------------------------------


def with_data(data: str, *, legacy: str = EMPTY_V2) -> str:
    return f'{legacy[:-1]},"data":{json.dumps(data)},"dataChecksum":{text_checksum(data)}}}'


V4 = "could not load v4 checkpoint: "
INNER = f"{V4}failed to deserialize cpu manager checkpoint data: "
CANNOT = "json: cannot unmarshal"
DATA = "Go struct field CPUManagerCheckpointData"
V1_FIELD = "Go struct field CPUManagerCheckpointV1"
DIFFERS = 'configured policy "static" differs from state checkpoint policy'
NO_NUMBER = 'strconv.Atoi: parsing "{}": invalid syntax'
V1_ENTRIES = '{"policyName":"static","entries":{"c1":"1"}}'


@pytest.mark.parametrize(
    ("releases", "text", "error"),
    [
        (["1.10", "1.11"], "{", "unexpected end of JSON input"),
        (["1.10", "1.11"], "[]", f"{CANNOT} array into Go value of type state.stateFileData"),
        (["1.10", "1.11"], '{"policyName":5}',
         f"{CANNOT} number into Go struct field stateFileData.policyName of type string"),
        (["1.10", "1.11"], '{"policyName":"none"}',
         'policy configured "static" != policy from state file "none"'),
        (["1.10", "1.11"], '{"policyName":"static","defaultCpuSet":"x"}', NO_NUMBER.format("x")),
        (["1.10", "1.11"], '{"policyName":"static","entries":{"c1":"q"}}', NO_NUMBER.format("q")),
        (["1.12"], "", "unexpected end of JSON input"),
        (V1, EMPTY_V2, "checkpoint is corrupted"),
        (V1, f'{{"policyName":"static","entries":{{"{UID}":{{"c":"1"}}}},"checksum":1}}',
         f"{CANNOT} object into Go struct field CPUManagerCheckpoint.entries of type string"),
        (V1, '{"policyName":"static","entries":{"c1":"q"}}',
         f'could not parse cpuset "q" for container id "c1": {NO_NUMBER.format("q")}'),
        (V1, '{"policyName":"static","defaultCpuSet":"q"}',
         f'could not parse default cpu set "q": {NO_NUMBER.format("q")}'),
        (V1, '{"policyName":"none"}', f'{DIFFERS} "none"'),
        # Later the fault is that of the layout tried last.
        (["1.18", "1.26", "1.35"], "[]",
         f"{CANNOT} array into Go value of type state.CPUManagerCheckpoint"),
        (["1.36"], "[]", f"{CANNOT} array into Go value of type state.CPUManagerCheckpointV1"),
        (["1.37"], "[]", f"{CANNOT} array into Go value of type state.CPUManagerCheckpointV2"),
        (["1.18", "1.26", "1.35"], V1_ENTRIES,
         "error migrating v1 checkpoint state to v2 checkpoint state: containerID 'c1' not found "
         "in initial containers list"),
        (["1.36"], V1_ENTRIES,
         "failed to migrate checkpoint from v1 to v2: containerID 'c1' not found in initial "
         "containers list"),
        # Beside what a real 1.36 was seen to say (``test_model_checkpoint_golden``).
        (["1.36"], "", "unexpected end of JSON input"),
        (["1.36"], "{}", f'{DIFFERS} ""'),
        (["1.36"], "5", f"{CANNOT} number into Go value of type state.CPUManagerCheckpointV1"),
        (["1.36"], EMPTY_V2.replace("611748604", '"1"'),
         f"{CANNOT} string into {V1_FIELD}.checksum of type checksum.Checksum"),
        (["1.36"], '{"policyName":5}',
         f"{CANNOT} number into {V1_FIELD}.policyName of type string"),
        (["1.37"], V1_ENTRIES,
         f"{CANNOT} string into Go struct field CPUManagerCheckpointV2.entries of type "
         "map[string]string"),
        # Until 1.21 a range that runs backwards is read as nothing, see below.
        (["1.22"], '{"policyName":"static","defaultCpuSet":"3-0,5"}',
         'could not parse default cpu set "3-0,5": invalid range "3-0" (3 >= 0)'),
        # Beside what a real 1.37 was seen to say (``test_model_checkpoint_golden``).
        (["1.37"], EMPTY_V4.replace("270902611", "1"), f"{V4}checkpoint is corrupted"),
        (["1.37"], f'{EMPTY_V2[:-1]},"dataChecksum":5}}', f"{INNER}unexpected end of JSON input"),
        (["1.37"], with_data("hello"),
         f"{INNER}invalid character 'h' looking for beginning of value"),
        (["1.37"], with_data("[]"),
         f"{INNER}{CANNOT} array into Go value of type state.CPUManagerCheckpointData"),
        (["1.37"], with_data('{"policyName":"none"}'), f'{DIFFERS} "none"'),
        (["1.37"], with_data('{"policyName":5,"podEntries":{"u":{"cpuSet":5}}}'),
         f"{INNER}{CANNOT} number into {DATA}.podEntries.cpuSet of type string"),
        (["1.37"], with_data('{"podEntries":{"u":[]}}'),
         f"{INNER}{CANNOT} array into {DATA}.podEntries of type state.podEntryJSON"),
        (["1.37"], with_data('{"podEntries":[]}'),
         f"{INNER}{CANNOT} array into {DATA}.podEntries of type state.PodCPUAssignments"),
        (["1.37"], with_data('{"baselines":{"u":{"c":{"baseline":5}}}}'),
         f"{INNER}{CANNOT} number into Go struct field ContainerCPUs.baselines.baseline of type "
         "string"),
        (["1.37"], with_data('{"baselines":{"u":{"c":5}}}'),
         f"{INNER}{CANNOT} number into {DATA}.baselines of type state.ContainerCPUs"),
        (["1.37"], '{"data":5}', f'{DIFFERS} ""'),
    ],
)  # fmt: skip
def test_what_a_release_says_of_a_bad_file(releases: list[str], text: str, error: str) -> None:
    """1.10 and 1.11 panic with it."""
    for release in releases:
        assert error_of(text, release) == error, release


@pytest.mark.parametrize("release", ["1.18", "1.21"])
def test_until_1_21_a_range_that_runs_backwards_is_read_as_nothing(release: str) -> None:
    text = '{"policyName":"static","defaultCpuSet":"3-0,5"}'
    assert Checkpoint.loads(text, release=release).default_cpuset == cpus("5")


def test_two_containers_of_one_name_with_other_cpus_are_not_modelled() -> None:
    text = '{"policyName":"static","entries":{"old":"1","new":"2"}}'
    both = {"old": ("p", "c"), "new": ("p", "c")}
    with pytest.raises(NotModelled):
        Checkpoint.loads(text, release="1.20", containers=both)


def test_version_3_without_checksum_keeps_its_pods_in_1_36_alone() -> None:
    """In 1.36.3 what the first attempt decoded stays; 1.37.0 starts anew."""
    text = (
        f'{{"policyName":"static","defaultCpuSet":"0,3-7","entries":{{"{UID}":{{"a":"1"}}}},'
        f'"podEntries":{{"{UID}":{{"cpuSet":"1-2"}}}},"checksum":0}}'
    )
    kept = Checkpoint.loads(text, release="1.36", feature_gates=POD_LEVEL)
    assert kept.pod_entries == {UID: cpus("1-2")}
    assert Checkpoint.loads(text, release="1.37", feature_gates=POD_LEVEL).pod_entries == {}
    for release in ("1.32", "1.36", "1.37"):
        read = Checkpoint.loads(text, release=release)
        assert read == Checkpoint("static", cpus("0,3-7"), {UID: {"a": cpus("1")}})


def test_a_pod_without_a_set_has_the_empty_one() -> None:
    for inner in ('{"p":null}', '{"p":{}}', '{"p":{"cpuSet":null}}', '{"p":{"CPUSET":""}}'):
        text = f'{{"policyName":"static","podEntries":{inner}}}'
        read = Checkpoint.loads(text, release="1.36", feature_gates=POD_LEVEL)
        assert read.pod_entries == {"p": CPUSet()}


def named(name: str, layout: Layout) -> str:
    """A file with a checksum that has this name in it."""
    fields = {
        "PolicyName": ("string", "static"),
        "DefaultCPUSet": ("string", "0"),
        "Entries": ("map[string]map[string]string", "map[]"),
    }
    if layout is Layout.V3:
        fields["PodEntries"] = ("state.PodCPUAssignments", "map[]")
    checksum = struct_checksum(name, fields | {"Checksum": ("checksum.Checksum", "0")})
    return f'{{"policyName":"static","defaultCpuSet":"0","checksum":{checksum}}}'


def test_a_checksum_under_the_new_names() -> None:
    """``VerifyChecksum``, 1.36.3 and 1.37.0."""
    two = named("state.CPUManagerCheckpointV2", Layout.V2)
    three = named("state.CPUManagerCheckpointV3", Layout.V3)
    for release in ("1.36", "1.37"):
        assert Checkpoint.loads(two, release=release).default_cpuset == cpus("0")
        with pytest.raises(CheckpointError):
            Checkpoint.loads(two, release=release, feature_gates=POD_LEVEL)
    for gates in ({}, POD_LEVEL):
        read = Checkpoint.loads(three, release="1.37", feature_gates=gates)
        assert read.default_cpuset == cpus("0")
        with pytest.raises(CheckpointError):
            Checkpoint.loads(three, release="1.36", feature_gates=gates)
    with pytest.raises(CheckpointError):
        Checkpoint.loads(two, release="1.35")


# -- version 4 ---------------------------------------------------------------------------------


def test_data_wins_over_the_rest_in_1_37() -> None:
    data = '{"policyName":"static","defaultCpuSet":"0,5-27","entries":{"p":{"c":"1-4"}}}'
    for legacy in (EMPTY_V2, EMPTY_V2.replace("0-3", "0-x"), '{"extra":{"a":1}}'):
        read = Checkpoint.loads(with_data(data, legacy=legacy), release="1.37")
        assert read == Checkpoint("static", cpus("0,5-27"), {"p": {"c": cpus("1-4")}})
    read = Checkpoint.loads(with_data(data), release="1.36")
    assert read == Checkpoint("static", cpus("0-3"))


# -- giving up ---------------------------------------------------------------------------------


def test_how_a_fault_is_reported() -> None:
    fault = "could not restore state from checkpoint: X"
    advice = (
        'drain this node and delete the CPU manager checkpoint file "/d/f" before restarting '
        "Kubelet"
    )
    for release in ("1.18", "1.37"):
        assert reported("X", release, "/d/f") == f"{fault}, please {advice}"
    for release in ("1.12", "1.17"):
        assert reported("X", release, "/d/f") == f"{fault}\nPlease {advice}."
    panic = reported("X", "1.10", "/d/f")
    assert "unable to restore state from disk (X)" in panic
    assert "cannot guarantee sane CPU affinity for existing containers" in panic


def test_with_which_status_it_ends() -> None:
    seen = [exit_status(f"1.{minor}") for minor in (10, 11, 12, 17, 20, 21, 22, 37)]
    assert seen == [2, 2, 255, 255, 255, 1, 1, 1]


# -- looking without judging -------------------------------------------------------------------


def test_lenient_parsing_goes_by_data_where_the_kubelet_does() -> None:
    text = with_data(
        '{"policyName":"static","defaultCpuSet":"5","entries":{"p":{"c":"6"}},'
        '"podEntries":{"p":{"cpuSet":"6-7"},"q":{}}}'
    )
    shown = (cpus("5"), {"p": {"c": cpus("6")}})
    assert parse_leniently(text) == parse_leniently(text, release="1.37") == shown
    assert parse_leniently(text, release="1.36") == (cpus("0-3"), {})
    assert parse_pods_leniently(text) == {"p": cpus("6-7"), "q": CPUSet()}
    assert parse_pods_leniently(text, release="1.36") == parse_pods_leniently(None) == {}


# -- laws ------------------------------------------------------------------------------------------


gates = st.fixed_dictionaries(dict.fromkeys(POD_LEVEL | RESIZE, st.booleans()))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, bool], Checkpoint]:
    release, on = draw(strategies.releases(9)), draw(gates)
    return release, on, draw(strategies.checkpoints(release=release, feature_gates=on))


@settings(max_examples=150)  # most of them from 1.12, and from 1.18 on
@given(written(), st.data())
def test_what_a_release_writes_it_reads_back_unless_it_was_changed(
    drawn: tuple[str, dict[str, bool], Checkpoint], data: st.DataObject
) -> None:
    """From 1.12 on any change changes the checksum; a file of 1.37 serves every release from 1.18
    on."""
    release, on, one = drawn
    text = one.dumps(release=release, feature_gates=on)
    loads = partial(Checkpoint.loads, policy=one.policy_name, release=release)
    read = loads(text, feature_gates=on)
    assert read == one
    assert read.dumps(release=release, feature_gates=on) == text
    for viewer in (None, release):
        assert parse_leniently(text, release=viewer) == (one.default_cpuset, one.entries)
    assert parse_pods_leniently(text, release=release) == one.pod_entries
    minor = Release.parse(release).minor
    if minor >= 12:
        with pytest.raises(CheckpointError):
            loads(changed(text, data), feature_gates=on)
    if minor >= 18:
        read = loads(one.dumps(release="1.37", feature_gates=on))
        assert (read.default_cpuset, read.entries) == (one.default_cpuset, one.entries)
        assert read.pod_entries == read.baselines == {}


def changed(text: str, data: st.DataObject) -> str:
    """The file with another set of CPUs, or with other data if the release reads those."""
    file: dict[str, Any] = json.loads(text)
    if "data" not in file:
        shared = f"{file['defaultCpuSet']},99".lstrip(",")
        return json.dumps(file | {"defaultCpuSet": shared})
    at = data.draw(st.integers(0, len(file["data"]) - 1))
    other = file["data"][:at] + "\x7f" + file["data"][at + 1 :]
    assert text_checksum(other) != file["dataChecksum"]
    return json.dumps(file | {"data": other})


CPUS = CPUSet.parse("1-3")
BY_ID = Checkpoint("static", CPUSet([0]), {"": {"id": CPUS}})
BY_POD = Checkpoint("static", CPUSet([0]), {"p": {"c": CPUS}}, {"p": CPUS}, {"p": {"c": CPUS}})
NONE = Checkpoint("static", CPUSet([0]))
KNOWN = {"id": ("p", "c")}


def reads(writer: int, reader: int, *, entries: bool, on: bool, reader_on: bool) -> bool:
    """Whether 1.``reader`` takes a file of 1.``writer``; ``on``: the gate PodLevelResourceManagers
    where the file was written, and where it is read."""
    third = writer == 36 and on
    if writer <= 11:
        # Without entries such a file is right in every layout.
        return reader <= 36 or not entries
    if writer <= 17:
        return reader <= 36
    if reader <= 11:
        # Up to 1.11 nobody looks at a checksum, so the file passes without entries.
        return reader == 9 or not entries
    if reader <= 17:
        return False
    if third:
        return reader == 37 or (reader == 36 and reader_on)
    return True


MINORS = [9, 10, 11, 12, 17, 18, 21, 22, 26, 32, 35, 36, 37]


@pytest.mark.parametrize("writer", MINORS)
@pytest.mark.parametrize("reader", MINORS)
def test_which_release_reads_whose_file(writer: int, reader: int) -> None:
    release = f"1.{reader}"
    for entries, on, reader_on in product((False, True), repeat=3):
        one = (BY_ID if writer <= 17 else BY_POD) if entries else NONE
        text = one.dumps(release=f"1.{writer}", feature_gates=dict.fromkeys(POD_LEVEL, on))
        gates = dict.fromkeys(POD_LEVEL, reader_on)
        taken = True
        try:
            read = Checkpoint.loads(text, release=release, feature_gates=gates, containers=KNOWN)
        except CheckpointError:
            taken = False
        case = (writer, reader, entries, on, reader_on)
        assert taken == reads(writer, reader, entries=entries, on=on, reader_on=reader_on), case
        if not taken:
            continue
        forgotten = reader == 9 and entries and writer >= 18
        held = {"": {"id": CPUS}} if reader <= 17 else {"p": {"c": CPUS}}
        assert read.entries == (held if entries and not forgotten else {}), case
        assert read.default_cpuset == (CPUSet() if forgotten else CPUSet([0])), case
