"""Laws of state files: what is written is read back, and which release reads whose file."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from reference import Checkpoint, CheckpointError, CPUSet, parse_leniently
from reference.cpumanager.state.state_checkpoint import parse_pods_leniently
from reference.golang.spew import text_checksum

RESIZE = "InPlacePodVerticalScalingExclusiveCPUs"
POD_LEVEL = "PodLevelResourceManagers"

gates = st.fixed_dictionaries({POD_LEVEL: st.booleans(), RESIZE: st.booleans()})


@st.composite
def written(draw: st.DrawFn, first: int = 9) -> tuple[str, dict[str, bool], Checkpoint]:
    release, on = draw(strategies.releases(first)), draw(gates)
    return release, on, draw(strategies.checkpoints(release=release, feature_gates=on))


@given(written())
def test_what_a_release_writes_it_reads_back(
    drawn: tuple[str, dict[str, bool], Checkpoint],
) -> None:
    release, on, one = drawn
    text = one.dumps(release=release, feature_gates=on)
    read = Checkpoint.loads(text, policy=one.policy_name, release=release, feature_gates=on)
    assert read == one
    assert read.dumps(release=release, feature_gates=on) == text
    assert parse_leniently(text, release=release) == (one.default_cpuset, one.entries)
    assert parse_pods_leniently(text, release=release) == one.pod_entries


@given(written(12), st.data())
def test_any_change_changes_the_checksum(
    drawn: tuple[str, dict[str, bool], Checkpoint], data: st.DataObject
) -> None:
    release, on, one = drawn
    text = one.dumps(release=release, feature_gates=on)
    file: dict[str, Any] = json.loads(text)
    other = file | {"defaultCpuSet": f"{file['defaultCpuSet']},99".lstrip(",")}
    if "data" in file:
        at = data.draw(st.integers(0, len(file["data"]) - 1))
        other = file | {"data": file["data"][:at] + "\x7f" + file["data"][at + 1 :]}
        assert text_checksum(other["data"]) != file["dataChecksum"]
    with pytest.raises(CheckpointError):
        Checkpoint.loads(
            json.dumps(other), policy=one.policy_name, release=release, feature_gates=on
        )


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
    for entries, on, reader_on in product((False, True), repeat=3):
        one = (BY_ID if writer <= 17 else BY_POD) if entries else NONE
        text = one.dumps(release=f"1.{writer}", feature_gates={POD_LEVEL: on})
        taken = True
        try:
            read = Checkpoint.loads(
                text,
                release=f"1.{reader}",
                feature_gates={POD_LEVEL: reader_on},
                containers=KNOWN,
            )
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


@given(written(18))
def test_a_file_of_1_37_serves_every_release_from_1_18_on(
    drawn: tuple[str, dict[str, bool], Checkpoint],
) -> None:
    release, on, one = drawn
    text = one.dumps(release="1.37", feature_gates=on)
    read = Checkpoint.loads(text, policy=one.policy_name, release=release)
    assert (read.default_cpuset, read.entries) == (one.default_cpuset, one.entries)
    assert read.pod_entries == read.baselines == {}
