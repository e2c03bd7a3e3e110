"""``--node``: the archive of a node stands for all of the node, or is refused in one line."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from conformance.kubelets.configuration import KIND
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from reference import Checkpoint, CPUSet
from reference.steps import Kind
from tests.cli.running import Done, here, lines
from tests.support.node_archives import write_archive

MACHINE: Final = "2s-2n-8c-smt2"
SETTINGS: Final = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
PODS: Final = (
    guaranteed("db", 4),
    guaranteed_of("queue", [exclusive("prepare", 2, kind=Kind.INIT), exclusive("c", 2)]),
    burstable("log", request="100m"),
)
#: With a gap that an allocation from the start would not leave.
HELD: Final = {"db": {"c": "2-3,10-11"}, "queue": {"prepare": "5,13", "c": "5,13"}}
FREE: Final = "0-1,4,6-9,12,14-15"

Write: TypeAlias = Callable[..., None]


def _state(held: Mapping[str, Mapping[str, str]] = HELD, **more: Any) -> str:
    uids = {pod.name: pod.uid for pod in PODS}
    entries = {
        uids.get(name, name): {one: CPUSet.parse(cpus) for one, cpus in sets.items()}
        for name, sets in held.items()
    }
    given = {"policy_name": "static", "default_cpuset": CPUSet.parse(FREE), "entries": entries}
    return Checkpoint(**{**given, **more}).dumps(release="1.36")


def _compressed(data: bytes) -> bytes:
    """In a tenth of the time that ``pinproof capture`` takes for a small file."""
    return lzma.compress(data, preset=0)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes ``node7.tar.xz``, with what differs from a node that fits together."""

    def write(**more: Any) -> None:
        usual = {"machine": MACHINE, "settings": SETTINGS, "state": _state(), "pods": PODS}
        plain = tmp_path / "node7.tar"
        write_archive(plain, **{**usual, **more})
        (tmp_path / "node7.tar.xz").write_bytes(_compressed(plain.read_bytes()))
        plain.unlink()

    return write


def _upgraded(folder: Path, *words: str, old: str = "1.36", status: int = 0) -> Done:
    model = ("--model", "--node", "node7.tar.xz")
    return here("upgrade", old, "1.37", *model, *words, cwd=folder, status=status)


def _facts(folder: Path, *words: str, old: str = "1.36", status: int = 0) -> Any:
    return json.loads(_upgraded(folder, *words, "--json", old=old, status=status).stdout)


def test_a_node_is_rehearsed_with_all_that_it_has(write: Write, tmp_path: Path) -> None:
    write()
    facts = _facts(tmp_path)
    assert facts["machine"] == "node7"
    assert facts["settings"] == "policy static, reservedSystemCPUs 0,8"
    assert (facts["verdict"], facts["pinned"], facts["notes"]) == ("pass", 3, [])
    assert facts["unlike the state file"] == []
    first, *later = facts["stages"]
    assert first["exclusive"] == HELD
    assert first["pods"] == {pod.name: "running" for pod in PODS}
    assert first["files"]["cpu_manager_state"]["left"] == _state()
    for stage in later:
        assert stage["exclusive"].items() >= HELD.items()


def test_simulate_shows_the_node_as_it_is(write: Write, tmp_path: Path) -> None:
    write()
    done = here("simulate", "--node", "node7.tar.xz", "--json", cwd=tmp_path, status=0)
    facts = json.loads(done.stdout)
    assert {name: pod["exclusive"] for name, pod in facts["pods"].items()} == {**HELD, "log": {}}


ELSEWHERE: Final = "miniature:allocates-again"


def test_a_kubelet_that_begins_from_something_else_is_no_verdict(
    write: Write, tmp_path: Path
) -> None:
    """The rehearsal goes on; each container that is not as in the file is told."""
    free = CPUSet.parse("0-1,4-9,12-15")
    write(pods=PODS[::2], state=_state({"db": HELD["db"]}, default_cpuset=free))
    done = _upgraded(tmp_path, old=ELSEWHERE, status=3)
    said = lines(done)
    at = said.index(f"{ELSEWHERE} does not show what the state file says:")
    assert said[at + 1 :] == [
        *("exclusive CPUs db/c", "expected 2-3,10-11", "seen 1-2,9-10"),
        *("missing 3,11", "unexpected 1,9"),
        *("shared pool", "expected 0-1,4-9,12-15", "seen 0,3-8,11-15"),
        *("missing 1,9", "unexpected 3,11"),
    ]
    assert done.stderr.splitlines()[-1] == (
        f"pinproof: upgrade: no verdict: {ELSEWHERE} began from something else than the state file"
    )
    facts = _facts(tmp_path, old=ELSEWHERE, status=3)
    assert facts["verdict"] == "unknown"
    first = {"what": "exclusive CPUs db/c", "expected": "2-3,10-11", "seen": "1-2,9-10"}
    assert facts["unlike the state file"][0] == first


