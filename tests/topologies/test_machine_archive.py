"""Archives and folders: read whole, or refused in one line with nothing written."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import topologies
from tests.topologies.conftest import Member, members_of, tar
from topologies import BrokenMachine, Link, Tree, UnknownMachine, describe, load, read_tree
from topologies import archive as archive_module

CAPTURES = Path(__file__).parents[1] / "golden" / "captures"
ONLINE = "sys/devices/system/cpu/online"
Read = Callable[[bytes], Tree]
Pack = Callable[[bytes], bytes]


def file(name: str, content: bytes = b"0-3\n") -> Member:
    return name, content, tarfile.REGTYPE


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(data: bytes) -> Tree:
        path = tmp_path / "machine.tar"
        path.write_bytes(data)
        before = sorted(tmp_path.rglob("*"))
        try:
            return read_tree(path)
        finally:
            assert sorted(tmp_path.rglob("*")) == before, "reading writes nothing"

    return reader


@pytest.mark.parametrize(
    ("pack", "prefix"),
    [(bytes, ""), (gzip.compress, "./"), (bz2.compress, "node7/"), (lzma.compress, "a/b/")],
)
def test_a_tree_comes_back_from_every_kind_of_archive(read: Read, pack: Pack, prefix: str) -> None:
    tree = describe("2s-2n-4c-smt2-off3").tree
    found = read(pack(tar(*members_of(tree, prefix))))
    assert dict(found) == dict(tree)
    assert {path for path in found if isinstance(found[path], Link)} == {
        path for path in tree if isinstance(tree[path], Link)
    }


@pytest.mark.parametrize("fmt", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_very_long_names_and_targets(read: Read, fmt: int) -> None:
    name = "sys/devices/system/cpu/" + "x" * 300
    target = "y" * 300
    data = tar(file(name), ("sys/devices/system/cpu/link", target, tarfile.SYMTYPE), fmt=fmt)
    assert dict(read(data)) == {name: "0-3\n", "sys/devices/system/cpu/link": target}


def test_irrelevant_members_are_passed_over(read: Read) -> None:
    data = tar(
        file("x/README", b"r" * 3000),
        file("x/sys/devices/pci/secret"),
        file("x/proc/meminfo"),
        ("x/sys/class/net/eth0", "../../devices/eth0", tarfile.SYMTYPE),
        ("x/dev/null", b"", tarfile.CHRTYPE),
        file("x/sys/devices/system/cpu/online"),
        file("x/proc/cpuinfo", b"processor : 0\n"),
    )
    assert dict(read(data)) == {ONLINE: "0-3\n", "proc/cpuinfo": "processor : 0\n"}


def test_hard_links_are_the_file_they_name(read: Read) -> None:
    other = "sys/devices/system/cpu/possible"
    linked = f"m/{other}", f"m/{ONLINE}", tarfile.LNKTYPE
    assert read(tar(file(f"m/{ONLINE}"), linked))[other] == "0-3\n"


def test_bytes_that_are_no_text_survive(read: Read) -> None:
    tree = read(tar(file(ONLINE, b"0-3\n\x00\xff")))
    assert tree[ONLINE].encode("utf-8", "surrogateescape") == b"0-3\n\x00\xff"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([file("/sys/devices/system/cpu/online")], "an absolute path"),
        ([file("sys/devices/system/cpu/../../../../../etc/passwd")], "a path with `..`"),
        ([file("../x")], "a path with `..`"),
        ([("sys/devices/system/cpu/l", "/etc/passwd", tarfile.SYMTYPE)], "a link out of the tree"),
        ([("sys/devices/system/cpu/l", "../../../../../x", tarfile.SYMTYPE)], "out of the tree"),
        ([("sys/devices/system/cpu/l", "a/../../x", tarfile.SYMTYPE)], "a link out of the tree"),
        ([("sys/devices/system/cpu/l", b"", tarfile.CHRTYPE)], "neither file, folder nor link"),
        ([("sys/devices/system/cpu/l", b"", tarfile.FIFOTYPE)], "neither file, folder nor link"),
        ([("proc/cpuinfo", b"", tarfile.BLKTYPE)], "neither file, folder nor link"),
        ([("proc/cpuinfo", "etc/passwd", tarfile.LNKTYPE)], "a hard link to what it does not"),
        ([("proc/cpuinfo", ONLINE, tarfile.LNKTYPE)], "a hard link to what it does not hold"),
        ([file(f"a/{ONLINE}"), file(f"b/{ONLINE}")], "more than one machine: a and b"),
        ([file(ONLINE), file(f"b/{ONLINE}")], "more than one machine: . and b"),
        ([file(ONLINE), file(f"{ONLINE}/below")], f"{ONLINE} is a file and a folder"),
        (
            [
                ("sys/devices/system/cpu/cpu0", "../node", tarfile.SYMTYPE),
                file("sys/devices/system/cpu/cpu0/online"),
            ],
            "cpu0 is a link and a folder",
        ),
        ([("proc/cpuinfo", "/\x1b[2J\n", tarfile.SYMTYPE)], "\\x1b[2J\\x0a"),
    ],
)
def test_hostile_archives_are_refused_in_a_line(
    read: Read, members: list[Member], reason: str
) -> None:
    """A name that would clear the screen is shown harmless."""
    with pytest.raises(BrokenMachine) as raised:
        read(tar(*members))
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_nul_in_a_pax_name_is_refused(read: Read) -> None:
    data = bytearray(tar(file("sys/devices/system/cpu/" + "n" * 200), fmt=tarfile.PAX_FORMAT))
    at = data.index(b"n" * 200)
    data[at : at + 1] = b"\0"
    with pytest.raises(BrokenMachine, match="NUL"):
        read(bytes(data))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_an_archive_torn_anywhere_is_refused(read: Read, pack: Pack) -> None:
    data = pack(tar(*members_of(describe("1s-1n-2c-smt1").tree)))
    end = len(data) if pack is not bytes else data.rindex(b"\n") // 512 * 512 + 512
    for cut in random.Random(4).sample(range(1, end), 25):
        with pytest.raises(BrokenMachine, match=r"cut off|not a tar archive"):
            read(data[:cut])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_damaged_byte_is_noticed_or_harmless(read: Read, pack: Pack) -> None:
    tree = describe("1s-1n-2c-smt1").tree
    data = pack(tar(*members_of(tree)))
    choose = random.Random(5)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        try:
            found = read(bytes(damaged))
        except BrokenMachine:
            continue
        assert dict(found) == dict(tree)


NO_ARCHIVES = {
    "empty": b"",
    "text": b"hello",
    "noise": random.Random(6).randbytes(4096),
    "zip": b"PK\x03\x04" + bytes(600),
    "gz": b"\x1f\x8b",
    "bz2": b"BZh9",
    "xz": b"\xfd7zXZ\0",
}


@pytest.mark.parametrize("data", NO_ARCHIVES.values(), ids=NO_ARCHIVES)
def test_what_is_no_archive_is_said_to_be_none(read: Read, data: bytes) -> None:
    with pytest.raises(BrokenMachine, match=r"not a tar archive|cut off or damaged"):
        read(data)


def test_noise_between_members_is_damage(read: Read) -> None:
    with pytest.raises(BrokenMachine, match="checksum"):
        read(tar(file(ONLINE))[:1024] + b"\1" * 512)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_defused(read: Read, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_EXPANDED", 4 << 20)
    bomb = pack(tar(*[file("filler", bytes(1 << 20))] * 8, file(ONLINE)))
    with pytest.raises(BrokenMachine, match="more than any machine's tree"):
        read(bomb)


def test_the_ratio_is_bounded_before_the_size(read: Read) -> None:
    bomb = bz2.compress(tar(file("filler", bytes(24 << 20)), file(ONLINE)))
    assert len(bomb) * archive_module.MAX_RATIO < 24 << 20
    with pytest.raises(BrokenMachine, match="more than any machine's tree"):
        read(bomb)


def test_a_file_a_tree_and_a_count_are_bounded(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, most, said in (ONLINE, 64 << 10, "64 KiB"), ("proc/cpuinfo", 32 << 20, "32 MiB"):
        with pytest.raises(BrokenMachine, match=f"tar.*a file of more than {said}: {path}"):
            read(tar(file(path, b"0" * (most + 1))))
    data = tar(file(ONLINE, b"0" * 3000), file("proc/cpuinfo", b"1" * 3000))
    monkeypatch.setattr(archive_module, "MAX_TREE_BYTES", 4000)
    with pytest.raises(BrokenMachine, match="more than any machine's tree"):
        read(data)
    monkeypatch.setattr(archive_module, "MAX_FILES", 0)
    with pytest.raises(BrokenMachine, match="more than 0 members"):
        read(data)


def test_a_header_that_lies_of_its_size_reads_nothing_of_it(read: Read) -> None:
    data = bytearray(tar(file(ONLINE)))
    for size in (b"77777777777\0", b"\x80" + b"\xff" * 11, b"-0000000001\0"):
        data[124:136] = size
        data[148:156] = b"        "
        data[148:156] = b"%06o\0 " % sum(data[:512])
        with pytest.raises(BrokenMachine, match=r"impossible size|more than|cut off"):
            read(bytes(data))


def test_a_machine_has_online_cpus(tmp_path: Path) -> None:
    path = tmp_path / "odd.tar"
    path.write_bytes(tar(file("x/proc/cpuinfo")))
    with pytest.raises(BrokenMachine, match="there is no sys/devices/system/cpu/online"):
        load(path)
    assert dict(load(path, check=False)) == {"proc/cpuinfo": "0-3\n"}


def test_what_is_not_there_is_unknown_and_a_fifo_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "machine.tar")
    with pytest.raises(BrokenMachine, match="neither an archive nor a folder"):
        read_tree(tmp_path / "machine.tar")
    with pytest.raises(UnknownMachine):
        read_tree(tmp_path / "nothing.tar")
    with pytest.raises(UnknownMachine):
        load(str(tmp_path / "nothing.tar"))


def test_folders_with_cycles_fifos_and_unreadable_files(tmp_path: Path) -> None:
    cpu = tmp_path / "sys/devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0\n")
    (cpu / "self").symlink_to("../cpu")
    os.mkfifo(cpu / "fifo")
    (cpu / "secret").write_text("x")
    (cpu / "secret").chmod(0)
    tree = read_tree(tmp_path)
    readable = {"secret"} if os.access(cpu / "secret", os.R_OK) else set()
    assert {path.rpartition("/")[2] for path in tree} == {"online", "self"} | readable
    assert tree["sys/devices/system/cpu/self"] == Link("../cpu")


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files and folders that may not be opened, by root either."""
    names: set[str] = set()

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def guard(path: Any, *rest: Any, **more: Any) -> Any:
            if not isinstance(path, int) and Path(path).name in names:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *rest, **more)

        return guard

    monkeypatch.setattr(os, "open", guarded(os.open))
    monkeypatch.setattr(os, "scandir", guarded(os.scandir))
    return names


