"""Certificates: what they say of a run, and what they refuse to say."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.records import KnownFailure
from conformance.results import Result
from reports.certificate import (
    Answer,
    Here,
    Statement,
    checks,
    document,
    encode,
    html,
    read,
    upgrade_of,
)
from reports.certificate.document import BrokenPromise, Kubelet, Upgrade, UpgradeStage
from reports.certificate.schema import schema
from tests.reports.conftest import HOSTILE, headed
from tests.support import lacking
from tests.support.certificates import NOISE, SUITE, certificate, promise, result, run

HERE = Here(datetime(2026, 11, 22, tzinfo=UTC), SUITE.pinproof, SUITE.catalogue)
SCHEMA = Path(document.__file__).with_name("certificate.schema.json")


def ended(statement: Statement) -> str:
    """Verdict and exit status."""
    return f"{statement.facts.verdict} {statement.facts.exit_status}"


def wrong(statement: Statement, **changes: Any) -> list[str]:
    """What is found in the certificate once it has other facts, and a new digest of its own."""
    facts = msgspec.structs.replace(statement.facts, **changes)
    predicate = msgspec.structs.replace(statement.predicate, pinproof=facts)
    forged = document.sealed(msgspec.structs.replace(statement, predicate=predicate))
    return [one.detail for one in checks(read(encode(forged)), HERE) if one.answer is Answer.WRONG]


@pytest.mark.parametrize(
    ("results", "status", "verdict"),
    [
        ([result("pass")], 0, "success 0"),
        ([result("pass"), result("skip")], 0, "success 0"),
        ([result("pass"), result("skip", unable=True)], 0, "partial 4"),
        ([result("pass"), result("skip", level="extended", unable=True)], 0, "success 0"),
        ([result("pass"), result("unknown")], 3, "partial 3"),
        ([result("pass"), result("unknown", level="extended")], 3, "partial 3"),
        ([result("pass"), result("fail")], 1, "failure 1"),
        ([result("pass"), result("fail", level="extended")], 1, "failure 1"),
        ([result("pass")], 5, "not-restored 5"),
        ([result("pass"), result("fail")], 5, "failure 5"),
        ([result("pass"), result("unknown")], 5, "not-restored 5"),
        ([result("pass")], 4, "partial 4"),
        ([], 4, "none 4"),
        ([result("skip", unable=True)], 4, "none 4"),
    ],
)
def test_the_verdict(results: list[Result], status: int, verdict: str, tmp_path: Path) -> None:
    """A skip cannot buy a certificate; what does not apply does not cost one."""
    assert ended(certificate(run(*results, status=status), tmp_path)) == verdict


def test_the_words_of_a_partial_one_are_not_those_of_success(tmp_path: Path) -> None:
    """The run of those scenarios that could be run ended with status 0; the certificate does not
    say so, and names no path."""
    made = run(result("pass"), result("skip", unable=True, reason="max-risk is pods"), status=0)
    statement = certificate(made, tmp_path)
    assert statement.facts.words == "1 of 2 required scenarios have no verdict."
    page = html(statement)
    assert "PARTIAL" in page
    assert "Exit status 4" in page
    assert "Exit status 0" not in page
    assert "Conformant" not in page
    assert "max-risk is pods" in page
    assert "ssh://" not in page
    assert str(tmp_path) not in encode(statement).decode()


def test_it_says_how_many_of_how_many_ran(tmp_path: Path) -> None:
    """Of the catalogue's promises, also those of which the run has no result."""
    kept, skipped = result("pass"), result("skip", reason="needs 2 sockets")
    absent, other = result("pass", scenario="area/absent"), result("pass", scenario="area/other")
    extended = result("pass", scenario="area/more", level="extended")
    promises = [
        *map(promise, (kept, skipped, absent)),
        promise(other, against="needs 4 NUMA nodes, the machine has 2"),
        promise(extended),
    ]
    statement = certificate(
        run(kept, skipped), tmp_path, promises=promises, narrowed="-k area/pass"
    )
    core, more = statement.facts.profiles
    assert (core.apply, core.ran, core.not_run, core.skipped) == (2, 1, 1, 2)
    assert (more.apply, more.ran, more.claimed) == (1, 0, False)
    reasons = {one.id: one.reason for one in statement.facts.scenarios}
    assert reasons["area/absent"] == "not selected: the run was narrowed to -k area/pass"
    assert reasons["area/other"] == "needs 4 NUMA nodes, the machine has 2"
    assert reasons["area/more"] == "the extended level was not asked for"
    assert statement.predicate.warned == ["area/absent"]
    assert statement.facts.words == "1 of 2 required scenarios have no verdict."


