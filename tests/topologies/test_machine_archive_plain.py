"""The short way through an archive comes to what the long way comes to."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from tests.topologies.conftest import Member, members_of, tar
from topologies import archive, plain
from topologies.archive import BrokenArchive, read_archive
from topologies.paths import CPU, NODE


@contextmanager
def the_long_way() -> Iterator[None]:
    """No member is plain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            plain.PlainMembers, "take", lambda _self, _buffer, at, _prefix, _most: (at, 0, 0)
        )
        yield


def outcome(data: bytes) -> object:
    """The tree with the kinds of its entries, or why there is none."""
    try:
        return [(path, type(text), text) for path, text in sorted(read_archive(data).items())]
    except BrokenArchive as error:
        said = str(error)
    assert "\n" not in said
    return said


def assert_same(data: bytes) -> object:
    with the_long_way():
        expected = outcome(data)
    assert outcome(data) == expected
    return expected


FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
START = [(f"m/{CPU}/online", "0-3\n", FILE), (f"m/{CPU}/present", "0-3\n", FILE)]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("length", [97, 98, 99, 100, 101, 140])
def test_a_name_may_take_its_whole_field(length: int, form: int) -> None:
    stem = f"m/{CPU}/cpu0/"
    name = stem + "a" * 40 + "/" + "x" * (length - len(stem) - 41)
    seen = assert_same(tar(*START, (name, "1\n", FILE), (name + "y", "2\n", FILE), fmt=form))
    assert len(name) == length
    assert isinstance(seen, list)
    assert (name.removeprefix("m/"), str, "1\n") in seen


@pytest.mark.parametrize(
    "odd",
    [
        (f"m/{CPU}/same", f"m/{CPU}/online", HARD),
        (f"m/{CPU}/pipe", "", tarfile.FIFOTYPE),
        (f"m/{CPU}/large", "x" * 4095, FILE),
        (f"m/{CPU}/large", "x" * 4097, FILE),
        (f"m/{CPU}/block", "x" * 512, FILE),
        (f"m/{CPU}/dots...", "1", FILE),
        (f"m/{CPU}/cpu0\0junk/online", "1", FILE),
        (f"m/{CPU}/cpu0/online\0junk/online", "1", FILE),
        (f"m/{CPU}/cpu0\0junk/below", "", FOLDER),
    ],
)
def test_what_is_odd_is_treated_alike(odd: Member) -> None:
    """Beside what ``MEMBERS`` draws."""
    after = [(f"m/{CPU}/kernel_max", "7\n", FILE), (f"m/{CPU}/cpu9/online", "1\n", FILE)]
    assert_same(tar(*START, odd, *after))


DESCRIBED = tar(
    *((f"m/{path}", text, FILE) for path, text in sorted(topologies.load("1s-1n-4c-smt2").items()))
)


EACH_KIND = [
    (f"m/{CPU}/cpu0/topology", "", FOLDER),
    (f"m/{CPU}/cpu0/topology/core_id", "0\n", FILE),
    (f"m/{CPU}/cpu0/node0", "../../../node/node0", LINK),
    (f"m/{CPU}/cpu0/online", "1\n", FILE),
]


@pytest.mark.parametrize("kind", [FOLDER, FILE, LINK])
def test_no_byte_of_a_header_may_be_damaged(kind: bytes) -> None:
    data = bytearray(tar(*START, *EACH_KIND))
    header = next(
        at for at in range(2048, len(data), 512) if data[at] and data[at + 156] == ord(kind)
    )
    for at in range(header, header + 512):
        data[at] += 1
        assert assert_same(bytes(data)) == "damaged: a member's checksum is wrong", at - header
        data[at] -= 1
    fields = (0, 100, 107, 124, 130, 136, 148, 155, 156, 257, 345, 500)
    for at, byte in product(fields, (0, 32, 49, 56, 255)):
        damaged = bytearray(data)
        damaged[header + at] = byte
        assert_same(bytes(damaged))


