"""Machines by name: the catalogue, private machines, specs and paths."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

import topologies
from topologies import BadSpec, BrokenMachine, UnknownMachine, describe, find, machine, names, write
from topologies import finding as finding_module
from topologies.finding import catalogue_entry

CATALOGUE = Path(topologies.__file__).parent / "catalogue"
ENTRIES = sorted(path.stem for path in CATALOGUE.glob("*.toml"))


def test_the_catalogue_is_there() -> None:
    assert len(ENTRIES) >= 12
    assert sorted(names()) == ENTRIES
    assert names()[0] == "1s-1n-2c-smt1"


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_what_it_is_and_is_what_it_says(name: str) -> None:
    entry = catalogue_entry(name)
    found = machine(name)
    assert found.name == name
    assert describe(name).name == name, "names are canonical specs"
    assert found.shape == entry["shape"] == name
    assert found.why == entry["why"]
    assert entry["why"].endswith(".")
    assert len(entry["why"]) > 30
    assert found.source == entry["source"]
    assert found.source
    assert found.digest == entry["digest"], f'the tree changed: digest = "{found.digest}"'


@pytest.mark.parametrize("name", ENTRIES)
def test_no_machine_of_the_catalogue_contradicts_itself(name: str) -> None:
    assert topologies.lint(machine(name).tree) == []


def test_no_two_machines_are_here_for_the_same_reason() -> None:
    assert len({machine(name).why for name in names()}) == len(names())


def test_the_pair_of_the_incident_is_4_then_8_cpus() -> None:
    before, after = machine("1s-1n-4c-smt1").tree, machine("1s-1n-4c-smt2").tree
    assert before["sys/devices/system/cpu/online"] == "0-3\n"
    assert after["sys/devices/system/cpu/online"] == "0-7\n"


def test_a_spec_needs_no_entry() -> None:
    assert "3s-3n-9c-smt1" not in names()
    assert machine("3s-3n-9c-smt1").source == "described by its spec"
    assert dict(topologies.load("3s-3n-9c-smt1")) == dict(describe("3s-3n-9c-smt1").tree)


def test_find_takes_names_globs_all_specs_and_paths(tmp_path: Path) -> None:
    assert [found.name for found in find("all")] == names()
    assert [found.name for found in find("1s-1n-4c-smt?")] == ["1s-1n-4c-smt1", "1s-1n-4c-smt2"]
    assert [found.name for found in find("1s-1n-4c-smt2-off7")] == ["1s-1n-4c-smt2-off7"]
    assert [found.name for found in find("1s-1n-3c-smt1")] == ["1s-1n-3c-smt1"]
    write(describe("1s-1n-1c-smt1").tree, tmp_path / "node7")
    (found,) = find(tmp_path / "node7")
    assert (found.name, found.shape) == ("node7", "")


def test_an_unknown_name_is_told_with_names_like_it() -> None:
    with pytest.raises(UnknownMachine) as raised:
        machine("2s-2n-16c-smt")
    assert "2s-2n-16c-smt2" in raised.value.near
    assert str(raised.value).startswith("no machine is called '2s-2n-16c-smt': did you mean ")
    with pytest.raises(UnknownMachine, match="`pinproof machines` lists them"):
        find("nothing-*")


def test_a_faulty_spec_is_told_its_fault() -> None:
    with pytest.raises(BadSpec, match="3 NUMA nodes do not spread evenly"):
        machine("2s-3n-6c-smt1")


@pytest.mark.parametrize(
    "name", ["../catalogue/1s-1n-4c-smt1", "1s-1n-4c-smt1.toml", "", "\0", "x" * 5000]
)
def test_a_name_is_no_way_into_other_folders(name: str) -> None:
    with pytest.raises(topologies.MachineError) as raised:
        machine(name)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setenv("PINPROOF_MACHINES", f"{folder}:")
    return folder


def test_private_archives_and_trees_have_names(private: Path, tmp_path: Path) -> None:
    write(describe("1s-1n-2c-smt1").tree, private / "lab7")
    shutil.make_archive(str(private / "node.9"), "xztar", private / "lab7")
    (private / "notes.txt").write_text("not a machine")
    (private / "empty").mkdir()
    assert names()[-2:] == ["lab7", "node.9"]
    assert machine("node.9").digest == machine("lab7").digest == describe("1s-1n-2c-smt1").digest
    assert [found.name for found in find("l*7")] == ["lab7"]


def test_private_machines_never_hide_the_catalogue(private: Path) -> None:
    write(describe("1s-1n-2c-smt1").tree, private / "1s-1n-4c-smt1")
    assert machine("1s-1n-4c-smt1").tree["sys/devices/system/cpu/online"] == "0-3\n"
    assert names().count("1s-1n-4c-smt1") == 1


def test_a_private_archive_named_like_a_spec_is_a_path(tmp_path: Path) -> None:
    write(describe("1s-1n-2c-smt1").tree, tmp_path / "tree")
    archive = shutil.make_archive(str(tmp_path / "2s-2n-8c-smt2-ours"), "tar", tmp_path / "tree")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        assert machine(Path(archive).name).name == "2s-2n-8c-smt2-ours"


def test_a_private_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINPROOF_MACHINES", "/nowhere/at/all")
    with pytest.raises(BrokenMachine, match=r"/nowhere/at/all: .*named by PINPROOF_MACHINES"):
        names()


def test_an_entry_without_a_reason_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding_module, "_CATALOGUE", tmp_path)
    (tmp_path / "x.toml").write_text('shape = "1s-1n-1c-smt1"\n')
    with pytest.raises(BrokenMachine, match="its keys are not digest, shape, source, why"):
        catalogue_entry("x")


def test_the_example_in_the_manual_is_an_entry() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()
    example = tomllib.loads(manual.split("```toml\n")[1].split("```")[0])
    real = catalogue_entry(example["shape"])
    assert {**example, "digest": ""} == {**real, "digest": ""}


def test_the_python_in_the_manual_runs(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()
    code = manual.split("```python\n")[1].split("```")[0].replace("/tmp/machine", f"{tmp_path}/m")
    exec(compile(code, "machines.md", "exec"), {})
    assert (tmp_path / "m/sys/devices/system/cpu/online").exists()