def test_the_extended_profile_can_be_claimed(tmp_path: Path) -> None:
    """Then what is missing of it is missing."""
    made = run(result("pass"), result("skip", level="extended", unable=True))
    assert certificate(made, tmp_path).facts.verdict == "success"
    facts = certificate(made, tmp_path, level="extended").facts
    assert (facts.verdict, facts.profiles[1].claimed) == ("partial", True)


def test_a_part_of_the_scenarios_is_no_certificate(tmp_path: Path) -> None:
    """Also where the part holds everything that is required: ``-x`` may have ended it."""
    statement = certificate(run(result("pass")), tmp_path, narrowed="-x")
    assert ended(statement) == "partial 4"
    assert statement.facts.words == "No promise is broken, but not everything was asked."


def test_it_expires_unless_the_run_was_cut_off(tmp_path: Path) -> None:
    facts = certificate(run(result("pass")), tmp_path).facts
    assert facts.finished == "2026-11-21T16:10:00+00:00"
    assert facts.expires == "2027-11-21T16:10:00+00:00"
    facts = certificate(run(result("pass"), ended=False), tmp_path).facts
    assert (facts.verdict, facts.exit_status, facts.expires) == ("partial", 3, "")
    assert "cut off" in facts.words


def test_a_broken_promise_is_named(tmp_path: Path) -> None:
    statement = certificate(run(result("pass"), result("fail"), status=1), tmp_path)
    assert statement.facts.words == "1 promise is broken: area/fail-core-false."
    assert statement.predicate.result == "FAILED"
    assert statement.predicate.failed == ["area/fail-core-false"]


def test_a_failure_that_is_known_is_a_failure(tmp_path: Path) -> None:
    """A list of known failures lets a run pass; it cannot buy a certificate."""
    made = run(result("pass"), result("fail"), status=0)
    known = KnownFailure(scenario="area/fail-core-false", reason="known", expires="2027-01-01")
    assert ended(certificate(headed(made, known=[known]), tmp_path)) == "failure 1"


def test_a_node_that_was_not_restored_says_so(tmp_path: Path) -> None:
    statement = certificate(run(result("pass"), status=5), tmp_path)
    assert not statement.facts.restored
    assert statement.facts.words == (
        "Every required scenario that applies to this machine and release was run (1 of 1), and "
        "every promise was kept. The node was not left as it was found (see `pinproof restore`)."
    )
    assert statement.predicate.result == "WARNED"
    page = html(statement)
    assert "NOT RESTORED" in page
    assert "NOT left as it was found" in page
    assert "Not conformant" not in page


STAGES = tuple(
    UpgradeStage(
        leg=leg, kubelet=version, runs=True, exclusive={"pod1/c": "2-3"}, shared_pool="0-1"
    )
    for leg, version in (
        ("", "v1.36.4"),
        ("the upgrade", "v1.37.0"),
        ("the way back", "v1.36.4"),
        ("the second upgrade", "v1.37.0"),
    )
)
BROKEN = BrokenPromise(
    leg="the way back",
    kubelet="v1.36.4",
    step="start the kubelet",
    rule="A running pod keeps running",
    source="https://example.org",
    differences=["pod <b>: expected running, seen ended"],
)
NEWER = Kubelet(version="v1.37.0", release="1.37", digest="sha256:" + "37" * 32)


def upgraded(**changes: Any) -> Upgrade:
    facts: dict[str, Any] = {"kubelet": NEWER, "stages": STAGES}
    return upgrade_of("1.37", **(facts | changes))


LOST = "a promise is broken on the way back: A running pod keeps running."
KEPT = (
    "to kubelet v1.37.0, the way back and the second upgrade: 1 container kept exclusive CPUs, "
    "and ran on."
)
SILENT = upgrade_of("1.37", reason="the node fell silent")
UNPINNED = upgraded(stages=[msgspec.structs.replace(STAGES[0], exclusive={})])