def test_a_promise_that_is_broken_then_is_broken_all_the_same(write: Write, tmp_path: Path) -> None:
    write()
    done = _upgraded(tmp_path, old=ELSEWHERE, status=1)
    assert "does not show what the state file says:" in done.stdout
    assert "the way back breaks a promise" in done.stdout


def test_another_release_than_the_nodes_is_noted(write: Write, tmp_path: Path) -> None:
    write(release="1.35")
    assert "note: the kubelet of the node is 1.35, and FROM is 1.36" in _upgraded(tmp_path).stdout
    assert "the kubelet of the node" not in _upgraded(tmp_path, old="1.35").stdout
    write(release="1.99")  # which the models do not know
    assert "note: the kubelet of the node is 1.99, and FROM is 1.36" in _upgraded(tmp_path).stdout
    write(release="soon")
    assert "the kubelet of the node" not in _upgraded(tmp_path).stdout


def test_a_pod_that_waits_for_cpus_comes_after_those_that_run(write: Write, tmp_path: Path) -> None:
    write(pods=(guaranteed("aaa", 2), *PODS))
    assert _facts(tmp_path)["stages"][0]["exclusive"] == {"aaa": {"c": "1,9"}, **HELD}


def test_static_pods_get_another_uid_from_another_release(write: Write, tmp_path: Path) -> None:
    """Unless their manifest has one; so a kubelet takes them for new ones, while the old ones hold
    their CPUs."""
    write(static=["db"])
    said = lines(_upgraded(tmp_path, status=1))
    assert (
        "note: each release makes another uid for static pods that have none in their manifest, "
        "and takes them for new ones: db"
    ) in said
    assert {line for line in said if line.startswith("container ")} == {"container db/c"}
    facts = _facts(tmp_path, status=1)
    held = [stage["exclusive"].get("db") for stage in facts["stages"]]
    assert held[0] == HELD["db"]
    assert held[1] != HELD["db"]
    assert all(stage["exclusive"]["queue"] == HELD["queue"] for stage in facts["stages"])
    same = _upgraded(tmp_path, "--by", "stop", old="1.37")
    assert "another uid" not in same.stdout
    drained = _facts(tmp_path, "--by", "drain")
    assert {stage["pods"]["db"] for stage in drained["stages"]} == {"running"}


_RESOURCES: Final = {
    "limits": {"cpu": "2", "vendor.example/nic": "1"},
    "requests": {"cpu": "2", "memory": "1Gi"},
}
_ENTRIES: Final = {"entries": {"uid-1": {"ContainerResources": {"c": _RESOURCES}}}}
ALLOCATED: Final = json.dumps({"data": json.dumps(_ENTRIES), "checksum": 1})


def test_files_of_what_a_sandbox_has_not_are_left_out_with_a_note(
    write: Write, tmp_path: Path
) -> None:
    """A kubelet would refuse a pod that was allocated a device which is not there."""
    manager = {"memoryManagerPolicy": "Static"}
    rows = [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}]
    files = {"allocated_pods_state": ALLOCATED, "memory_manager_state": "{}"}
    write(settings={**SETTINGS, **manager, "reservedMemory": rows}, files=files)
    text = _upgraded(tmp_path).stdout
    assert "note: allocated_pods_state is left out, because it names vendor.example/nic\n" in text
    assert "\nnote: the memory manager and memory_manager_state" in text


def test_another_configuration_has_its_own_memory_manager(write: Write, tmp_path: Path) -> None:
    rows: list[Any] = [{"numaNode": node, "limits": {"memory": "64Mi"}} for node in (0, 1)]
    memory = {"memoryManagerPolicy": "Static", "reservedMemory": rows}
    free = CPUSet.parse("0-1,4-9,12-15")
    state = _state({"db": HELD["db"]}, default_cpuset=free)
    write(settings={**SETTINGS, **memory}, pods=PODS[::2], state=state)
    changed = {**KIND, **SETTINGS, **memory, "topologyManagerPolicy": "restricted"}
    (tmp_path / "new.yaml").write_text(json.dumps(changed))
    words = ("--to-config", "new.yaml")
    settings = [stage["settings"] for stage in _facts(tmp_path, *words)["stages"]]
    assert ["memory manager Static" in one for one in settings] == [True] * 3
    assert ["restricted" in one for one in settings] == [False, True, False]
    rows[0]["limits"]["hugepages-2Mi"] = "4Mi"
    (tmp_path / "new.yaml").write_text(json.dumps(changed))
    done = _upgraded(tmp_path, *words, status=2)
    assert (
        done.stderr == "pinproof: new.yaml: reservedMemory must have one entry for each NUMA node, "
        "with memory only\n"
    )