def test_what_may_not_be_read_is_told(tmp_path: Path, forbidden: set[str]) -> None:
    topologies.write(describe("1s-1n-2c-smt1").tree, tmp_path / "machine")
    forbidden |= {"possible", "cache"}
    left_out: list[str] = []
    tree = read_tree(tmp_path / "machine", left_out=left_out)
    assert left_out == [
        "sys/devices/system/cpu/cpu0/cache",
        "sys/devices/system/cpu/cpu1/cache",
        "sys/devices/system/cpu/possible",
        "sys/devices/system/node/possible",
    ]
    assert ONLINE in tree
    assert not any(path.startswith(tuple(left_out)) for path in tree)
    forbidden.clear()
    assert len(read_tree(tmp_path / "machine", left_out=left_out)) > len(tree)
    assert len(left_out) == 4, "nothing more"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"online"}, "no permission to read sys/devices/system/cpu/cpu1/online and 2 more"),
        ({"cpu"}, "no permission to read sys/devices/system/cpu"),
    ],
)
def test_a_machine_that_may_not_be_read_is_told_so(
    tmp_path: Path, forbidden: set[str], names: set[str], said: str
) -> None:
    topologies.write(describe("1s-1n-2c-smt1").tree, tmp_path / "machine")
    forbidden |= names
    with pytest.raises(BrokenMachine, match=f"that can be read: {said}"):
        load(tmp_path / "machine")


