"""Whoever knows the kubelet finds its functions: each is named by its counterpart."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential import go_to_python

ROWS = list(go_to_python.rows())


@pytest.mark.parametrize(
    ("go_file", "name", "python_file", "found"), ROWS, ids=[f"{row[0]}:{row[1]}" for row in ROWS]
)
def test_a_function_of_the_kubelet_is_named_by_its_counterpart(
    go_file: str, name: str, python_file: str, found: str
) -> None:
    assert found, f"no docstring in reference/{python_file} names {name} of {go_file}"


def test_the_page_shows_where_they_stand() -> None:
    page = Path(__file__).parents[2] / "docs/tables/go-to-python.md"
    assert page.read_text(encoding="utf-8") == go_to_python.page()


def test_a_name_that_nobody_has_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"cpu_assignment.go": {"cpumanager/cpu_assignment.py": "takeFullCores takeNoCores"}}
    monkeypatch.setattr(go_to_python, "NAMES", names)
    assert [bool(row[3]) for row in go_to_python.rows()] == [True, False]
