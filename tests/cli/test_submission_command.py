"""``pinproof submission``: the example is accepted, and refused once a line of it is changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

from pinproof.cli import app
from reports.submission import schema as made_schema
from reports.submission.document import FILES
from tests.support import lacking

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "submissions"
NAME: Final = "v1.36/pinproof-unmodified-kubelet"


def submission(*words: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, ["submission", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, of which a test may change something."""
    return Path(shutil.copytree(EXAMPLES / NAME, tmp_path / NAME))


def refusal(folder: Path) -> str:
    """The one line with which it is refused."""
    done = submission("check", folder)
    assert done.exit_code == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    head = f"pinproof: {folder}: "
    assert line.startswith(head)
    return line.removeprefix(head)


def test_every_submission_of_the_repository_is_accepted() -> None:
    done = submission("check", *EXAMPLES.glob("v*/*"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"{EXAMPLES / NAME}: pre-certificate of kubelet v1.36.4: ok" in done.stdout


def test_the_table_has_a_row_for_each() -> None:
    done = submission("table", EXAMPLES)
    head, _, *rows = done.stdout.splitlines()
    assert done.exit_code == 0
    assert head.startswith("| release | product |")
    assert len(rows) == len(list(EXAMPLES.glob("v*/*")))
    assert f"[pinproof unmodified kubelet 1.36.4]({NAME})" in rows[0]
    assert "success (pre-certificate)" in rows[0]


def _replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def _linked(folder: Path) -> None:
    (folder / "README.md").rename(folder.parent / "elsewhere.md")
    (folder / "README.md").symlink_to(folder.parent / "elsewhere.md")


def _piped(folder: Path) -> None:
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")


def _grown(folder: Path) -> None:
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write("x" * FILES["README.md"])


CHANGES: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    **{
        what: (_replaced(name, old, new), said)
        for what, name, old, new, said in (
            ("verdict in the README", "README.md", "| verdict | success |", "| verdict | failure |",
             "README.md:10: verdict: 'failure', and the certificate says 'success'"),
            ("count in the README", "README.md", "0 broken", "1 broken",
             "README.md:11: core profile: "),
            ("row of the README", "README.md", "| kubelet | v1.36.4 |\n", "",
             "README.md: the row `| kubelet | v1.36.4 |` is missing"),
            ("release of the certificate", "certificate.json", "v1.36.4", "v1.36.5",
             "submission.json:8: the digest of certificate.json is sha256:"),
            ("result", "result.jsonl", '"verdict":"pass"', '"verdict":"fail"',
             "result.jsonl: its digest is sha256:"),
            ("digest of the stream", "submission.json", '"stream": "sha256:', '"stream": "sha256:0',
             "submission.json:9: Expected `str` matching regex"),
            ("website", "submission.json", "https://kubernetes.io/", "javascript:alert(1)",
             "submission.json:5: Expected `str` matching regex"),
            ("unknown field", "submission.json", '"vendor"', '"vendour"', "submission.json"),
            ("day", "submission.json", '"2026-11-27"', '"2026-02-31"', "submission.json:7: "),
            ("day after the certificate has expired", "submission.json", '"2026-11-27"',
             '"2030-11-27"', "certificate.json: not expired: expired on "),
            ("day before it was certified", "submission.json", '"2026-11-27"', '"2025-11-27"',
             "submission.json:7: 2025-11-27: the certificate is of 2026-11-27"),
        )
    },
    "not JSON": (lambda one: _write(one / "submission.json", "{"), "submission.json: not JSON"),
    "file missing": (
        lambda one: (one / "certificate.json").unlink(),
        "certificate.json is missing",
    ),
    "another file": (
        lambda one: _write(one / "run.sh", "true"),
        "run.sh: a submission has no such file",
    ),
    "symbolic link": (_linked, "README.md: a symbolic link is refused"),
    "pipe": (_piped, "README.md: not a plain file"),
    "size": (_grown, f"README.md: more than {FILES['README.md']} bytes"),
}  # fmt: skip


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_changed_submission_is_refused_with_the_place(
    folder: Path, change: Callable[[Path], None], said: str
) -> None:
    change(folder)
    assert refusal(folder).startswith(said)


def test_a_folder_of_another_name_or_behind_a_link_is_refused(folder: Path) -> None:
    link = folder.parent.parent / "link"
    link.symlink_to(folder)
    assert refusal(link) == "not a folder, or a symbolic link"
    other = folder.rename(folder.parent / "another")
    assert refusal(other) == f"the folder has to be {NAME}"


def test_without_the_stream_the_digests_are_checked(folder: Path) -> None:
    """A vendor may keep the stream, and give it to readers who ask."""
    (folder / "result.jsonl").unlink()
    assert submission("check", folder).exit_code == 0


def test_a_new_submission_has_to_say_something(folder: Path, tmp_path: Path) -> None:
    """It is made of a certificate's folder, and refused until its README is written."""
    words = [
        *("--vendor", "Example", "--product", "Node OS", "--product-version", "3"),
        *("--website", "https://example.com", "--contact", "nodes@example.com"),
    ]
    done = submission("new", folder, "--output", tmp_path / "out", *words)
    made = tmp_path / "out/v1.36/example-node-os"
    assert (done.exit_code, done.stdout.strip()) == (0, str(made))
    assert "write what readers have to know" in refusal(made)
    text = (made / "README.md").read_text()
    (made / "README.md").write_text(text.rpartition("\n\n")[0] + "\n\nRun on a server.\n")
    assert submission("check", made).exit_code == 0
    assert submission("new", folder, "--output", tmp_path / "out", *words).exit_code != 0


def test_the_schema_is_that_of_the_type() -> None:
    jsonschema = lacking.module("jsonschema")
    path = ROOT / "reports/submission/submission.schema.json"
    text = path.read_text(encoding="utf-8")
    assert text == made_schema.schema()
    example = json.loads((EXAMPLES / NAME / "submission.json").read_text())
    jsonschema.validate(example, json.loads(text))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example | {"website": "javascript:alert(1)"}, json.loads(text))
