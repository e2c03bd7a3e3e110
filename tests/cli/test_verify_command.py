"""``pinproof verify``: what it finds in certificates that were changed, forged or never were."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from conformance.verdict import ExitStatus
from pinproof import signing
from pinproof.cli import app
from reports.certificate import (
    Answer,
    CertificateError,
    Here,
    Statement,
    checks,
    encode,
    html,
    read,
)
from reports.certificate.document import decode, sealed
from tests.support import lacking
from tests.support.certificates import certificate, result, run

HERE = Here(datetime(2026, 12, 1, tzinfo=UTC), "0.1.0", "sha256:" + "ca" * 32)
#: Changes the predicate, and what pinproof has in it.
Edit: TypeAlias = Callable[[Any, Any], object]


@pytest.fixture
def statement(tmp_path: Path) -> Statement:
    made = run(result("pass"), result("skip"), result("skip", unable=True, reason="max-risk"))
    return certificate(made, tmp_path)


@pytest.fixture
def path(statement: Statement, tmp_path: Path) -> Path:
    file = tmp_path / "certificate.json"
    file.write_bytes(encode(statement))
    (tmp_path / "certificate.html").write_text(html(statement), encoding="utf-8")
    return file


def verify(*words: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, words)])


def wrong(statement: Statement, stream: Path | None = None) -> list[str]:
    return [one.detail for one in checks(statement, HERE, stream) if one.answer is Answer.WRONG]


def forged(statement: Statement, edit: Edit) -> Statement:
    """The certificate with this change, and a new digest of its own."""
    content = json.loads(encode(statement))
    edit(content["predicate"], content["predicate"]["pinproof"])
    return sealed(decode(json.dumps(content).encode()))


def test_a_sound_one_is_sound(statement: Statement, tmp_path: Path) -> None:
    assert read(encode(statement)) == statement
    assert wrong(statement, tmp_path / "result.jsonl") == []


def test_a_changed_byte_anywhere_is_found(statement: Statement) -> None:
    """Every byte, changed to a few others, in whichever field, name, number or blank it lies."""
    data = encode(statement)
    draw = random.Random(18)
    for place in range(len(data)):
        for new in {data[place] ^ 1, data[place] ^ 32, draw.randrange(256)} - {data[place]}:
            changed = data[:place] + bytes([new]) + data[place + 1 :]
            with pytest.raises(CertificateError):
                read(changed)


def test_a_byte_more_or_less_anywhere_is_found(statement: Statement) -> None:
    data = encode(statement)
    for place in range(0, len(data), 7):
        before, after = data[:place], data[place:]
        for changed in (before + after[1:], before + b" " + after, before):
            with pytest.raises(CertificateError):
                read(changed)


def test_a_changed_byte_of_the_stream_is_found(statement: Statement, tmp_path: Path) -> None:
    stream = tmp_path / "result.jsonl"
    data = stream.read_bytes()
    for place in range(0, len(data), 11):
        stream.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert wrong(statement, stream)
    stream.write_bytes(data)
    assert not wrong(statement, stream)


FORGED: Final[list[tuple[Edit, str]]] = [
    (lambda p, _: p.update(result="PASSED"), "result PASSED is not that of the verdict partial"),
    (lambda _, own: own.update(verdict="success"), "its verdict is success; partial follows"),
    (lambda _, own: own.update(exit_status=0), "exit status 0 is not one of the verdict partial"),
    (lambda _, own: own.update(words="Conformant."), "its text is not that of its verdict"),
    (lambda _, own: own["profiles"][0].update(kept=2), "the counts of profile core are not those"),
    (lambda _, own: own["profiles"][0].update(claimed=False), "it does not claim the core profile"),
    (lambda p, _: p.update(warnedTests=[]), "the lists of tests are not those"),
    (lambda _, own: own.update(profiles=[]), "its profiles are missing"),
    (lambda _, own: own.update(finished="2026-11-21T15:00:00+00:00"), "its times are not in order"),
    (lambda _, own: own.update(expires="2026-11-21T17:00:00+00:00"), "expired on 2026-11-21"),
    (lambda _, own: own.update(expires="for ever"), "it has no date of expiry"),
    (lambda _, own: own["machine"].update(cpus=8), "the machine's counts are not those"),
    (lambda _, own: own["suite"].update(catalogue="sha256:" + "00" * 32), "has another catalogue"),
    (lambda _, own: own["scenarios"].append(own["scenarios"][0]), "the counts of profile core"),
]


@pytest.mark.parametrize(("edit", "says"), FORGED)
def test_a_forged_one_contradicts_itself(statement: Statement, edit: Edit, says: str) -> None:
    """Also where its digest was made again."""
    assert says in " ".join(wrong(read(encode(forged(statement, edit)))))


def test_a_forged_verdict_contradicts_the_stream(statement: Statement, tmp_path: Path) -> None:
    """A whole certificate of another run, whose digest of the evidence was replaced."""
    other = tmp_path / "other"
    other.mkdir()
    better = certificate(run(result("pass"), result("pass", scenario="area/more")), other)
    assert wrong(better) == []
    stream = tmp_path / "result.jsonl"
    evidence = json.loads(encode(statement))["predicate"]["pinproof"]["evidence"]
    lying = forged(better, lambda _, own: own.update(evidence=evidence))
    assert wrong(lying, stream) == [
        "certificate and result stream list different scenarios: area/more, area/skip-core-false, "
        "area/skip-core-true"
    ]


def test_the_command_says_what_it_could_not_check(path: Path, tmp_path: Path) -> None:
    done = verify(path, tmp_path / "result.jsonl")
    said = " ".join(done.output.split())
    assert "the kubelet's digest: compare with sha256sum of its program" in said
    assert "not checked machine, firmware and system: only the node itself can show them" in said
    assert "not checked the observations: only the pinproof that made them can judge them" in said
    assert "not checked the signature: give --allowed-signers FILE" in said
    # The catalogue of these tests is not the one that is installed.
    assert done.exit_code == ExitStatus.NOT_CONFORMANT
    assert "Do not trust it: 1 of 15 checks failed." in said


def test_a_folder_stands_for_its_certificate_and_its_stream(path: Path, tmp_path: Path) -> None:
    with_stream = verify(path, tmp_path / "result.jsonl")
    assert verify(tmp_path).output == with_stream.output
    (tmp_path / "result.jsonl").rename(tmp_path / "elsewhere")
    assert verify(tmp_path).output == verify(path).output
    assert "give result.jsonl to recompute them" in " ".join(verify(tmp_path).output.split())


def test_a_stream_outside_of_the_folder_is_not_taken(statement: Statement, tmp_path: Path) -> None:
    """Whatever the certificate names."""
    inside = tmp_path / "inside"
    inside.mkdir()
    named = forged(statement, lambda _, own: own["evidence"].update(name="../result.jsonl"))
    (inside / "certificate.json").write_bytes(encode(named))
    assert "to recompute them" in " ".join(verify(inside).output.split())


def test_a_page_of_another_certificate_is_found(path: Path) -> None:
    page = path.with_suffix(".html")
    page.write_text(page.read_text().replace("PARTIAL", "SUCCESS"))
    done = json.loads(verify(path, "--json").stdout)
    said = "certificate.html was not made from this certificate"
    assert {"what": "the page beside it", "answer": "wrong", "detail": said} in done["checks"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[" * 100_000,
        b'{"_type": "https://in-toto.io/Statement/v0.1"}',
        b'{"_type": {"\x1b[31m<script>": 1}}',
        b"\xff\xfe\x00",
        b'{"subject": [' + b'{"name": "x", "digest": {}},' * 1000 + b"]}",
        b'"' + b"x" * 100_000 + b'"',
        b" " * ((16 << 20) + 1),
    ],
    ids=range(10),
)
def test_what_is_not_a_certificate_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(data)
    done = verify(path)
    assert done.exit_code == ExitStatus.NOT_CONFORMANT
    assert done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"pinproof: {path}: ")
    assert len(said) < 1000
    assert said.isprintable()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["/dev/zero"], "/dev/zero"),  # a device would never end
        (["--allowed-signers", "/gone"], "--allowed-signers /gone"),
    ],
)
def test_a_file_that_is_not_there_is_wrong_usage(words: list[str], named: str, path: Path) -> None:
    assert str(verify(path, *words).exception) == f"{named}: there is no such file"


@pytest.mark.parametrize("data", [b"", b"{", b"\x1b[31m" * 1000, b"[" * 100_000, b"\xff\n"])
def test_a_hostile_stream_is_one_line(data: bytes, statement: Statement, tmp_path: Path) -> None:
    stream = tmp_path / "result.jsonl"
    stream.write_bytes(data)
    found = wrong(statement, stream)
    assert found[0] == f"{stream} is another file or was changed"
    assert all(one.isprintable() and len(one) < 1000 for one in found)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    lacking.program("ssh-keygen")
    made = tmp_path / "vendor"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "x"]
    subprocess.run([*words, "-f", made], check=True)
    return made


@pytest.fixture
def allowed(key: Path, tmp_path: Path) -> Path:
    file = tmp_path / "allowed"
    public = key.with_suffix(".pub").read_text()
    file.write_text(f'vendor@example.org namespaces="{signing.NAMESPACE}" {public}')
    return file


def signature(path: Path, allowed: Path) -> tuple[str, str]:
    found = json.loads(verify(path, "--allowed-signers", allowed, "--json").stdout)["checks"]
    row = next(one for one in found if one["what"] == "the signature")
    return row["answer"], row["detail"]


def test_a_signature_names_its_signer(path: Path, key: Path, allowed: Path) -> None:
    """One that is missing, or of a key that is not allowed, is wrong."""
    assert signature(path, allowed) == ("wrong", f"there is no signature {path}.sig")
    signing.sign(path, key)
    assert signature(path, allowed) == ("ok", "by vendor@example.org")
    allowed.write_text("")
    assert signature(path, allowed) == ("wrong", f"{path}.sig: not by a key of {allowed}")


def test_the_comment_of_a_key_names_its_owner(key: Path, tmp_path: Path) -> None:
    """The private half and the public one, which an agent's key has alone, say the same."""
    assert signing.comment_of(key) == "x"
    assert signing.comment_of(key.with_suffix(".pub")) == "x"
    assert signing.comment_of(tmp_path / "gone") == ""


