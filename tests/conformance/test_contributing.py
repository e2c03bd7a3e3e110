"""The scenario that CONTRIBUTING.md grows is one: it fails where it should, and passes else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance import scenario as registry
from conformance.catalogue import catalogue
from conformance.scenario import Scenario
from conformance.subjects.miniatures import miniature
from tests.conformance.judging import judged
from tests.support import lacking
from tests.support.fork import git

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "CONTRIBUTING.md"


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """The finished scenario of the page, in a catalogue of its own."""
    catalogue()
    monkeypatch.setattr(registry, "_REGISTRY", {})
    steps, whole, _ = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    compile(steps, str(PAGE), "exec")
    exec(compile(whole, str(PAGE), "exec"), {"__name__": __name__})
    (found,) = registry._REGISTRY.values()
    return found


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
def test_the_scenario_of_the_page_fails_where_it_should(grown: Scenario, model: bool) -> None:
    """On the miniature that the page names, and on no other subject."""
    wrong = judged(grown, "1s-1n-4c-smt2", miniature("forgets-to-give-back"), model=model)
    assert wrong.verdict == "fail"
    assert judged(grown, "1s-1n-4c-smt2", model=model).verdict == "pass"


# -- typed word by word in a clone: its files are written, its commands run ------------------------

_BLOCK: Final = re.compile(
    r"^(?P<before>[^\n]+)\n\n```(?P<kind>sh|python)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
_SAYS_STATUS: Final = re.compile(r"exit status is (\d)")
#: What ``ensurepip`` leaves for a user of Python 3.11, which does not know ``--group``.
_VENV: Final = "python3 -m venv .venv"
_OLD_VENV: Final = f"{_VENV} && .venv/bin/pip install -q pip==23.2.1"


def _blocks() -> Iterator[tuple[str, str, str]]:
    """The line before each block, the block's kind and its text."""
    for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        yield found["before"], found["kind"], found["text"]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A repository to clone that holds what git would ship of this checkout."""
    folder = tmp_path / "published"
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():  # not what was deleted and is not committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for asked in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "all"]):
        git(folder, *asked)
    return folder


def _write(folder: Path, before: str, text: str) -> None:
    """A file that the line before it names as whole, or a line to add below its like."""
    (name,) = re.findall(r"`(\S+\.py)`", before)
    path = folder / name
    if "Add this line below" not in before:
        assert not path.exists()
        path.write_text(text, encoding="utf-8")
        return
    above, like, below = path.read_text(encoding="utf-8").rpartition(f"  {text.split('  ', 1)[1]}")
    path.write_text(f"{above}{like}{text}{below}", encoding="utf-8")


def _typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a shell of a user with the Python of these tests and nothing of their environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "PATH": path},
        timeout=550,
        check=False,
    )


@pytest.mark.needs("git")
@pytest.mark.usefixtures("kubelet_path")
def test_the_page_can_be_typed(published: Path, tmp_path: Path) -> None:
    """Each command ends as the page says. Afterwards the tests that know every scenario know the
    new one. The environment begins with the pip that Python 3.11 brings."""
    blocks = list(_blocks())
    folder, written = tmp_path / "pinproof", 0
    for before, kind, text in blocks:
        if kind == "python":
            if ".py`" in before:
                _write(folder, before, text)
                written += 1
            continue
        place = folder if folder.exists() else tmp_path
        command = text.replace("<your fork>", str(published)).replace(_VENV, _OLD_VENV)
        done = _typed(f"set -e\n{command}", place)
        if done.returncode and (offline := re.search(r".*NewConnectionError.*", done.stderr)):
            lacking.skip("index", offline[0][:200])
        said = _SAYS_STATUS.search(before)
        assert done.returncode == (int(said[1]) if said else 0), text + done.stdout + done.stderr
    assert (len(blocks), written) == (8, 2)
    for check in (
        "test_kill_matrix.py -k whole",
        "test_recordings.py -k 'missing or (1.36 and 1s-1n-4c-smt2)'",
    ):
        done = _typed(f".venv/bin/pytest -q -n0 tests/conformance/{check}", folder)
        assert done.returncode == 0, done.stdout