@pytest.mark.parametrize(
    ("upgrade", "status", "verdict", "words"),
    [
        (upgraded(), 0, "success 0", KEPT),
        (upgraded(broken=[BROKEN]), 0, "failure 1", LOST),
        (SILENT, 0, "partial 3", "to kubelet 1.37 has no verdict: the node fell silent."),
        (UNPINNED, 0, "partial 3", "has no verdict: no container had exclusive CPUs before it."),
        (upgraded(restored=False), 0, "not-restored 5", "was not left as it was found"),
        (upgraded(broken=[BROKEN], restored=False), 0, "failure 5", LOST),
        (upgraded(broken=[BROKEN]), 5, "failure 5", LOST),
    ],
)
def test_an_upgrade_decides_as_a_scenario_does(
    upgrade: Upgrade, status: int, verdict: str, words: str, tmp_path: Path
) -> None:
    statement = certificate(run(result("pass"), status=status), tmp_path, upgrade=upgrade)
    assert ended(statement) == verdict
    assert words in statement.facts.words
    answers = {one.answer for one in checks(read(encode(statement)), HERE)}
    assert answers == {Answer.OK, Answer.UNCHECKED}


JUDGED = document.Judged(
    what="longest gap on exclusive CPUs 2", claim="--max-latency 50 us", seen="40 us", kept=True
)
NOT_KEPT = msgspec.structs.replace(JUDGED, kept=False, seen="60 us")
SAID = "Not kept: --max-latency 50 us. longest gap on exclusive CPUs 2: 60 us."


@pytest.mark.parametrize(
    ("judged", "status", "verdict", "words"),
    [
        ([], 0, "success 0", "every promise was kept."),
        ([JUDGED], 0, "success 0", "every promise was kept."),
        ([JUDGED, NOT_KEPT], 0, "failure 1", SAID),
        ([NOT_KEPT], 5, "failure 5", "Not kept:"),
    ],
)
def test_what_a_vendor_promises_decides_as_a_scenario_does(
    judged: list[document.Judged], status: int, verdict: str, words: str, tmp_path: Path
) -> None:
    """And is on the page; a certificate without any of it has no such field."""
    made = run(result("pass"), status=status)
    statement = certificate(made, tmp_path, judged=judged, noise=[NOISE])
    assert ended(statement) == verdict
    assert words in statement.facts.words
    data = encode(statement)
    assert (b'"judged"' in data) is bool(judged)
    answers = {one.what: one.answer for one in checks(read(data), HERE)}
    assert Answer.WRONG not in answers.values()
    assert answers["scheduling noise"] is Answer.UNCHECKED
    assert ("--max-latency 50 us" in html(statement)) is bool(judged)


def test_a_bound_that_was_called_kept_later_is_seen(tmp_path: Path) -> None:
    statement = certificate(run(result("pass")), tmp_path, judged=[NOT_KEPT])
    assert wrong(statement, judged=[JUDGED]) == [
        "its verdict is failure; success follows from its scenarios"
    ]


