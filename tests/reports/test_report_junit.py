"""JUnit as others read it: by a schema, by a real reader, and as a CI system counts it."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import junitparser
import pytest
import xmlschema

from conformance.verdict import ExitStatus
from reports import junit
from reports.run import Run
from tests.reports.conftest import fakes, footer, headed

Read = Callable[[Run], Any]


@pytest.fixture(scope="module")
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(Path(__file__).with_name("junit-dialect.xsd")))


@pytest.fixture
def read(schema: xmlschema.XMLSchema, tmp_path: Path) -> Read:
    """Write a run, hold the file to the schema, and read it with junitparser."""

    def written(run: Run) -> Any:
        path = tmp_path / "junit.xml"
        path.write_text(junit.document(run))
        schema.validate(str(path))
        return junitparser.JUnitXml.fromfile(str(path))

    return written


def only_case(parsed: Any) -> Any:
    [suite] = parsed
    [case] = suite
    return case


def test_counts_are_what_a_ci_system_shows(read: Read) -> None:
    parsed = read(fakes.one_of_each())
    assert (parsed.tests, parsed.failures, parsed.errors) == (5, 1, 1)
    by_suite = {suite.name: (suite.tests, suite.failures, suite.errors, suite.skipped)
                for suite in parsed}  # fmt: skip
    assert by_suite == {
        "conformance.pinning": (2, 1, 0, 0),
        "conformance.restart": (2, 0, 1, 1),
        "conformance.state": (1, 0, 0, 0),
    }


def test_a_broken_promise_is_a_failure_with_message_and_story(read: Read) -> None:
    case = only_case(read(fakes.run(fakes.result("fail"))))
    assert case.name == "pinning.whole-cores [2s-2n-8c-smt2]"
    assert case.classname == "conformance.pinning"
    assert case.time == 1.25
    [failure] = case.result
    assert isinstance(failure, junitparser.Failure)
    assert failure.message == (
        "promised: a container with exclusive CPUs gets whole physical cores; "
        "but: exclusive CPUs of web/app: 1-2, not 1,9"
    )
    assert "the promise is broken\n" in failure.text
    assert failure.text.count("pinproof run --subject") == 1
    assert case.system_err == "I0101 static policy: Allocate exclusive CPUs"


def test_what_could_not_be_told_is_an_error_with_its_reason(read: Read) -> None:
    [error] = only_case(read(fakes.run(fakes.result("unknown")))).result
    assert isinstance(error, junitparser.Error)
    assert error.message == "the kubelet did not answer within 60 s"
    assert "start the kubelet\n" in error.text
    assert "Replay: pinproof run" in error.text


def test_a_skip_says_what_is_missing(read: Read) -> None:
    run = fakes.run(fakes.result(), fakes.result("skip", scenario="s"))
    [suite] = read(run)
    [skipped] = next(case for case in suite if case.name.startswith("s ")).result
    assert isinstance(skipped, junitparser.Skipped)
    assert skipped.message == "needs release 1.22 or later"


def test_what_the_kubelet_said_stands_in_system_out_of_a_pass_too(read: Read) -> None:
    case = only_case(read(fakes.run(fakes.result(kubelet_errors=["start failed", "again"]))))
    assert case.is_passed
    assert case.system_out == "start failed\nagain"


def test_a_verdict_without_any_words_is_still_no_pass(read: Read) -> None:
    """junit-xml leaves out a failure whose message and text are empty."""
    for verdict in ("unknown", "skip", "fail"):
        bare = fakes.result(verdict, reason="", explanation="", failure=None, title="")
        parsed = read(fakes.run(bare, fakes.result(scenario="x")))
        assert [case.is_passed for case in next(iter(parsed))].count(True) == 1


def test_suites_carry_what_was_run_where(read: Read) -> None:
    [suite] = read(fakes.run(fakes.result()))
    assert {prop.name: prop.value for prop in suite.properties()} == {
        "subject": "kubelet:1.36",
        "release": "1.36",
        "version": "v1.36.3",
        "digest": "sha256:" + "0f" * 32,
        "pinproof": "0.1.0",
        "exit_status": "0 conformant",
        "subject.go": "go1.26.1",
        "environment.kernel": "6.12.0",
    }
    assert suite.timestamp == "2026-03-01T10:00:00+00:00"
    [suite] = read(headed(fakes.run(fakes.result()), started="noon"))
    assert suite.timestamp is None, "a time that is none is left out"


def test_cases_have_properties_where_an_importer_asks_for_them(read: Read) -> None:
    """Jenkins' schema has none, so the usual form has none. The rest of both forms is the same."""
    run = fakes.one_of_each()
    plain, more = junit.document(run), junit.with_properties(run)
    suites = ET.fromstring(more.encode())
    cases = list(suites.iter("testcase"))
    found = [{one.get("name"): one.get("value") for one in case.iter("property")} for case in cases]
    ids = sorted(one.scenario for one in run.results)
    assert sorted(str(one["polarion-testcase-id"]) for one in found) == ids
    assert sorted(str(one["id"]) for one in found) == ids
    assert {one["area"] for one in found} == {one.area for one in run.results}
    assert {one["level"] for one in found} == {one.level for one in run.results}
    for case in cases:
        case.remove(case[0])
    rest = ET.canonicalize(ET.tostring(suites, encoding="unicode"), strip_text=True)
    assert rest == ET.canonicalize(plain, strip_text=True)


