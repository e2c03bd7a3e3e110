"""Lists of known failures: read, judged by, written."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import known
from conformance.known import KnownFailures, KnownFailuresError, Standing
from conformance.results import KnownFailure, MachineRecord, Result
from conformance.verdict import ExitStatus
from tests.conformance.test_results import result_of

IDS: Final = ("qos/whole", "packing/whole-core")
TODAY: Final = date(2026, 3, 1)


def _read(tmp_path: Path, text: str) -> list[KnownFailure]:
    path = tmp_path / "known.toml"
    path.write_text(text)
    return known.read(path, IDS)


def _result(verdict: str, scenario: str = "qos/whole") -> Result:
    machine = MachineRecord(name="2s-4n-64c-smt2", shape="", digest="", cpus={})
    return result_of(verdict=verdict, scenario=scenario, machine=machine)


def test_an_entry_is_read_with_its_defaults(tmp_path: Path) -> None:
    text = '[[known]]\nscenario = "qos/whole"\nreason = "odd CPUs"\nexpires = 2027-01-31\n'
    (one,) = _read(tmp_path, text)
    assert one == KnownFailure(
        scenario="qos/whole", machine="*", reason="odd CPUs", link="", expires="2027-01-31"
    )


_ENTRY: Final = '[[known]]\nscenario = "qos/whole"\nreason = "r"\nexpires = 2027-01-31\n'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense", "not TOML"),
        ("[" * 5000, "not TOML"),
        ("known = 7", "only tables"),
        ("known = [7]", "entry 1: not a table"),
        ("other = 7", "only tables"),
        (_ENTRY.replace("whole", "hole"), "unknown scenario 'qos/hole'; did you mean qos/whole?"),
        (_ENTRY + "why = 1", "entry 1: unknown field 'why'"),
        (_ENTRY + _ENTRY.replace("2027-01-31", '"soon"'), "entry 2: expires is a date like 2027"),
        (_ENTRY.replace("2027-01-31", "2027-01-31T10:00:00"), "expires is a date like 2027"),
        (_ENTRY.replace('reason = "r"\n', ""), "entry 1: reason is missing"),
        (_ENTRY.replace("expires = 2027-01-31\n", ""), "entry 1: expires is missing"),
        (_ENTRY.replace('"r"', '""'), "entry 1: reason is a text"),
        (_ENTRY + "machine = 7", "entry 1: machine is a text"),
    ],
)
def test_a_list_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(KnownFailuresError, match=error) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def _entry(**changes: str) -> KnownFailure:
    facts = {"scenario": "qos/whole", "reason": "r", "expires": "2026-03-01"}
    return KnownFailure(**(facts | changes))


@pytest.mark.parametrize(
    ("verdict", "changes", "standing"),
    [
        ("fail", {}, Standing.KNOWN),
        ("fail", {"machine": "2s-*"}, Standing.KNOWN),
        ("fail", {"machine": "4s-*"}, Standing.FAIL),
        ("fail", {"machine": "2S-*"}, Standing.FAIL),
        ("fail", {"scenario": "packing/whole-core"}, Standing.FAIL),
        ("fail", {"expires": "2026-02-28"}, Standing.FAIL),
        ("fail", {"expires": "never"}, Standing.FAIL),
        ("pass", {}, Standing.FIXED),
        ("pass", {"expires": "2026-02-28"}, Standing.FIXED),
        ("pass", {"machine": "4s-*"}, Standing.PASS),
        ("skip", {}, Standing.SKIP),
        ("unknown", {}, Standing.UNKNOWN),
        ("splendid", {}, Standing.UNKNOWN),
    ],
)
def test_what_a_result_means_to_those_who_know(
    verdict: str, changes: dict[str, str], standing: Standing
) -> None:
    assert KnownFailures([_entry(**changes)], TODAY).standing(_result(verdict)) is standing


@pytest.mark.parametrize(
    ("verdicts", "expires", "status"),
    [
        ("fail pass", "2026-03-01", ExitStatus.CONFORMANT),
        ("fail", "2026-03-01", ExitStatus.TOO_FEW),
        ("fail pass", "2026-02-28", ExitStatus.NOT_CONFORMANT),
        ("skip pass", "2026-02-28", ExitStatus.NOT_CONFORMANT),
        ("pass pass", "2026-03-01", ExitStatus.NOT_CONFORMANT),
        ("fail unknown", "2026-03-01", ExitStatus.COULD_NOT_TELL),
    ],
)
def test_the_list_is_strict(verdicts: str, expires: str, status: ExitStatus) -> None:
    """What passes, or is past its date, fails the run; the second scenario is not listed."""
    first, *others = verdicts.split()
    results = [_result(first), *(_result(one, "packing/whole-core") for one in others)]
    listed = KnownFailures([_entry(expires=expires)], TODAY)
    met = known.tally(map(listed.standing, results))
    assert listed.status(met) is status


@given(reason=st.text(min_size=1), machine=st.text(min_size=1), link=st.text())
def test_any_text_that_is_written_is_read_again(reason: str, machine: str, link: str) -> None:
    entry = _entry(reason=reason, machine=machine, link=link)
    (table,) = tomllib.loads(known.write([entry]))["known"]
    expires = table.pop("expires")
    assert KnownFailure(expires=expires.isoformat(), **table) == entry


def test_a_list_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    with path.open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(KnownFailuresError, match="longer than 33554432 bytes"):
        known.loaded(path)
