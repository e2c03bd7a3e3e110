"""What the built folder holds, and what is said where it cannot be built."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pinproof.playground import build, distribution
from pinproof.playground.distribution import NotBuilt
from tests.playground.conftest import Ask, pod

SERVICE = "kind: Service\nmetadata: {name: a}\n"
STORY = {
    "machine": "2s-4n-128c-smt1-arm64-kunpeng920",
    "release": "1.36",
    "steps": [["apply", pod("web", "3")], ["restart", ""], ["apply", SERVICE]],
}
ASKING = """
import sys
sys.path.insert(0, sys.argv[1])
from pinproof.playground.asked import Page
page = Page()
for line in sys.stdin:
    print(page.asked(line))
"""


@pytest.fixture
def without_pyodide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "unpack", lambda folder: folder.mkdir(parents=True))


@pytest.mark.usefixtures("without_pyodide")
def test_the_model_needs_nothing_but_its_archive_and_the_standard_library(
    tmp_path: Path, ask: Ask
) -> None:
    """The machines of the catalogue are in it, and PyYAML."""
    build.build(tmp_path / "built")
    zipfile.ZipFile(tmp_path / "built/model.zip").extractall(tmp_path / "model")
    steps = STORY["steps"]
    assert isinstance(steps, list)
    stories = [{**STORY, "steps": steps[:2]}, STORY]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ASKING, str(tmp_path / "model")],
        input="\n".join(json.dumps({"story": one}) for one in stories),
        capture_output=True,
        text=True,
        check=True,
    )
    good, wrong = map(json.loads, done.stdout.splitlines())
    machine = str(STORY["machine"])
    assert good == ask(*(tuple(step) for step in steps[:2]), machine=machine)
    assert good["rows"][0]["how"] == "exclusive"
    assert wrong == {
        "error": "manifest: it contains no pod; ignored, because they are not pods: Service a"
    }


@pytest.mark.usefixtures("without_pyodide")
def test_two_builds_are_the_same(tmp_path: Path) -> None:
    for name in ("first", "second"):
        build.build(tmp_path / name)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()}
        for name in ("first", "second")
    )
    assert first == second
    assert first.keys() == {
        "NOTICE.txt", "choices.json", "index.html", "model.zip", "playground.css", "playground.js",
        "worker.js",
    }  # fmt: skip


def test_the_page_names_no_other_host() -> None:
    """The links to the sources of rules come with the answers."""
    page = Path(build.__file__).with_name("page")
    assert not [path.name for path in page.iterdir() if "://" in path.read_text()]


def test_the_forms_offer_what_the_model_knows() -> None:
    found = build.choices()
    assert found["release"] in found["releases"]
    assert {"1s-1n-4c-smt2", "2s-2n-16c-smt2"} <= {one["name"] for one in found["machines"]}


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands in for npm, and an empty cache."""
    program = tmp_path / "bin/npm"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return program


def test_without_npm_one_line_says_what_is_not_built(
    npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(npm.parent))
    assert build.main([str(tmp_path / "built")]) == 3
    assert capsys.readouterr().err == (
        "the playground is NOT BUILT: npm is missing, by which Pyodide comes (apt-get install "
        "npm)\n"
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo npm error 404 >&2; exit 1", "npm cannot fetch pyodide "),
        ('echo other > "pyodide-$VERSION.tgz"', "not pyodide "),
    ],
)
def test_another_package_than_the_pinned_is_refused(
    script: str, why: str, npm: Path, tmp_path: Path
) -> None:
    npm.write_text(f"#!/bin/sh\nVERSION={distribution.VERSION}\n{script}\n")
    npm.chmod(0o755)
    with pytest.raises(NotBuilt, match=why):
        distribution.unpack(tmp_path / "pyodide")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_kept_package_that_was_changed_is_refused(npm: Path, tmp_path: Path) -> None:
    kept = tmp_path / f"cache/pinproof/pyodide/pyodide-{distribution.VERSION}.tgz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"other")
    with pytest.raises(NotBuilt, match=r"its sha512 is ") as refused:
        distribution.unpack(tmp_path / "pyodide")
    assert str(refused.value).startswith(str(kept))


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a", "b"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(arguments) == 2
    assert capsys.readouterr().err == "usage: python -m pinproof.playground.build FOLDER\n"
