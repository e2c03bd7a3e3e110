"""Every form of a run: well-formed whatever the stream holds, and saying what matters."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from conformance.known import Standing
from reports import comparison, terminal
from reports.comparison import Comparison
from reports.formats import FORMATS, formatted
from reports.run import Run
from reports.text import markdown
from tests.reports.conftest import fakes
from tests.support import lacking

_SCHEMA = Path(__file__).with_name("sarif-schema-2.1.0.json")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def listed() -> Run:
    """One of each verdict; the failure is known, and so is one that passes."""
    other = fakes.entry(scenario="state.refused")
    return fakes.known(fakes.one_of_each(), fakes.entry(machine="2s-*"), other)


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_commands_nothing(name: str) -> None:
    text = formatted(fakes.hostile(), name)
    shown = text if name != "json" else text.encode().decode("ascii")
    assert not CONTROL.search(shown.replace("\n", "").replace("\t", ""))
    assert_well_formed(name, text)


def assert_well_formed(name: str, text: str) -> None:
    """As its readers parse it."""
    text.encode("utf-8")
    if name in ("junit", "junit-properties", "badge"):
        ET.fromstring(text.encode())
    elif name in ("gitlab", "sarif"):
        json.loads(text)
    elif name == "json":
        assert all(json.loads(one)["kind"] == "result" for one in text.splitlines())
    elif name == "github":
        assert all(re.match("::(error|warning|notice) ", one) for one in text.splitlines())
    elif name == "prometheus":
        sample = re.compile(r'pinproof_\w+\{(\w+="(\\.|[^"\\])*",?)*\} [-+.e\d]+')
        assert all(one[0] == "#" or sample.fullmatch(one) for one in text.split("\n")[:-1])
    elif name == "markdown":
        outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        tags = set(re.findall(r"<[^>]*>", outside))
        assert tags <= {"<details>", "</details>", "<summary>", "</summary>"}


def _arbitrary(record: Any, text: st.SearchStrategy[str], draw: Any) -> Any:
    """The record with every text in it replaced."""
    values = msgspec.structs.asdict(record).items()
    return type(record)(**{name: _other(value, text, draw) for name, value in values})


def _other(value: Any, text: st.SearchStrategy[str], draw: Any) -> Any:
    if isinstance(value, str):
        return draw(text)
    if isinstance(value, list):
        return [_other(one, text, draw) for one in value]
    if isinstance(value, dict) and value and isinstance(next(iter(value)), str):
        return {draw(text): draw(text) for _ in value}
    return _arbitrary(value, text, draw) if isinstance(value, msgspec.Struct) else value


_ANY = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ["]]>", "\x1b[31m", "::error::", "```", "\ud800", "\u202e", '"', "</svg>", "%0A", "|", "@all"]
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_text_anywhere_leaves_every_form_well_formed(data: st.DataObject) -> None:
    """The verdicts stay, so that every part of a report is made."""
    run = listed()
    results = tuple(
        msgspec.structs.replace(_arbitrary(one, _ANY, data.draw), verdict=one.verdict)
        for one in run.results
    )
    header = msgspec.structs.replace(_arbitrary(run.header, _ANY, data.draw), schema=2)
    broken = dataclasses.replace(run, header=header, results=results)
    for name in FORMATS:
        assert_well_formed(name, formatted(broken, name))
    assert_well_compared(Comparison(run, broken))
    assert_well_compared(Comparison(broken, run))
    assert_harmless(_printed(broken))


def assert_well_compared(both: Comparison) -> None:
    """In each form, and the text folded where it is no command."""
    assert_harmless(comparison.text(both))
    assert_well_formed("markdown", comparison.as_markdown(both))
    assert_harmless(comparison.as_markdown(both))
    assert json.loads(comparison.as_json(both))["exit_status"] == both.status.value


def assert_harmless(text: str) -> None:
    """Nothing in it commands a terminal or reorders what is read."""
    assert not CONTROL.search(text.replace("\n", "").replace("\t", ""))
    text.encode("utf-8")


def _printed(run: Run) -> str:
    """What a run and ``pinproof report`` print, in a pipe."""
    file = io.StringIO()
    console = Console(file=file, width=80, highlight=False, emoji=False)
    terminal.summary(run, console, skips=True)
    for result in run.results:
        terminal.briefly(result, "the same cause", console)
    return file.getvalue()


@pytest.mark.parametrize("name", ["one of each", "hostile", "nothing"])
def test_sarif_is_as_its_schema_says(name: str) -> None:
    """The schema of 2.1.0, Errata 01, as published by OASIS (NOTICE has its origin)."""
    jsonschema = lacking.module("jsonschema")
    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    assert "errata01" in schema["id"]
    validator = jsonschema.Draft4Validator(schema)
    runs = {"one of each": listed(), "hostile": fakes.hostile(), "nothing": fakes.run()}
    written = json.loads(formatted(runs[name], "sarif"))
    assert not [one.message for one in validator.iter_errors(written)]
    del written["runs"][0]["tool"]
    assert list(validator.iter_errors(written))  # it does look


def test_github_gets_one_annotation_a_cause_and_the_verdict() -> None:
    many = [fakes.result("fail", machine=fakes.machine(f"m{number}")) for number in range(30)]
    first, last = formatted(fakes.run(*many), "github").splitlines()
    assert first.startswith("::error title=pinning.whole-cores on m0 and 29 more::promised: ")
    assert "%0A" in first
    assert last.startswith("::error title=pinproof::Not conformant: 0 promises kept, 30 broken.")
    many = [fakes.result("fail", failure=fakes.failure(rule="x" * n)) for n in range(1, 30)]
    lines = formatted(fakes.run(*many), "github").splitlines()
    assert sum(one.startswith("::error") for one in lines) == 10
    assert "Not conformant" in lines[-1]


def test_no_finding_is_placed_in_a_file_of_pinproof() -> None:
    """The reader's repository does not have it."""
    run = fakes.run(fakes.result("fail", file="conformance/scenarios/qos.py"))
    for form in ("github", "gitlab", "sarif"):
        assert "conformance/scenarios" not in formatted(run, form)
    (one,) = json.loads(formatted(run, "gitlab"))
    assert one["location"] == {"path": "result.jsonl", "lines": {"begin": 1}}


