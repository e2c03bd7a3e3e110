"""Wheel and source distribution: what is in them, and the commands of the smallest installation."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.metadata import Metadata

from pinproof.names import PACKAGES
from tests.cli.running import Done, ran
from tests.installing.built import ROOT, files, required, shipped
from tests.installing.conftest import Built

pytestmark = pytest.mark.needs("git")

_MACHINE: Final = ("--machine", "1s-1n-4c-smt2")
#: Issue 31: the smallest installation, as uv writes it.
_LIMIT: Final = 30_000_000


def _typed(programs: Path, *words: str, folder: Path) -> Done:
    """In an empty folder, without the checkout and with none of the libraries of these tests."""
    folder.mkdir(exist_ok=True)
    environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "100"}
    return ran(programs / "pinproof", *words, cwd=folder, env=environ)


def test_the_wheel_has_the_packages_and_nothing_else(built: Built) -> None:
    """Each file of theirs that git has, and the metadata."""
    with zipfile.ZipFile(built.wheel) as archive:
        there = set(archive.namelist())
    own = {name for name in there if not name.partition("/")[0].endswith(".dist-info")}
    assert own == {name for name in shipped() if name.partition("/")[0] in PACKAGES}
    metadata = {name.partition("/")[2] for name in there - own}
    assert metadata == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE",
    }  # fmt: skip


def test_the_source_distribution_builds_the_same_wheel(built: Built) -> None:
    assert built.again.name == built.wheel.name
    assert built.again.read_bytes() == built.wheel.read_bytes()


def test_the_source_distribution_has_what_git_has(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        there = {one.name.partition("/")[2] for one in archive if one.isfile()}
    assert there - {"PKG-INFO"} == {name for name in shipped() if not name.startswith(".ci/")}


def _metadata(built: Built) -> Metadata:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("dist-info/METADATA"))
        return Metadata.from_email(archive.read(name), validate=True)


def test_the_metadata_is_valid_and_complete(built: Built) -> None:
    """By the packaging authority's own reader; README's relative links are for the forge."""
    metadata = _metadata(built)
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.summary
    assert str(metadata.requires_python) == ">=3.11"
    classifiers = metadata.classifiers or []
    minors = {one.rpartition(" ")[2] for one in classifiers if "Python :: 3." in one}
    assert minors == {"3.11", "3.12", "3.13", "3.14"}
    assert not [one for one in classifiers if one.startswith("License ::")]  # PEP 639


def test_the_smallest_installation_is_light(built: Built) -> None:
    """What an installer that compiles nothing writes; docs/decisions.md has the other numbers."""
    with zipfile.ZipFile(built.wheel) as archive:
        own = sum(one.file_size for one in archive.infolist())
    libraries = {
        name: sum(path.stat().st_size for _, path in files(one) if path.exists())
        for name, one in required().items()
    }
    assert min(libraries.values()) > 0
    whole = own + sum(libraries.values())
    assert 10_000_000 < whole < _LIMIT, libraries


def test_the_commands_of_the_smallest_installation(programs: Path, tmp_path: Path) -> None:
    """Without a library of an extra, and without the checkout."""
    for words, status, said in (
        (("--version",), 0, "pinproof 0."),
        (("draw", "1s-1n-4c-smt2"), 0, "NUMA node 0"),
        (("simulate", *_MACHINE, "--pods", "2"), 0, "exclusive"),
        (("run", "-k", "machine/cpu-upgrade-incident", "--report", "out"), 0, "Conformant"),
        (("report", "out/result.jsonl", "--format", "markdown"), 0, "1s-1n-4c-smt1"),
        (("hunt", "--release", "1.36", "--machine", "1s-1n-3c-smt1", "--depth", "1",
          "--report", "finds"), 0, "every history of 1 moves searched"),
        (("upgrade", "1.36", "1.37", "--model", *_MACHINE), 0, "1.37"),
        (("explain", "machine/cpu-upgrade-incident"), 0, "state file"),
        (("machines", "nosuch-*"), 2, "nosuch-*"),
    ):  # fmt: skip
        done = _typed(programs, *words, folder=tmp_path / "empty")
        assert done.returncode == status, (words, done.stderr)
        assert said in done.stdout + done.stderr, words
    written = {path.name for path in (tmp_path / "empty" / "out").iterdir()}
    assert {"junit.xml", "report.html"} <= written


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("run", "--subject", "kubelet:1.36"), "sandbox"),
        (("run", "--subject", "node:ssh://root@node7"), "hil"),
        (("fleet", "up", "1s-1n-4c-smt2"), "sandbox"),
        (("probe", "ssh://root@node7"), "hil"),
        (("lab", "up", "2s-2n-8c-smt2", "--kubelet", "/nosuch"), "hil"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    programs: Path, tmp_path: Path, words: tuple[str, ...], extra: str
) -> None:
    """In one line, and nothing is written."""
    done = _typed(programs, *words, folder=tmp_path / "empty")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert re.search(r"\b(protobuf|paramiko) is not installed: pip install", line)
    assert f"'pinproof[{extra}]'" in line
    assert not [*(tmp_path / "empty").iterdir()]


def test_the_checkout_names_no_host_of_its_own() -> None:
    """The project has no public home yet, so its metadata has no address."""
    assert "[project.urls]" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


#: Commands that cannot even be asked for help without an extra, since they are of no use then.
_OF_EXTRAS: Final = {
    "capture": "hil", "certify": "hil", "collect": "hil", "fleet": "sandbox", "job": "hil",
    "probe": "hil", "restore": "hil",
}  # fmt: skip
_LOAD: Final = """
from conformance.extras import missing
from pinproof.cli import COMMANDS, loaded
for name in COMMANDS:
    try:
        loaded(name)
    except ModuleNotFoundError as error:
        print(name, missing(error))
"""


def test_all_other_commands_can_be_asked_for_help(programs: Path, tmp_path: Path) -> None:
    """And those of extras name theirs."""
    done = ran(programs / "python", "-c", _LOAD, cwd=tmp_path, status=0)
    found = dict(re.findall(r"^(\S+) .*?'pinproof\[(\w+)\]'.*", done.stdout, re.MULTILINE))
    assert len(found) == len(done.stdout.splitlines()), done.stdout
    assert found == _OF_EXTRAS