def test_a_signature_made_for_another_purpose_is_refused(
    path: Path, key: Path, allowed: Path
) -> None:
    """An SSH key signs commits as well."""
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git"]
    subprocess.run([*words, "-f", key, path], check=True)
    answer, detail = signature(path, allowed)
    assert answer == "wrong"
    assert detail.startswith(f"{path}.sig: ")


def test_a_certificate_that_was_sealed_again_has_no_signature(
    path: Path, key: Path, allowed: Path, statement: Statement
) -> None:
    """Whoever makes the digest again cannot make the signature again."""
    signing.sign(path, key)
    path.write_bytes(encode(forged(statement, lambda _, own: own.update(title="node8"))))
    answer, _ = signature(path, allowed)
    assert answer == "wrong"


def test_without_cosign_it_says_so(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = verify(path, "--cosign-key", tmp_path / "key")
    assert str(done.exception) == "cosign is not installed"


def test_a_signature_of_cosign(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With cosign itself, where it is on PATH."""
    lacking.program("cosign")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    subprocess.run(["cosign", "generate-key-pair"], check=True)
    signing.sign_with_cosign(path, tmp_path / "cosign.key")
    signing.verify_with_cosign(path, tmp_path / "cosign.pub")
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(signing.BadSignature):
        signing.verify_with_cosign(path, tmp_path / "cosign.pub")