def test_reportportal_reads_attributes_of_a_case_alone() -> None:
    """Its importer (``XunitImportHandler.handleProperty``) passes over every property that is not
    named ``attribute``, cuts the value at each colon, and keeps the first two parts."""
    run = fakes.one_of_each()
    suites = ET.fromstring(junit.with_properties(run).encode())
    found = [
        dict(
            str(one.get("value")).split(":")[:2]
            for one in case.iterfind("properties/property[@name='attribute']")
        )
        for case in suites.iter("testcase")
    ]
    told = [
        {"id": one.scenario, "area": one.area, "level": one.level, "machine": one.machine.name}
        for one in run.results
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, told))


def test_hostile_text_is_text(read: Read) -> None:
    parsed = read(fakes.hostile())
    [suite] = parsed
    assert parsed.tests == 5
    failed = next(case for case in suite if isinstance(case.result[0], junitparser.Failure))
    assert "<script>" in failed.name
    assert "]]>" in failed.result[0].text
    assert "[31m" not in junit.document(fakes.hostile())


def test_names_are_unique_and_the_same_in_every_run(read: Read) -> None:
    twice = [fakes.result(), fakes.result(), fakes.result("fail")]
    names = [case.name for case in next(iter(read(fakes.run(*twice))))]
    assert names == [
        "pinning.whole-cores [2s-2n-8c-smt2]",
        "pinning.whole-cores [2s-2n-8c-smt2] (2)",
        "pinning.whole-cores [2s-2n-8c-smt2] (3)",
    ]
    run = fakes.large(6, 4)
    shuffled = dataclasses.replace(run, results=run.results[::-1])
    assert junit.document(run).count("<testcase") == 24
    assert sorted(junit.document(run).split("\n")) == sorted(junit.document(shuffled).split("\n"))


def test_long_texts_are_cut_and_say_so(read: Read) -> None:
    long = fakes.result("unknown", reason="r" * 10_000, explanation="e" * 1_000_000,
                        evidence="v" * 1_000_000)  # fmt: skip
    case = only_case(read(fakes.run(long)))
    assert "9500 more characters: see result.jsonl" in case.result[0].message
    assert len(case.result[0].text) < 33_000
    assert len(case.system_err) < 17_000


