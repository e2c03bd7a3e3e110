"""What the smallest installation requires, and what a command says that needs more."""

from __future__ import annotations

import ast
import sys
import tomllib
from typing import Final

import pytest
from packaging.requirements import Requirement

from conformance.extras import LIBRARIES, missing
from conformance.subject import SubjectUsageError
from conformance.subjects import open_subject
from tests.installing.built import ROOT, required

_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_EXTRAS: Final = _PROJECT["project"]["optional-dependencies"]
_PACKAGES: Final = _PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
#: How the libraries of the smallest installation are imported.
_ALWAYS: Final = {
    "_pytest": "pytest", "jinja2": "jinja2", "junit_xml": "junit-xml", "markupsafe": "jinja2",
    "msgspec": "msgspec", "pluggy": "pytest", "pytest": "pytest", "rich": "rich", "typer": "typer",
    "xdist": "pytest-xdist", "yaml": "pyyaml",
}  # fmt: skip


def _imported() -> set[str]:
    """Top packages that the shipped code imports, but for Python's own and the project's."""
    found = set()
    for path in (path for package in _PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names - {*_PACKAGES}


def test_each_library_that_is_imported_is_required_always_or_by_an_extra() -> None:
    assert _imported() == {*_ALWAYS, *LIBRARIES}
    always = {Requirement(one).name for one in _PROJECT["project"]["dependencies"]}
    assert always == {*_ALWAYS.values()}
    for library, extra in LIBRARIES.values():
        assert library in required(extra), library


def test_all_is_every_extra_but_go() -> None:
    """Go takes 250 MB, and no code imports it."""
    (everything,) = _EXTRAS["all"]
    assert Requirement(everything).extras == {*_EXTRAS} - {"all", "kubelet"}
    assert {library for library, _ in LIBRARIES.values()} <= required("all").keys()
    assert not {library for library, _ in LIBRARIES.values()} & required().keys()


def _error(library: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {library!r}", name=library)


def test_the_line_names_library_and_extra() -> None:
    said = "paramiko is not installed: pip install 'pinproof[hil]'"
    assert missing(_error("paramiko")) == said
    assert missing(_error("paramiko.common")) == said
    assert missing(_error("grpc")).startswith("grpcio is not installed: pip install 'pinproof[sa")
    assert missing(_error("nosuch")) == ""
    assert missing(ValueError("paramiko")) == ""


def test_a_subject_without_its_extra_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an error of the harness, also inside pytest and its workers."""
    for name in [one for one in sys.modules if one.startswith("conformance.subjects.kubelet")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(SubjectUsageError, match=r"kubelet:1\.36: grpcio is not installed: pip"):
        open_subject("kubelet:1.36")


def test_a_library_that_is_missing_for_another_reason_is_no_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "conformance.subjects.reference", None)
    with pytest.raises(ModuleNotFoundError):
        open_subject("reference")
