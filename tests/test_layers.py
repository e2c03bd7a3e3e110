"""Import directions, as a table. A new edge is a decision: it changes this table and
docs/architecture.md in one commit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

#: What each package may import of the project, by module prefix.
MAY_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "reference": ("reference",),
    "topologies": ("topologies",),
    "conformance": ("conformance", "reference", "topologies"),
    "hil": ("hil", "conformance", "reference", "topologies"),
    "reports": ("reports", "conformance.results", "conformance.verdict", "topologies.drawing"),
    "pinproof": ("pinproof", "conformance", "hil", "reference", "reports", "topologies"),
}

#: What the model never touches: files, time, logs, threads, the network, other programs.
NOT_IN_THE_MODEL: Final = {
    "asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "shutil", "socket", "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip


def _sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def _imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, as dotted names; ``from a import b`` counts as ``a.b``,
    since b may be a module."""
    for found in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(found, ast.Import):
            yield from (name.name for name in found.names)
        elif isinstance(found, ast.ImportFrom):
            assert found.level == 0, f"{path}: relative import"
            yield from (f"{found.module}.{name.name}" for name in found.names)


def _within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    """Of the project's own packages."""
    sources = _sources(package)
    assert sources
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources
        for module in _imports(path)
        if module.partition(".")[0] in MAY_IMPORT and not _within(module, MAY_IMPORT[package])
    ]
    assert not wrong


def test_the_model_needs_nothing_but_the_standard_library() -> None:
    """And of that, nothing that acts or looks at the world."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in _sources("reference")
        for module in _imports(path)
        for top in [module.partition(".")[0]]
        if (top != "reference" and top not in sys.stdlib_module_names) or top in NOT_IN_THE_MODEL
    ]
    assert not wrong


def test_the_model_opens_nothing_and_prints_nothing() -> None:
    """Text comes in as a mapping, decisions leave as values."""
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {call.func.id}()"
        for path in _sources("reference")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in {"open", "print", "input", "exec", "eval", "__import__"}
    ]
    assert not wrong


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    """The table can fail."""
    bad = tmp_path / "bad.py"
    bad.write_text("from conformance import checks\nimport os.path\n")
    assert list(_imports(bad)) == ["conformance.checks", "os.path"]
    assert not _within("conformance.checks", MAY_IMPORT["reference"])
    assert not _within("conformance.checks", MAY_IMPORT["reports"])
    assert _within("conformance.verdict.Verdict", MAY_IMPORT["reports"])
