"""Trees of strangers that are made to take long: refused in a line, or read in a moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from topologies import BrokenMachine, Link, Tree, complete, describe, lint, load, without_cpus
from topologies.cpulist import format_list, ids
from topologies.paths import CPU, CPUINFO, NODE

WHOLE: Final = dict(describe("2s-2n-8c-smt2").tree)
SIBLINGS: Final = f"{CPU}/cpu0/topology/thread_siblings"
#: Seconds of the processor, for what took more than ten times as long.
CEILING: Final = 5


@contextmanager
def in_a_moment(moments: int = 1) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < moments * CEILING


def alternate(last: int) -> str:
    return ",".join(map(str, range(0, last, 2))) + "\n"


LONG: Final = {
    "a long mask": (SIBLINGS, "f" * 100_000),
    "a wide mask": (SIBLINGS, "f" * 2049),
    "a long list": (f"{SIBLINGS}_list", ",".join(["1"] * 100_000)),
    "a list of many CPUs": (f"{CPU}/present", alternate(1 << 16)),
    "a long range": (f"{CPU}/cpu0/cache/index3/shared_cpu_list", "0-8192\n"),
    "a wide map of a cache": (f"{CPU}/cpu0/cache/index3/shared_cpu_map", "5" * 2049),
    "a long map of a node": (f"{NODE}/node0/cpumap", "f" * 100_000),
    "many nodes": (f"{NODE}/online", "0-999999\n"),
}


def assert_refused(path: str, text: str) -> str:
    """It is the only finding, and nobody completes such a machine. Returns why."""
    tree = Tree({**WHOLE, path: text})
    (finding,) = lint(tree)
    assert finding.path == path
    with pytest.raises(BrokenMachine) as caught:
        complete(tree, where="they.tar.xz")
    assert str(caught.value) == f"they.tar.xz: not a machine: {path}: {finding.message}"
    return finding.message


@pytest.mark.parametrize("what", LONG)
def test_sets_longer_than_a_kernels_are_refused(what: str) -> None:
    said = assert_refused(*LONG[what])
    assert "longer than any" in said or "Linux stops at 8191" in said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{CPU}/cpu9999999/online", "it has a CPU 9999999; Linux stops at 8191"),
        (f"{NODE}/node0/cpu9999999", "it has a CPU 9999999; Linux stops at 8191"),
        (f"{NODE}/node1024/cpulist", "it has a NUMA node 1024; Linux stops at 1023"),
        (f"{CPU}/cpu0/node4096", "it has a NUMA node 4096; Linux stops at 1023"),
    ],
)
def test_a_number_that_no_kernel_gives_is_refused(path: str, said: str) -> None:
    assert assert_refused(path, "\n") == said


def test_the_longest_sets_that_a_kernel_writes_are_read() -> None:
    """Of 8192 CPUs, as kernels of old pad their masks with zeros."""
    mask = ",".join(["00000000"] * 255 + ["00000101"]) + "\n"
    assert lint(Tree({**WHOLE, SIBLINGS: mask})) == []
    assert lint(Tree({**WHOLE, f"{CPU}/possible": "0-8191\n"})) == []
    assert dict(complete({**WHOLE, SIBLINGS: mask}).tree) == {**WHOLE, SIBLINGS: mask}


@pytest.mark.parametrize(("path", "most"), [(f"{CPU}/online", "64 KiB"), (CPUINFO, "32 MiB")])
def test_a_file_that_is_larger_than_a_kernels_is_refused(
    tmp_path: Path, path: str, most: str
) -> None:
    """In a folder; :mod:`tests.topologies.test_machine_archive` has those of archives."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).touch()
    os.truncate(tmp_path / path, 5 << 30)
    said = f"{tmp_path.name}.*a file of more than {most}: {path}"
    with in_a_moment(), pytest.raises(BrokenMachine, match=said):
        load(tmp_path)


def many(sets: Callable[[int], str]) -> Tree:
    """2048 CPUs in 256 NUMA nodes, each CPU with sets of siblings of its own."""
    entries = {f"{CPU}/{name}": "0-2047\n" for name in ("online", "present", "possible")}
    for cpu in range(2048):
        folder = f"{CPU}/cpu{cpu}/topology"
        entries |= {f"{folder}/core_id": f"{cpu}\n", f"{folder}/physical_package_id": "0\n"}
        for name in ("thread_siblings", "core_siblings", "core_cpus", "package_cpus", "die_cpus"):
            entries[f"{folder}/{name}"] = sets(cpu)
        entries[f"{NODE}/node{cpu % 256}/cpu{cpu}"] = Link(f"../../cpu/cpu{cpu}")
    return Tree(entries)


TANGLED: Final = {
    "all in each": lambda cpu: f"{(1 << 2048) - 1:x}\n",
    "all but another in each": lambda cpu: f"{(1 << 2048) - 1 ^ 1 << (cpu + 9) % 2048:x}\n",
    "every other CPU": lambda cpu: f"{'5' if cpu % 2 == 0 else 'a'}" * 512 + "\n",
}


@pytest.mark.parametrize("what", TANGLED)
def test_thousands_of_tangled_sets_are_read_in_a_moment(what: str) -> None:
    tree = many(TANGLED[what])
    with in_a_moment():
        findings = lint(tree)
    assert findings
    assert max(len(finding.message) for finding in findings) < 1000
    bare = {path: text for path, text in tree.items() if not path.endswith("_id")}
    with in_a_moment(2):
        complete(bare)
        without_cpus(tree, [0])


@pytest.mark.parametrize(
    "text",
    [
        "processor : 1\n" + " " * 3_000_000,
        "processor" + " " * 3_000_000,
        "a" * 3_000_000,
        "a " * 1_500_000,
        "serial number " * 200_000,
        "processor : 1\n" + "\t" * 3_000_000 + ":",
        ("\n" + " " * 1000) * 3000,
    ],
)  # fmt: skip
def test_a_strange_cpuinfo_is_read_in_a_moment(text: str) -> None:
    tree = Tree({**WHOLE, "proc/cpuinfo": text})
    with in_a_moment():
        lint(tree)
        complete(tree)
        without_cpus(tree, [0])


def test_a_list_takes_time_by_its_length() -> None:
    """Half a million members: quadratic time would be minutes."""
    mask = int("5" * 250_000, 16)
    with in_a_moment():
        assert sum(1 for _ in ids(mask)) == 500_000
        assert format_list(mask).count(",") == 499_999
        assert format_list(mask, most=3) == "0,2,4,…"
