"""``.ci/release``: what it refuses, and the bill of materials that it writes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.utils import canonicalize_name

from tests.cli.running import python, ran
from tests.installing.built import ROOT, required
from tests.support import lacking
from tests.support.fork import git

pytestmark = pytest.mark.needs("git", "bash")

_SCRIPT: Final = ROOT / ".ci" / "release"


def _words(bill: Path, python: Path) -> list[str]:
    """The script's own call of the tool, with these in its variables."""
    (line,) = re.findall(r'^"\$tools/cyclonedx-py" (.*)$', _SCRIPT.read_text(), re.MULTILINE)
    return shlex.split(line.replace("$bill", str(bill)).replace("$python", str(python)))


def test_the_bill_of_materials_lists_what_is_installed(programs: Path, tmp_path: Path) -> None:
    """It is valid, and lists each library of the installation with its version, and no other."""
    lacking.module("cyclonedx_py")
    bill = tmp_path / "bill.json"
    python("-m", "cyclonedx_py", *_words(bill, programs / "python"), cwd=ROOT, status=0)
    found: dict[str, Any] = json.loads(bill.read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "pinproof"
    listed = {canonicalize_name(one["name"]): one["version"] for one in found["components"]}
    libraries = {name: version for name, version in listed.items() if name != "pinproof"}
    assert libraries == {name: one.version for name, one in required().items()}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the script and nothing else."""
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(_SCRIPT, folder / ".ci")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        git(folder, *words)
    return folder


def test_what_is_not_committed_is_not_released(checkout: Path, tmp_path: Path) -> None:
    (checkout / "more.py").write_text("")
    done = ran(checkout / ".ci" / "release", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "release: there is what is not committed\n"


def test_a_folder_that_is_not_empty_is_refused(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.whl").write_text("")
    done = ran(checkout / ".ci" / "release", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr == f"release: {tmp_path / 'out'} is not empty\n"
    assert ran(checkout / ".ci" / "release").stderr == "release: expected one folder\n"
