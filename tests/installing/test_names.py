"""A folder, a module or a distribution with a name of the project's packages, found at start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pinproof.names import PACKAGES, clash
from tests.cli.running import Done, python
from tests.installing.built import ROOT


def _started(folder: Path) -> Done:
    """As a module, for which the current folder is the first on Python's path."""
    return python("-m", "pinproof", "--version", cwd=folder, PYTHONSAFEPATH="")


@pytest.mark.parametrize("name", sorted({*PACKAGES} - {"pinproof"}))
def test_a_folder_in_the_way_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    assert clash() == ""
    monkeypatch.syspath_prepend(str(tmp_path))
    said = clash()
    assert said.startswith(f"{tmp_path / name / '__init__.py'} is in the way of ")
    assert f"{name}/__init__.py: both are called {name}; " in said
    assert "\n" not in said


def test_a_module_in_the_current_folder_ends_the_start(tmp_path: Path) -> None:
    """In one line, before it is run."""
    (tmp_path / "conformance.py").write_text("print('run')\n")
    done = _started(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pinproof: {tmp_path / 'conformance.py'} is in the way of /")


def test_a_folder_without_modules_is_in_nobodys_way(tmp_path: Path) -> None:
    """Python imports ours: a folder ``reports`` may be full of reports."""
    (tmp_path / "reports").mkdir()
    done = _started(tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with the first files of the project's, and no other code."""
    folder = tmp_path / "site-packages"
    rows = []
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        path = shutil.copy(ROOT / name / "__init__.py", folder / name)
        rows.append(f"{name}/__init__.py,sha256=x,{Path(path).stat().st_size}\n")
    _record(folder, "pinproof-0.1.0", rows)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def _record(folder: Path, name: str, rows: list[str]) -> None:
    (folder / f"{name}.dist-info").mkdir()
    (folder / f"{name}.dist-info" / "RECORD").write_text("".join(rows))


def test_a_distribution_that_replaced_a_package_is_named(installed: Path) -> None:
    assert clash(installed) == ""
    (installed / "reports" / "__init__.py").write_text("REPORTS = 1\n")
    assert clash(installed) == ""  # its owner changed it
    _record(installed, "reports-2.1", ["reports/__init__.py,sha256=y,12\n"])
    assert clash(installed) == (
        f"{installed}/reports/__init__.py is of reports-2.1.dist-info, and not of "
        "pinproof-0.1.0.dist-info: install pinproof in an environment of its own"
    )


def test_the_look_reads_one_file(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start pays for it; the lists of other distributions are read where a size is wrong."""
    for name in ("other-1", "reports-2.1"):
        _record(installed, name, ["other/__init__.py,sha256=y,12\n"])
    read: list[Path] = []
    whole = Path.read_text

    def reading(path: Path, encoding: str | None = None) -> str:
        read.append(path)
        return whole(path, encoding)

    monkeypatch.setattr(Path, "read_text", reading)
    assert clash(installed) == ""
    assert read == [installed / "pinproof-0.1.0.dist-info" / "RECORD"]
