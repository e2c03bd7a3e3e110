"""The plans that are kept: CI walks them on a real kubelet."""

from __future__ import annotations

from pathlib import Path

import pytest

import hunting.exploring
from hunting.exploring.drafting import is_legal
from hunting.exploring.plan import plan_at

_FOLDER = Path(hunting.exploring.__file__).parent / "plans"


@pytest.mark.parametrize("path", sorted(_FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_model_knows_every_history_of_a_kept_plan(path: Path) -> None:
    """The plan's name says on which machine, and by which release."""
    machine, _, release = path.name.removesuffix(".json.xz").rpartition("-")
    histories = plan_at(path)
    assert len(histories) > 150
    assert {one.machine.removesuffix("-1024mib") for one in histories} == {machine}
    for number, one in enumerate(histories, start=1):
        assert is_legal(one.task(release), one.taken), number
