"""The repository stands alone: no code looks for files outside of it, and its data is all there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.running import ran
from tests.support import lacking

ROOT: Final = Path(__file__).parents[1]
GOLDEN: Final = ROOT / "tests" / "golden"
PACKAGES: Final = (
    "benchmarks", "conformance", "hil", "pinproof", "reference", "reports", "tests", "topologies",
)  # fmt: skip

_FROM_HERE: Final = re.compile(
    r"__file__\)?((?:\.parents\[\d+\]|\.parent\b|\.resolve\(\)|\.absolute\(\)|\s*/ \"\.\.\")+)"
)
_STEP: Final = re.compile(r"parents\[(\d+)\]|parent\b|\.\.\"")
#: Names by which this repository's code calls its own top folder.
_FROM_ROOT: Final = re.compile(r"\b(?:ROOT|REPOSITORY)(?:\.parent\b|\.parents\[| / \"\.\.)")


def _climbs(path: Path, text: str) -> Iterator[str]:
    """The expressions in a file that lead out of the repository."""
    depth = len(path.parts)
    for found in _FROM_HERE.finditer(text):
        steps = sum(int(up[1] or 0) + 1 for up in _STEP.finditer(found[1]))
        if steps > depth:
            yield f"{path}: {found[0]}"
    for found in _FROM_ROOT.finditer(text):
        yield f"{path}: {found[0]}"


def test_no_path_leads_out_of_the_repository() -> None:
    """Neither of tests nor of what ships; this file has examples of such paths."""
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    sources.remove(Path(__file__))
    assert len(sources) > 200
    wrong = [
        climb
        for path in sources
        for climb in _climbs(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "text", "wrong"),
    [
        ("tests/a/test_b.py", 'Path(__file__).parents[2].parent / "data"', True),
        ("tests/a/test_b.py", 'Path(__file__).parents[3] / "data"', True),
        ("tests/test_b.py", "Path(__file__).resolve().parent.parent.parent", True),
        ("tests/test_b.py", 'Path(__file__).parents[1] / ".." / "data"', True),
        ("tests/test_b.py", 'ROOT.parent / "data"', True),
        ("tests/a/test_b.py", 'Path(__file__).parents[2] / "docs"', False),
        ("tests/a/test_b.py", "Path(__file__).parent", False),
    ],
)
def test_a_path_that_leads_out_is_seen(path: str, text: str, wrong: bool) -> None:
    """The check above can fail."""
    assert bool(list(_climbs(Path(path), text))) is wrong


def test_recorded_results_are_here_and_explained() -> None:
    """Every file of tests/golden has its row in the README there, and every row its file."""
    rows = re.findall(r"^\| `([^`]+)` \|", (GOLDEN / "README.md").read_text(encoding="utf-8"), re.M)
    there = {path.name for path in GOLDEN.iterdir() if path.is_file()} - {"README.md"}
    assert set(rows) - {"captures/*.tar.xz"} == there
    assert len(list((GOLDEN / "captures").glob("*.tar.xz"))) == 10
    assert "Redistribution and use" in (GOLDEN / "captures" / "NOTICE").read_text(encoding="utf-8")


def test_what_ci_names_is_there() -> None:
    """Pytest with workers runs nothing, and says nothing, where one file of several is missing."""
    named = re.findall(r"(?<![\w/.])tests/[\w/.]*\w", (ROOT / ".ci" / "run").read_text("utf-8"))
    assert len(named) >= 8
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_ci_works_in_a_copy_with_nothing_beside_it(tmp_path: Path) -> None:
    """``.ci/run`` copies the checkout into an empty folder, and leaves neither behind."""
    if shutil.which("git") is None:
        lacking.skip("git")
    checkout, temporary, tools = (tmp_path / name for name in ("checkout", "temporary", "tools"))
    for folder in (checkout / ".ci", temporary, tools, tmp_path / "beside"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    (checkout / "kept").write_text("")
    (checkout / "ignored").write_text("")
    (checkout / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    seen = tmp_path / "seen"
    # In the place of python3: it tells what it sees, and ends the run.
    for name, body in {
        "python3": f'{{ pwd; ls -A; echo --; ls -A ..; git ls-files; }} >"{seen}"; exit 7',
        "id": "echo 1000",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(temporary)}
    ran(checkout / ".ci" / "run", "-k", "nothing", env=environment, status=7)
    here, _, beside = seen.read_text().partition("--\n")
    place, *files = here.splitlines()
    assert Path(place).is_relative_to(temporary)
    assert sorted(files) == [".ci", ".git", ".gitignore", "kept"]
    assert beside.splitlines() == [Path(place).name, ".ci/run", ".gitignore", "kept"]
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in checkout.iterdir()) == [
        ".ci", ".git", ".gitignore", "ignored", "kept",
    ]  # fmt: skip