def test_an_archive_that_may_not_be_read_is_told_so(tmp_path: Path, forbidden: set[str]) -> None:
    topologies.pack(describe("1s-1n-2c-smt1").tree, tmp_path / "machine.tar")
    forbidden.add("machine.tar")
    with pytest.raises(BrokenMachine, match=r"machine\.tar: Permission denied"):
        load(tmp_path / "machine.tar")


@pytest.mark.parametrize("path", ["sys/devices/system/cpu/l", "proc/cpuinfo"])
def test_a_folder_with_a_link_out_of_it_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).symlink_to("/etc/passwd")
    with pytest.raises(BrokenMachine, match=f"a link out of the tree: {path} -> /etc/passwd"):
        read_tree(tmp_path)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.tar.xz")), ids=lambda path: path.name)
def test_captures_of_real_machines_load_as_tarfile_reads_them(path: Path) -> None:
    tree = load(path)
    count = 0
    with tarfile.open(path) as reference:
        for member in reference:
            inside = member.name.partition("/")[2]
            if member.isfile() or member.issym():
                count += "/sys/devices/system/" in member.name
            if member.issym() and inside in tree:
                assert tree[inside] == Link(member.linkname)
            elif member.isfile() and inside in tree:
                stream = reference.extractfile(member)
                assert stream is not None
                assert tree[inside].encode("utf-8", "surrogateescape") == stream.read()
    assert len(tree) >= count > 100


def test_a_packed_machine_is_small_and_unpacked_in_little_memory(tmp_path: Path) -> None:
    """A second reader finds names below one folder, links as links, nobody's owner, no date."""
    tree = describe("2s-4n-64c-smt2").tree
    place = tmp_path / "m.tar.xz"
    topologies.pack(tree, place)
    assert dict(read_tree(place)) == dict(tree)
    assert place.stat().st_size < sum(map(len, tree.values())) / 5
    assert lzma.decompress(place.read_bytes(), memlimit=4 << 20)  # preset 6 needs more than 8
    with tarfile.open(place) as archive:
        members = archive.getmembers()
    assert {member.name.partition("/")[0] for member in members} == {"m"}
    assert {(member.mtime, member.uid, member.gid) for member in members} == {(0, 0, 0)}
    assert any(member.issym() for member in members)