TORN: Final = _state()[:-9]
SMALLER: Final = {"machine": "1s-1n-4c-smt2", "settings": {**SETTINGS, "reservedSystemCPUs": "0,4"}}


@pytest.mark.parametrize("command", ["upgrade 1.36 1.37 --model", "simulate"])
@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (SMALLER, 'current set of available CPUs "0-7" doesn\'t match'),
        ({"state": _state(policy_name="none", entries={})}, 'configured policy "static" differs'),
        ({"settings": {"cpuManagerPolicy": "none"}}, 'configured policy "none" differs'),
        ({"settings": {**SETTINGS, "reservedSystemCPUs": "2"}}, 'not all reserved cpus: "2"'),
        ({"settings": {"cpuManagerPolicy": 7}}, "cpuManagerPolicy: not a string"),
        ({"settings": {"kind": "Pod"}}, "kind Pod: it must be a KubeletConfiguration"),
        ({"state": TORN}, "unexpected end of JSON input"),
        ({"state": _state({**HELD, "uid-9": {"c": "7"}}, default_cpuset=CPUSet.parse(
            "0-1,4,6,8-9,12,14-15"))}, "no manifest in the archive: uid-9"),
        ({"pods": ()}, "have no manifest in the archive"),
        ({"pods": [guaranteed("db", 4)] * 2}, "two pods are called default/db"),
        ({"state": None}, "node7.tar.xz: it has no state file of a kubelet"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_together_are_one_line(
    write: Write, tmp_path: Path, archive: Mapping[str, Any], said: str, command: str
) -> None:
    write(**archive)
    _assert_one_line(tmp_path, command, said)


def _assert_one_line(folder: Path, command: str, said: str) -> None:
    before = {one: one.read_bytes() for one in folder.iterdir()}
    done = here(*command.split(), "--node", "node7.tar.xz", cwd=folder, status=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("pinproof: ")
    assert said in line
    assert line.isprintable()
    assert done.stdout == ""
    assert {one: one.read_bytes() for one in folder.iterdir()} == before


def _rewrite_settings(place: Path, name: str, *, linked: str = "", size: int = 2) -> None:
    """The same archive, with its configuration in another form."""
    plain = io.BytesIO()
    with tarfile.open(place) as found, tarfile.open(fileobj=plain, mode="w") as made:
        for one in found:
            data = found.extractfile(one) if one.isfile() else None
            if one.name.endswith("/kubelet.json"):
                one.name, one.size, data = name, size, io.BytesIO(b"{}".ljust(size))
                if linked:
                    one.type, one.linkname, one.size = tarfile.SYMTYPE, linked, 0
            made.addfile(one, data)
    place.write_bytes(_compressed(plain.getvalue()))


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("node7/pinproof/kubelet.json", {"linked": "/etc/passwd"}, "no configuration"),
        ("node7/pinproof/kubelet.json", {"linked": "../../x"}, "no configuration"),
        ("node7/pinproof/../../kubelet.json", {}, "a path with `..`"),
        ("/pinproof/kubelet.json", {}, "an absolute path"),
        ("node7/pinproof/kubelet.json", {"size": 40 << 20}, "expands to more"),
        ("node7/pinproof/kubelet.json", {"size": 9 << 20}, "no kind"),
    ],
)
def test_a_hostile_archive_is_one_line(
    write: Write, tmp_path: Path, name: str, more: Mapping[str, Any], said: str
) -> None:
    write()
    _rewrite_settings(tmp_path / "node7.tar.xz", name, **more)
    _assert_one_line(tmp_path, "upgrade 1.36 1.37 --model", said)


def test_an_archive_that_is_cut_off_is_one_line(write: Write, tmp_path: Path) -> None:
    write()
    whole = (tmp_path / "node7.tar.xz").read_bytes()
    for size in (40, len(whole) // 2, len(whole) - 4):
        (tmp_path / "node7.tar.xz").write_bytes(whole[:size])
        _assert_one_line(tmp_path, "upgrade 1.36 1.37 --model", "node7.tar.xz")


@pytest.mark.parametrize(
    "words",
    [
        "--machine 1s-1n-4c-smt2", "--pods 2", "--state s", "--config c", "--reserved 0",
        "--policy none", "--policy-option full-pcpus-only=true", "--feature-gate A=true",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["upgrade 1.36 1.37 --model", "simulate"])
def test_what_the_node_has_is_not_given_beside_it(
    write: Write, tmp_path: Path, words: str, command: str
) -> None:
    """The archive as --machine is what options override."""
    write()
    _assert_one_line(tmp_path, f"{command} {words}", f"leave out {words.split()[0]};")