@pytest.mark.parametrize("status", [s for s in ExitStatus if s is not ExitStatus.CONFORMANT])
def test_a_run_that_is_not_conformant_never_reads_as_green(status: ExitStatus, read: Read) -> None:
    run = fakes.run(fakes.result(), footer=footer({"pass": 1}, status))
    parsed = read(run)
    assert (parsed.tests, parsed.failures + parsed.errors) == (2, 1)
    [case] = list(parsed)[-1]
    assert (case.name, case.classname) == ("the run is whole and can be judged", "conformance.run")
    assert case.result[0].message == run.verdict


def test_an_empty_or_cut_off_run_is_an_error(read: Read) -> None:
    assert read(fakes.run()).errors == 1
    cut = read(fakes.run(fakes.result("fail"), footer=None, cut_off="x:3: cut off"))
    assert (cut.failures, cut.errors) == (1, 1)


@pytest.mark.parametrize("seconds", [0.0, 1e-7, 123456.789, float("inf"), -1.0])
def test_any_duration_is_plain_digits(seconds: float, read: Read) -> None:
    assert only_case(read(fakes.run(fakes.result(seconds=seconds)))).time >= 0


@pytest.mark.parametrize(
    "break_it",
    [
        lambda root: root[0][1].set("disabled", "0"),
        lambda root: root[0][1].set("time", "1e-05"),
        lambda root: root[0].append(root[0][1]),
        lambda root: root[0][1].append(ET.Element("error", message="m", type="t")),
    ],
)
def test_the_schema_refuses_what_readers_would(
    break_it: Callable[[ET.Element], object], schema: xmlschema.XMLSchema
) -> None:
    root = ET.fromstring(junit.document(fakes.run(fakes.result("fail"))).encode())
    schema.validate(root)
    break_it(root)
    assert not schema.is_valid(root)


def test_a_suite_is_an_area_with_the_file_of_its_scenarios(read: Read) -> None:
    """Two suites where two files have them: a reader takes a suite's file for all its cases."""
    one, two = "conformance/scenarios/qos.py", "conformance/scenarios/more.py"
    results = [
        fakes.result(scenario="a", area="qos", file=one),
        fakes.result(scenario="b", area="qos", file=two),
        fakes.result(scenario="c", area="pool", file=two, machine=fakes.machine("m")),
        fakes.result(scenario="d", area="pool", file=two),
    ]
    found = {suite.name: ([case.name for case in suite], suite._elem.get("file"))
             for suite in read(fakes.run(*results))}  # fmt: skip
    assert found == {
        "conformance.pool": (["c [m]", "d [2s-2n-8c-smt2]"], two),
        f"conformance.qos ({two})": (["b [2s-2n-8c-smt2]"], two),
        f"conformance.qos ({one})": (["a [2s-2n-8c-smt2]"], one),
    }


def test_a_known_failure_is_skipped_and_one_that_passes_fails(read: Read) -> None:
    """With the reason; the story stays."""
    bad, good = fakes.run(fakes.result("fail"), fakes.result(scenario="x")), fakes.result()
    case = next(one for one in next(iter(read(fakes.known(bad, fakes.entry())))) if one.result)
    [skipped] = case.result
    assert isinstance(skipped, junitparser.Skipped)
    assert skipped.message.startswith("known until 2026-06-30 (our allocator takes odd CPUs first")
    assert "pinproof run --subject" in skipped.text
    [failure] = only_case(read(fakes.known(fakes.run(good), fakes.entry()))).result
    assert isinstance(failure, junitparser.Failure)
    assert failure.type == "known failure that passes"


def test_an_entry_past_its_date_is_no_green_run(read: Read) -> None:
    run = fakes.known(fakes.run(fakes.result()), fakes.entry(scenario="y", expires="2026-02-28"))
    parsed = read(run)
    assert (parsed.failures, parsed.errors) == (0, 1)
    assert "past the date in the list of known failures (y)" in run.verdict


def test_what_is_not_green_names_the_page() -> None:
    run = fakes.run(fakes.result("fail"), fakes.result(scenario="x"))
    text = junit.document(run, attached=Path("/out/report.html"))
    assert text.count("[[ATTACHMENT|/out/report.html]]") == 1