@pytest.mark.parametrize("up", [20, 100, 110, 124, 140, 260, 330])
@pytest.mark.parametrize("down", [21, 105, 141, 258, 329, 335])
def test_damage_that_adds_up_is_treated_alike(up: int, down: int) -> None:
    data = bytearray(tar(*START, *EACH_KIND))
    for header in (2048, 2560, 3584, 4096):
        data[header + up] = (data[header + up] + 1) & 0xFF
        data[header + down] = (data[header + down] - 1) & 0xFF
    assert_same(bytes(data))


@pytest.mark.parametrize("cut", [513, 1024, 1500, 2048, 2049, 20_000])
def test_a_torn_archive_is_treated_alike(cut: int) -> None:
    assert "cut off" in str(assert_same(DESCRIBED[:cut]))


PARTS = st.sampled_from(["cpu0", "cpu1", "online", ".", "..", "", "topology", "a b", "é", "x" * 60])
NAMES = st.builds(
    lambda prefix, root, parts: "/".join([*prefix, root, *parts]),
    st.sampled_from([["m"], ["m"], ["m"], ["."], [], ["m", "."], ["n"]]),
    st.sampled_from([CPU, CPU, NODE, "proc", "sys/devices/system"]),
    st.lists(PARTS, min_size=1, max_size=4),
)
MEMBERS = st.lists(
    st.tuples(
        NAMES.filter(lambda name: bool(name.strip("/"))),
        st.sampled_from(["", "1\n", "0-3\n", "x" * 700, "../cpu0"]),
        st.sampled_from([FILE, FILE, FILE, FILE, FOLDER, LINK]),
    ),
    max_size=12,
)


@given(MEMBERS, st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_any_members_are_treated_alike(members: list[Member], form: int) -> None:
    assert_same(tar(*START, *members, fmt=form))


@given(st.data())
def test_any_damage_is_treated_alike(data: st.DataObject) -> None:
    damaged = bytearray(DESCRIBED[: 60 * 512])
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert_same(bytes(damaged))


@pytest.mark.parametrize(
    "links",
    [
        [("cpu0/node0", "../../node/node0"), ("cpu1/node0", "../../node/node0")],
        [("cpu0/a/b/c/d/far", "../../../../../../../.."), ("far", "../../../../../../../..")],
        [("cpu0/a", "../../../../.."), ("cpu1/deeper/a", "../../../../..")],
        [("cpu0/a", "x/../y"), ("cpu1/a", "x/../y")],
        [("cpu0/a", ""), ("cpu0/b", "/")],
        [("cpu0/a", "x" * 100), ("cpu0/b", "x" * 99)],
    ],
)
def test_a_target_is_judged_at_every_place(links: list[tuple[str, str]]) -> None:
    assert_same(tar(*START, *((f"m/{CPU}/{path}", to, LINK) for path, to in links)))


@pytest.mark.parametrize("piece", [1, 511, 512, 513, 1024, 5000])
def test_members_may_lie_across_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tar(*START, *EACH_KIND)
    expected = outcome(data)
    monkeypatch.setattr(archive, "_CHUNK", piece)
    assert outcome(data) == expected
    assert assert_same(data[:3000]) == "cut off: it ends in the middle"


@pytest.mark.parametrize("above", ["", "./", "m/", "./a/b/", "a//b/"])
def test_nearly_every_member_goes_the_short_way(
    above: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder an archive was packed under: only its first member does not."""
    tree, taken, take = topologies.machine("1s-1n-4c-smt2").tree, [], plain.PlainMembers.take

    def counted(
        self: plain.PlainMembers, buffer: bytes, at: int, above: str, most: int
    ) -> tuple[int, int, int]:
        found = take(self, buffer, at, above, most)
        taken.append(found[1])
        return found

    monkeypatch.setattr(plain.PlainMembers, "take", counted)
    assert dict(read_archive(tar(*members_of(tree, above)))) == dict(tree)
    assert sum(taken) == len(tree) - 1
