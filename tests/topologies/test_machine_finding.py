"""Machines by name: the catalogue, private machines, specs and paths."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

import topologies
from reference import Architecture, discover
from topologies import (
    BadSpec,
    BrokenMachine,
    Link,
    UnknownMachine,
    describe,
    find,
    machine,
    names,
    offline,
    pack,
    write,
)
from topologies import entries as entries_module
from topologies.capturing import Capture, scope, write_capture
from topologies.entries import CATALOGUE, Change, Pair, catalogue_entry, pairs
from topologies.importing import complete
from topologies.paths import CPU
from topologies.spec import parse

ENTRIES = sorted(path.stem for path in CATALOGUE.glob("*.toml"))
#: Archives of other projects, of hardware as it is.
IMPORTED = [name for name in ENTRIES if catalogue_entry(name).imported]
OURS = [name for name in ENTRIES if name not in IMPORTED]


def test_the_catalogue_is_there() -> None:
    assert len(ENTRIES) >= 40
    assert len(list(CATALOGUE.glob("*.tar.xz"))) >= 20, "captured from real kernels"
    assert sorted(names()) == ENTRIES
    assert names()[0] == "qemu-1s-1n-1c-smt1"
    sizes = [parse(shape).present.bit_count() for name in names() if (shape := machine(name).shape)]
    assert sizes == sorted(sizes)
    whys = {machine(name).why for name in names()}
    assert len(whys) == len(ENTRIES), "no two are here for the same reason"


def test_the_catalogue_is_small_and_every_file_of_it_belongs_to_an_entry() -> None:
    files = [*CATALOGUE.iterdir()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    named = {re.sub(r"\.(toml|tar\.xz|golden\.json\.xz)$", "", path.name) for path in files}
    assert named == {*ENTRIES}


@pytest.mark.parametrize("name", [one for one in OURS if (CATALOGUE / f"{one}.tar.xz").exists()])
def test_a_capture_names_no_host(name: str) -> None:
    """No serial number, address or host name can enter one: it holds what three programs read."""
    for path, text in machine(name).tree.items():
        assert isinstance(text, Link) or scope.is_file(path), path
        assert not isinstance(text, Link) or scope.is_link(path), path


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_machine_is_complete_and_says_whose_it_is(name: str) -> None:
    """Importing it once more says nothing new."""
    entry, tree = catalogue_entry(name), machine(name).tree
    assert entry.imported is not None
    assert {str(note) for note in complete(tree).notes} <= set(entry.imported.notes)
    assert entry.imported.origin.startswith("https://github.com/open-mpi/hwloc/")
    assert entry.imported.licence == "BSD-3-Clause"
    assert Architecture.of_cpuinfo(tree["proc/cpuinfo"]).value.startswith(entry.architecture)


def test_whose_the_imported_machines_are_is_said_with_their_licence() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text("utf-8")
    assert len(IMPORTED) == 10
    for name in IMPORTED:
        imported = catalogue_entry(name).imported
        assert imported is not None
        assert f"{name}.tar.xz" in notice
        assert imported.file in notice
    assert "Redistributions in binary form must reproduce the above copyright" in notice


TEXTS = 'shape = ""\nwhy = "x"\nsource = "x"\ndigest = "x"\n'
ORIGIN = r"\[imported\] has the keys origin, licence and file"
PAIR = "a pair has the keys after, change, both texts"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('shape = "1s-1n-1c-smt1"', "its keys are not digest, shape, source, why"),
        (f'{TEXTS}imported = "hwloc"', ORIGIN),
        (f'{TEXTS}[imported]\norigin = "x"\nlicence = "x"\nfile = "x"', ORIGIN),
        (f'{TEXTS}[imported]\norigin = "x"\nlicence = "x"\nfile = "x"\nnotes = "x"', ORIGIN),
        (f'{TEXTS}[imported]\norigin = "x"\nlicence = "x"\nfile = 1\nnotes = []', ORIGIN),
        (f'{TEXTS}[[pair]]\nafter = "1s-1n-4c-smt1"', PAIR),
        (f'{TEXTS}[[pair]]\nafter = "1s-1n-4c-smt1"\nchange = 1', PAIR),
        (f'{TEXTS}[[pair]]\nafter = "nothing"\nchange = "smt-off"', "which is not an entry"),
        (f'{TEXTS}[[pair]]\nafter = "1s-1n-4c-smt1"\nchange = "more"', "one of cpus-added, "),
    ],
)
def test_a_faulty_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    known = entries_module.entry_names()
    monkeypatch.setattr(entries_module, "CATALOGUE", tmp_path)
    monkeypatch.setattr(entries_module, "entry_names", lambda: known)
    (tmp_path / "faulty.toml").write_text(f"{text}\n")
    with pytest.raises(BrokenMachine, match=said):
        catalogue_entry.__wrapped__("faulty")


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_what_it_is_and_is_what_it_says(name: str) -> None:
    entry = catalogue_entry(name)
    found = machine(name)
    assert found.name == entry.name == name
    assert (found.shape, found.why, found.source) == (entry.shape, entry.why, entry.source)
    assert found.digest == entry.digest, f'the tree changed: digest = "{found.digest}"'
    if entry.shape:
        assert str(parse(entry.shape)) == entry.shape, "shapes are canonical"
    assert entry.why.endswith(".")
    assert len(entry.why) > 30
    if not (CATALOGUE / f"{name}.tar.xz").exists():
        assert entry.source.startswith("described ")
        assert entry.shape == name, "a described machine is called what it is"
        return
    assert entry.source.startswith("captured ")
    assert "Linux " in entry.source, "from which kernel"
    assert entry.shape in name
    assert entry.kernel.endswith(".")
    assert entry.kubelet.endswith(".")


def test_some_hardware_contradicts_itself_and_no_machine_of_ours() -> None:
    """As its kernel or its firmware shows it; nothing is mended."""
    assert {name for name in ENTRIES if topologies.lint(machine(name).tree)} == {
        "2s-2n-24c-smt1-off0-3,21-23-xeon-e5-2680v3",
        "2s-8n-8c-smt1-xeon-e5472-buggynuma",
        "4s-8n-64c-smt1-opteron6276",
    }


def test_a_spec_needs_no_entry() -> None:
    assert "3s-3n-9c-smt1" not in names()
    assert machine("3s-3n-9c-smt1").source == "described by its spec"
    assert dict(topologies.load("3s-3n-9c-smt1")) == dict(describe("3s-3n-9c-smt1").tree)


def test_find_takes_names_globs_all_specs_and_paths(tmp_path: Path) -> None:
    def found(given: str | Path) -> list[str]:
        return [one.name for one in find(given)]

    assert found("all") == names()
    assert found("1s-1n-4c-smt?") == ["1s-1n-4c-smt1", "1s-1n-4c-smt2"]
    for spec in ("1s-1n-4c-smt2-off7", "1s-1n-3c-smt1"):
        assert found(spec) == [spec]
    write(describe("1s-1n-1c-smt1").tree, tmp_path / "node7")
    assert found(tmp_path / "node7") == ["node7"]
    assert machine(tmp_path / "node7").shape == ""


def test_an_unknown_name_is_told_with_names_like_it_and_a_faulty_spec_with_its_fault() -> None:
    with pytest.raises(UnknownMachine) as raised:
        machine("2s-2n-16c-smt")
    assert "2s-2n-16c-smt2" in raised.value.near
    assert str(raised.value).startswith("there is no machine '2s-2n-16c-smt': did you mean ")
    with pytest.raises(UnknownMachine, match="`pinproof machines` lists them"):
        find("nothing-*")
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


def test_private_archives_and_trees_have_names(private: Path) -> None:
    """As all that ``--machine`` takes."""
    write(describe("1s-1n-2c-smt1").tree, private / "lab7")
    pack(describe("1s-1n-2c-smt1").tree, private / "node.9.tar.gz")
    (private / "notes.txt").write_text("not a machine")
    (private / "empty").mkdir()
    assert names()[-2:] == ["lab7", "node.9"]
    assert {"lab7", "node.9", "1s-1n-2c-smt1"} <= {found.name for found in find("all")}
    for given in ("lab7", "node.9", "l*7", private / "node.9.tar.gz", private / "lab7"):
        (found,) = find(given)
        assert found.digest == describe("1s-1n-2c-smt1").digest, given


def test_a_capture_in_a_private_folder_brings_what_was_said_of_it(private: Path) -> None:
    tree = describe("2s-2n-4c-smt2").tree
    made = Capture(tree=tree, source="captured here", shape="2s-2n-4c-smt2")
    write_capture(made, private / "lab8", why="It is in the lab.")
    found = machine("lab8")
    said = ("It is in the lab.", "captured here", "2s-2n-4c-smt2")
    assert (found.why, found.source, found.shape) == said
    assert found.digest == describe("2s-2n-4c-smt2").digest
    assert offline(found, [3]).shape == "2s-2n-4c-smt2-off3"
    (private / "lab8.toml").write_text("shape = 4\n")
    with pytest.raises(BrokenMachine, match=r"lab8\.toml: its keys are not"):
        machine("lab8")
    texts = 'why = "x"\nsource = "x"\ndigest = "x"\n'
    (private / "lab8.toml").write_text(f'shape = "2s-3n-4c-smt1"\n{texts}')
    with pytest.raises(BrokenMachine, match="its shape '2s-3n-4c-smt1' is not a valid description"):
        machine("lab8")


def test_private_machines_never_hide_the_catalogue(private: Path) -> None:
    write(describe("1s-1n-2c-smt1").tree, private / "1s-1n-4c-smt1")
    assert machine("1s-1n-4c-smt1").tree[f"{CPU}/online"] == "0-3\n"
    assert names().count("1s-1n-4c-smt1") == 1


def test_a_private_archive_named_like_a_spec_is_a_path(tmp_path: Path) -> None:
    write(describe("1s-1n-2c-smt1").tree, tmp_path / "tree")
    archive = shutil.make_archive(str(tmp_path / "2s-2n-8c-smt2-ours"), "tar", tmp_path / "tree")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        assert machine(Path(archive).name).name == "2s-2n-8c-smt2-ours"


def test_a_private_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINPROOF_MACHINES", "/nowhere/at/all")
    with pytest.raises(BrokenMachine, match=r"/nowhere/at/all: .*in PINPROOF_MACHINES"):
        names()


def test_every_kind_of_change_has_a_pair() -> None:
    assert {pair.change for pair in pairs()} == set(Change)
    incident = Pair("1s-1n-4c-smt1", "1s-1n-4c-smt2", Change.CPUS_ADDED)
    assert incident in pairs()
    online = [machine(name).tree[f"{CPU}/online"] for name in (incident.before, incident.after)]
    assert online == ["0-3\n", "0-7\n"]


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.before}->{pair.after}")
def test_a_pair_differs_as_it_says(pair: Pair) -> None:
    before, after = (discover(machine(name).tree) for name in (pair.before, pair.after))
    one, other = before.cpu_topology(), after.cpu_topology()
    if pair.change is Change.CPUS_ADDED:
        assert one.cpus < other.cpus
    elif pair.change is Change.CPUS_REMOVED:
        assert one.cpus > other.cpus
    elif pair.change is Change.SMT_OFF:
        assert one.cpus > other.cpus
        assert other.num_cores == other.num_cpus == one.num_cores
    elif pair.change is Change.NUMA_CHANGED:
        assert one.cpus == other.cpus
        assert one.core_masks == other.core_masks
        assert len(one.numa_masks) != len(other.numa_masks)
    else:
        assert len(one.cpus) == len(other.cpus)
        assert one.num_cores == other.num_cores
        assert one.details != other.details


def test_the_manuals_entry_is_one_and_its_python_runs(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs/reference/machines.md").read_text()
    example = tomllib.loads(manual.split("```toml\n")[1].split("```")[0])
    real = catalogue_entry(example["shape"])
    for key, said in example.items():
        assert key == "digest" or getattr(real, key) == said
    code = manual.split("```python\n")[1].split("```")[0].replace("/tmp/machine", f"{tmp_path}/m")
    exec(compile(code, "machines.md", "exec"), {})
    assert (tmp_path / "m/sys/devices/system/cpu/online").exists()


@pytest.mark.parametrize("name", ["node7", "web-office1", "a-off", "1s-1n-4c-smt2", "x-off2"])
def test_a_machine_with_cpus_offline_is_called_after_the_whole_one(name: str) -> None:
    tree = topologies.machine("1s-1n-4c-smt2").tree
    less = topologies.offline(topologies.Machine(name=name, tree=tree), [2, 3, 5])
    assert less.name == f"{name}-off2-3,5"
    assert topologies.whole(less.name) == name
