"""What a certificate of a booted node rests on: its verdicts are judged again from what was seen,
and a forgery whose digests all fit is found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner
from typer.testing import Result as Ended

from conformance.results import Result, read, written
from hil.inspection import marks
from hil.transport import connected
from hil.transport import nodes as addresses
from pinproof.cli import app
from reports.certificate import Statement, encode, html
from reports.certificate import read as read_certificate
from reports.certificate.document import digest_of, sealed
from reports.certificate.making import RESULTS, listed, profile_of, verdict_from, words
from tests.hil.test_rejudging import with_another_pool, with_sightings

NAME: Final = "test-evidence"
#: One promise of each kind that only a real node can keep or break.
SMOKE: Final = "qos/whole or pool/shrinks or restart/stop-keeps or pod-resources or recovery"
STREAM: Final = "result.jsonl"

pytestmark = pytest.mark.needs("booted node")


@pytest.fixture(scope="module")
def made(inventory: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate with its page and its result stream."""
    reports = tmp_path_factory.mktemp("certified")
    ended = invoke("certify", inventory, "-k", SMOKE, "--report", reports)
    certificate = next(reports.rglob("certificate.json"), None)
    assert certificate is not None, ended.output
    return certificate.parent


def invoke(*words: object) -> Ended:
    return CliRunner().invoke(app, [*map(str, words)])


def verified(folder: Path, *more: object) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit status, and each check's answer with its detail."""
    ended = invoke("verify", folder / "certificate.json", folder / STREAM, "--json", *more)
    checks = json.loads(ended.stdout)["checks"]
    return ended.exit_code, {one["what"]: (one["answer"], one["detail"]) for one in checks}


def test_the_verdicts_of_a_booted_node_follow_from_what_was_seen(made: Path) -> None:
    status, checks = verified(made)
    verdicts = Counter(one.verdict for one in read(made / STREAM) if isinstance(one, Result))
    assert verdicts.keys() <= {"pass", "skip"}
    said = verdicts["pass"]
    assert said >= 5
    assert status == 0, checks
    ok, detail = checks["the observations"]
    assert (ok, detail) == ("ok", f"{said} verdicts judged again from what was seen")
    assert checks["the machine's digests"][0] == "ok"


def test_the_certificate_names_the_booted_unit_and_none_of_its_marks(
    made: Path, inventory: str
) -> None:
    """QEMU gives no serial number: the node is known by its keys and its machine id."""
    status, checks = verified(made, "--unit", inventory)
    ok, detail = checks["the unit"]
    assert (status, ok) == (0, "ok"), checks
    assert detail.startswith("the same unit: equal: SSH host key (ed25519)")
    assert "machine id" in detail
    (address,) = addresses(inventory)
    with connected(address) as shell:
        values = marks(shell).values
    files = [made / name for name in ("certificate.json", "certificate.html", STREAM)]
    texts = [file.read_text("utf-8", "surrogateescape") for file in files]
    assert len(values) >= 2
    assert not [name for name, value in values.items() for text in texts if value in text]


def a_skip_called_kept(result: Result) -> Result | None:
    if result.verdict != "skip":
        return None
    return replace(result, verdict="pass", reason="", unable=False)


def a_kept_one_called_broken(result: Result) -> Result | None:
    return replace(result, verdict="fail") if result.verdict == "pass" else None


def a_shared_pool_of_one_cpu(result: Result) -> Result | None:
    """What was seen of a promise that was kept is changed."""
    seen = result.observed.sightings if result.observed else []
    if result.verdict != "pass" or not any("shared_pool" in one.seen for one in seen):
        return None
    return with_sightings(result, with_another_pool)


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (a_skip_called_kept, "it has no observations"),
        (a_kept_one_called_broken, "what was seen gives pass, and the result says fail"),
        (a_shared_pool_of_one_cpu, ", and the result says pass"),
    ],
)
def test_a_forgery_whose_digests_all_fit_is_found_by_its_observations(
    forge: Callable[[Result], Result | None], says: str, made: Path, tmp_path: Path
) -> None:
    scenario = forged(made, tmp_path, forge)
    status, checks = verified(tmp_path)
    assert status == 1
    assert [one for one, (answer, _) in checks.items() if answer == "wrong"] == ["the observations"]
    detail = checks["the observations"][1]
    assert detail.startswith(f"{scenario}: ")
    assert says in detail


def forged(made: Path, folder: Path, forge: Callable[[Result], Result | None]) -> str:
    """A copy in which the first result that the forger can use is another, with all counts,
    words and digests as pinproof would write them; the id of its scenario."""
    records = list(read(made / STREAM))
    place, changed = next(
        (place, new)
        for place, one in enumerate(records)
        if isinstance(one, Result) and (new := forge(one))
    )
    records[place] = changed
    stream = written(records).encode()
    (folder / STREAM).write_bytes(stream)
    statement = read_certificate((made / "certificate.json").read_bytes())
    statement = _resealed(statement, changed, stream)
    (folder / "certificate.json").write_bytes(encode(statement))
    (folder / "certificate.html").write_text(html(statement), encoding="utf-8")
    return changed.scenario


def _resealed(statement: Statement, changed: Result, stream: bytes) -> Statement:
    facts = statement.facts
    entries = [
        replace(one, outcome=changed.verdict) if one.id == changed.scenario else one
        for one in facts.scenarios
    ]
    release = facts.kubelet.release
    profiles = [
        profile_of(one.name, entries, release=release, claimed=one.claimed)
        for one in facts.profiles
    ]
    whole = not (facts.caution or facts.narrowed)
    verdict = verdict_from(profiles, restored=facts.restored, whole=whole)
    said = words(verdict, entries, profiles, restored=facts.restored, caution=facts.caution)
    facts = replace(
        facts,
        scenarios=entries,
        profiles=profiles,
        verdict=verdict,
        words=said,
        exit_status=1 if verdict == "failure" else facts.exit_status,
        evidence=replace(facts.evidence, digest=digest_of(stream), bytes=len(stream)),
    )
    changes = {"result": RESULTS[verdict], "pinproof": facts, **listed(entries)}
    return sealed(replace(statement, predicate=replace(statement.predicate, **changes)))