def _last_stage(**changes: Any) -> dict[str, Any]:
    return {"stages": [*STAGES[:-1], msgspec.structs.replace(STAGES[-1], **changes)]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (_last_stage(exclusive={"pod1/c": "0-1"}), "pod1/c did not keep its CPUs 2-3"),
        (_last_stage(exclusive={}), "pod1/c did not keep its CPUs 2-3"),
        (_last_stage(restarted=["pod1/c"]), "pod1/c was started again"),
        (_last_stage(runs=False), "kubelet v1.37.0 did not run"),
        ({"broken": [BROKEN]}, "its upgrade is kept; broken follows from its stages"),
        ({"words": "All is well."}, "the text of its upgrade is not that of its outcome"),
        ({"restored": False}, "it was not restored after the upgrade"),
    ],
)
def test_an_upgrade_that_contradicts_its_stages_is_found(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Though the certificate was sealed again."""
    statement = certificate(run(result("pass")), tmp_path, upgrade=upgraded())
    assert statement.facts.upgrade is not None
    upgrade = msgspec.structs.replace(statement.facts.upgrade, **changes)
    (found,) = wrong(statement, upgrade=upgrade)
    assert said in found


def test_the_page_shows_an_upgrade(tmp_path: Path) -> None:
    moved = _last_stage(exclusive={"pod1/c": "0-1"}, restarted=["pod1/c"])
    upgrade = upgraded(**moved, broken=[BROKEN])
    page = html(certificate(run(result("pass")), tmp_path, upgrade=upgrade))
    assert "Upgrade on the node" in page
    assert "0-1 restarted" in page
    assert "pod &lt;b&gt;: expected running, seen ended" in page
    assert "Upgrade on the node" not in html(certificate(run(result("pass")), tmp_path))


def test_a_run_that_ran_nothing_is_not_called_partial(tmp_path: Path) -> None:
    statement = certificate(run(result("skip", unable=True), status=4), tmp_path)
    assert statement.facts.words == "None of 1 required scenarios was run."
    assert "Nothing was shown" in html(statement)


def test_a_pre_certificate_is_called_so(tmp_path: Path) -> None:
    """What only a real node can show does not make it partial."""
    made = run(result("pass"), result("skip", unable=True))
    promises = [promise(one, node_only=one.unable) for one in made.results]
    statement = certificate(made, tmp_path, promises=promises, pre=True)
    assert (statement.facts.kind, statement.facts.verdict) == ("pre-certificate", "success")
    page = html(statement)
    assert "PRE-CERTIFICATE" in page
    assert "no kernel, firmware or hardware was judged" in page


def test_what_no_subject_of_the_kind_can_show_is_not_required(tmp_path: Path) -> None:
    """The run has a skip of it, which says that the subject cannot."""
    made = run(result("pass"), result("skip", unable=True))
    promises = [promise(one, against="it cannot" * one.unable) for one in made.results]
    statement = certificate(made, tmp_path, promises=promises)
    assert statement.facts.verdict == "success"
    assert statement.facts.profiles[0].skipped == 1


def test_it_is_an_in_toto_statement(tmp_path: Path) -> None:
    """Its fields have the names that in-toto's readers look for."""
    made = json.loads(encode(certificate(run(result("pass")), tmp_path)))
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert made["subject"][0] == {"name": "kubelet v1.36.4", "digest": {"sha256": "0f" * 32}}
    predicate = made["predicate"]
    assert predicate["result"] == "PASSED"
    assert predicate["passedTests"] == ["area/pass-core-false"]
    named = [one["name"] for one in predicate["configuration"]]
    assert named == ["KubeletConfiguration", "pinproof 0.1.0 catalogue", "result.jsonl"]


def test_nothing_of_a_node_reaches_the_page_unescaped(tmp_path: Path) -> None:
    """Names, facts, reasons, lint: a node chose all of it."""
    bad = HOSTILE
    made = run(result("fail", reason=bad, title=bad, source_url=bad), status=1)
    told = {"title": bad, "lint": [bad], "facts": {bad: bad}, "narrowed": bad}
    statement = certificate(made, tmp_path, **told)
    page = html(statement)
    for part in ("<script", "<img", "\x1b", "\u202e", "{% raw %}{%"):
        assert part not in page
    assert "&lt;script&gt;" in page
    assert "\\u001b" not in encode(statement).decode()


def test_the_schema_is_made_from_the_types() -> None:
    """And lies beside them, so the wheel has it."""
    assert SCHEMA.read_text() == schema()


def test_a_certificate_is_what_its_schema_says(tmp_path: Path) -> None:
    """By a validator that knows nothing of pinproof; and it refuses what is none."""
    jsonschema = lacking.module("jsonschema")
    shape = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(shape)
    validator = jsonschema.Draft202012Validator(shape)
    results = [result("pass"), result("fail"), result("skip")]
    made = json.loads(encode(certificate(run(*results), tmp_path)))
    validator.validate(made)
    for field, wrong in (("verdict", "splendid"), ("digest", "md5:1"), ("exit_status", 6)):
        other = json.loads(json.dumps(made))
        other["predicate"]["pinproof"][field] = wrong
        assert not validator.is_valid(other)
    assert not validator.is_valid({**made, "more": 1})
    assert not validator.is_valid({name: made[name] for name in made if name != "subject"})


def test_the_annex_begins_with_kept_promises_and_folds_a_profile_that_is_not_claimed(
    tmp_path: Path,
) -> None:
    results = [
        *[result(outcome, scenario=f"area/{outcome}") for outcome in ("skip", "unknown", "fail")],
        result("pass", scenario="area/z-kept"),
        result("pass", scenario="area/more", level="extended"),
    ]
    page = html(certificate(run(*results), tmp_path))
    listed, folded = page.split('<table class="scenarios">')[1:]
    order = ("area/z-kept", "area/fail", "area/unknown", "area/skip")
    places = [listed.index(f"{name}</") for name in order]
    assert places == sorted(places)
    assert "area/more" not in listed
    assert "<summary>1 scenario of the extended profile, which is not claimed" in listed
    assert "area/more" in folded
    claimed = html(certificate(run(*results), tmp_path, level="extended"))
    assert "<details>" not in claimed
    assert "area/more" in claimed.split('<table class="scenarios">')[1]
