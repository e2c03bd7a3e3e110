"""The tutorials are typed from their first command to their last: one here, and all by .ci/run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.transcripts import blocks
from tests.support.typed_pages import go_through

ROOT: Final = Path(__file__).parents[1]
SHELF: Final = ROOT / "docs" / "tutorials"
#: tests/kubelet/test_fleet_tutorial.py types it: it needs kubectl and etcd.
_ELSEWHERE: Final = "scheduler-tutorial.md"
_INSTALLS: Final = "pip install -q '.[hil,kubelet]'"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``pinproof`` is that of this environment, and the home folder is the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def _without_installation(page: Path, folder: Path) -> Path:
    """A copy of a page."""
    text = page.read_text(encoding="utf-8")
    assert text.count(_INSTALLS) == 1
    copy = folder / page.name
    lines = [line for line in text.splitlines(True) if _INSTALLS not in line]
    copy.write_text("".join(lines), encoding="utf-8")
    return copy


def test_every_tutorial_is_typed_in_ci() -> None:
    """``.ci/tutorials`` names each but the one that a test types."""
    script = (ROOT / ".ci" / "tutorials").read_text(encoding="utf-8")
    (named,) = re.findall(r"^for name in (.*); do$", script, re.MULTILINE)
    pages = {page.name for page in SHELF.glob("*.md")}
    assert {f"{name}.md" for name in named.split()} == pages - {_ELSEWHERE}
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^ +\"\$\{minimal\[@\]\}\" .*\.ci/tutorials$", run, re.MULTILINE)


def test_what_needs_a_node_is_typed_beside_the_lab() -> None:
    """``.ci/run`` names the section of the vendor's page that has all of it."""
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (section,) = re.findall(
        r"NODE=\$node .*\n +docs/tutorials/vendor\.md#(\S+)$", run, re.MULTILINE
    )
    page = SHELF / "vendor.md"
    needing = [one for one in blocks(page) if one.mark.startswith("needs NODE: ")]
    assert len(needing) >= 2
    assert set(needing) <= set(blocks(page, section))


@pytest.mark.usefixtures("installed")
def test_the_operators_page_is_true(tmp_path: Path) -> None:
    """It needs neither kubelet nor node."""
    page = _without_installation(SHELF / "operator.md", tmp_path)
    assert go_through(page, "", tmp_path, 300) >= 10