def test_title_and_body_are_about_the_same_scenario() -> None:
    """About the one of the shortest history, whichever came first."""
    long = fakes.result("fail", scenario="a/long", steps=["one", "two", "three"])
    short = fakes.result("fail", scenario="b/short", steps=["one"], explanation="story of b/short")
    annotation = formatted(fakes.run(long, short), "github").splitlines()[0]
    assert annotation.startswith("::error title=b/short and 1 more on ")
    assert "story of b/short" in annotation


def test_a_fingerprint_is_the_same_on_other_cpus_and_machines() -> None:
    def fingerprint(machine: str, seen: str) -> str:
        (difference,) = fakes.failure().differences
        other = fakes.failure(differences=[msgspec.structs.replace(difference, seen=seen)])
        run = fakes.run(fakes.result("fail", machine=fakes.machine(machine), failure=other))
        return str(json.loads(formatted(run, "gitlab"))[0]["fingerprint"])

    assert fingerprint("a", "1-2") == fingerprint("b", "5-6")


def test_known_failures_are_in_every_form() -> None:
    run = listed()
    assert [one for one, found in run.standings.items() if not found] == [Standing.FAIL]
    for name in ("markdown", "github", "gitlab", "sarif", "junit"):
        text = formatted(run, name)
        assert "our allocator takes odd CPUs first" in text, name
        assert "listed as a known failure" in text, name
    sarif = json.loads(formatted(run, "sarif"))["runs"][0]["results"]
    (hidden,) = [one for one in sarif if "suppressions" in one]
    assert hidden["suppressions"][0]["justification"].startswith("known until 2026-06-30 (our all")
    assert formatted(run, "github").count("::notice ") == 1
    assert 'verdict="known"} 1' in formatted(run, "prometheus")
    standings = [json.loads(one)["standing"] for one in formatted(run, "json").splitlines()]
    assert sorted(standings) == ["fixed", "known", "pass", "skip", "unknown"]


def test_markdown_shows_text_as_it_is() -> None:
    assert markdown("a|b <c> @all https://x.org `d`\n*e*") == (
        "a&#124;b &#60;c&#62; &#64;all https&#58;//x.org &#96;d&#96; &#42;e&#42;"
    )


def test_a_story_cannot_leave_its_block() -> None:
    run = fakes.run(fakes.result("fail", explanation="before\n```\n# heading\n````\nafter"))
    text = formatted(run, "markdown")
    assert "`````text\n" in text
    assert "after\n" in text.split("`````text\n")[1].split("`````")[0]


def test_metrics_count_by_machine_and_name_each_broken_promise() -> None:
    text = formatted(fakes.one_of_each(), "prometheus")
    who = 'subject="kubelet:1.36"'
    assert f'pinproof_results{{{who},machine="2s-2n-8c-smt2",verdict="fail"}} 1\n' in text
    broken = f'{who},machine="2s-2n-8c-smt2",scenario="pinning.whole-cores"'
    assert f"pinproof_broken_promise{{{broken}}} 1\n" in text
    assert f"pinproof_run_exit_status{{{who}}} 1\n" in text
    assert f"pinproof_run_end_time_seconds{{{who}}} 1772359241\n" in text
    assert len(re.findall("^# TYPE", text, re.MULTILINE)) == 6


def test_a_badge_says_what_the_run_says() -> None:
    green = formatted(fakes.run(fakes.result()), "badge")
    assert "<title>CPU pinning 1.36: conformant</title>" in green
    assert "not conformant</title>" in formatted(fakes.one_of_each(), "badge")
    assert "could not tell</title>" in formatted(fakes.run(), "badge")
