"""A node may answer anything: each reader comes to a value or to its one error, within bounds."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.answers import fraction, whole
from hil.inspection import NodeFacts, gather, kubelet_of
from hil.isolation.latency import read_latency
from hil.isolation.noise import NotMeasured, read_noise
from hil.observation import NotAnObservation, read_observation
from hil.pods.statuses import NoList, read_pods
from hil.shell import Done, NodeError, NodeUnfit
from hil.transport.local import LocalShell
from reference import CPUSet
from tests.hil.test_truth_looks import ID, MARK, SLICE, TASKS, answer, section, v2
from tests.support.fakenode import FakeNode
from topologies.tree import Tree

#: What stands where a number was.
NONSENSE = ["9" * 5000, "1e999", "-1", "nan", "٣", "²", "", "9223372036854775808", "0-999999999"]

LOOK = answer(
    (1507, f"{TASKS}/{ID}", v2(f"{SLICE}/cri-containerd-{ID}.scope", cpus="2-3", effective="2-3")),
    more=section("ran", "1507 2\n1507 3\n") + section("ended", "exited 1"),
)
PODS = (
    '{"items": [{"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Running", '
    '"containerStatuses": [{"name": "c", "restartCount": 0, "containerID": "x://1"}]}}]}'
)
NOISE = "cpus 0 1\nfirst 0 100 1\nsample 0 200 1\nlast 0 300 2\ntime 1.5 2.5\n"
LATENCY = "latency 1.5 2.5 0-3 0-2\n"

READERS: dict[str, tuple[str, Callable[[str], object], type[Exception]]] = {
    "look": (LOOK, lambda text: read_observation(text, MARK), NotAnObservation),
    "pods": (PODS, read_pods, NoList),
    "noise": (NOISE, lambda text: read_noise(text, ["c"]), NotMeasured),
    "latency": (LATENCY, read_latency, NotMeasured),
}


def damaged(text: str) -> list[str]:
    """The text with each of its numbers replaced by each nonsense, and cut off at each of them."""
    places = [one.span() for one in re.finditer(r"\d+", text)]
    replaced = [text[:a] + one + text[b:] for a, b in places for one in NONSENSE]
    return [*replaced, *(text[:a] for a, _ in places)]


def refusal(reading: Callable[[], object], error: type[Exception]) -> str:
    """Why it is refused, ``""`` where it is read. Any other exception goes on."""
    try:
        reading()
    except error as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("name", READERS)
def test_a_sound_answer_is_read(name: str) -> None:
    text, reader, _ = READERS[name]
    assert reader(text) is not None


@pytest.mark.parametrize("name", READERS)
def test_nonsense_for_a_number_is_read_or_refused(name: str) -> None:
    text, reader, error = READERS[name]
    for one in damaged(text):
        said = refusal(partial(reader, one), error)
        assert "\n" not in said
        assert len(said) < 400


@given(st.text())
@pytest.mark.parametrize("name", READERS)
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    _, reader, error = READERS[name]
    for one in (text, text.join(["[" * 100_000, "]"])):
        assert "\n" not in refusal(partial(reader, one), error)


class Replayed(LocalShell):
    """Gives kept answers again, under the tokens of the questions, with numbers replaced: by place
    among the numbers of all, what stands there instead."""

    def __init__(self, kept: list[bytes], false: dict[int, str] | None = None) -> None:
        super().__init__("node1")
        self._kept, self._false, self._number = iter(kept), false or {}, itertools.count()

    def run(self, script: str, **_: object) -> Done:
        token = re.findall(TOKEN, script.encode())[0]
        data = NUMBER.sub(self._said, next(self._kept))
        return Done(0, re.sub(TOKEN, token, data), b"")

    def _said(self, found: re.Match[bytes]) -> bytes:
        false = self._false.get(next(self._number))
        return found[0] if false is None else false.encode()


TOKEN = rb"pinproof-[0-9a-f]{32}"
NUMBER = re.compile(rb"(?<![0-9a-zA-Z_-])\d+(?![0-9a-fA-F]*[-:][0-9a-f]{2,}|[a-zA-Z_])")
PLAUSIBLE = st.one_of(st.integers(0, 300).map(str), st.sampled_from(NONSENSE))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Both answers of a sound node, which is small, so that each has few numbers."""
    fake = FakeNode(tmp_path_factory.mktemp("kept") / "node", "2s-2n-4c-smt2")
    answers = []

    class Keeping(LocalShell):
        def run(self, script: str, **bounds: Any) -> Done:
            done = super().run(script, **bounds)
            answers.append(done.stdout)
            return done

    gather(Keeping("fake", environment=fake.environment), root=str(fake.root))
    return answers


def cpus_of(tree: Tree) -> dict[str, CPUSet]:
    """What each source of a machine says of which CPUs are online."""
    nodes = [str(text) for path, text in tree.items() if re.search(r"/node\d+/cpulist$", path)]
    listed = re.findall(r"^processor\s*:\s*(\d+)$", str(tree["proc/cpuinfo"]), re.MULTILINE)
    return {
        "online": CPUSet.parse(str(tree["sys/devices/system/cpu/online"]).strip()),
        "NUMA nodes": functools.reduce(CPUSet.__or__, map(CPUSet.parse, map(str.strip, nodes))),
        "cpuinfo": CPUSet(map(int, listed)),
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), PLAUSIBLE), min_size=1, max_size=3))
def test_numbers_that_contradict_each_other_or_are_none_are_refused(
    kept: list[bytes], replaced: list[tuple[int, str]]
) -> None:
    """One to three at random, of the machine: what is read agrees with itself, the rest is refused
    in a line."""
    count = len(NUMBER.findall(kept[0]))
    shell = Replayed(kept, {place % count: text for place, text in replaced})
    said = refusal(lambda: agrees(gather(shell)), NodeError)
    assert "\n" not in said
    assert len(said) < 400


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_for_a_number_of_a_kubelet_is_read_or_refused(
    kept: list[bytes], nonsense: str
) -> None:
    """Each of the second answer."""
    machine, kubelet = (len(NUMBER.findall(one)) for one in kept)
    for place in range(machine, machine + kubelet):
        shell = Replayed(kept, {place: nonsense})
        assert "\n" not in refusal(partial(gather, shell), NodeError)


def agrees(facts: NodeFacts) -> None:
    """Assert that all that tells which CPUs are online tells the same."""
    assert set(cpus_of(facts.machine.tree).values()) == {facts.online}
    assert facts.online | facts.isolated | facts.nohz_full <= facts.possible


def test_a_kept_answer_is_read_again(kept: list[bytes]) -> None:
    facts = gather(Replayed(kept))
    assert facts.online == CPUSet(range(8))
    assert kubelet_of(facts).release == "1.36"


@pytest.mark.parametrize(
    ("text", "false", "said"),
    [
        (b"system/cpu/online=0-7", b"system/cpu/online=0-6", "online is 0-6, and 0-7 when"),
        (b"system/cpu/online=0-7", b"system/cpu/online=0-x", "is not a list of CPUs"),
        (b"cpu/possible=0-7", b"cpu/possible=0-3", "are online, and not possible"),
        (b"processor\t: 7", b"processor\t: 77", "proc/cpuinfo: lists"),
        (b"arch=", b"/proc/uptime=0.00 1.0\narch=", "is not the time since a boot"),
    ],
)
def test_what_an_answer_contradicts_itself_in_is_named(
    kept: list[bytes], text: bytes, false: bytes, said: str
) -> None:
    assert text in kept[0]
    with pytest.raises(NodeUnfit, match="its answer contradicts itself: ") as raised:
        gather(Replayed([kept[0].replace(text, false, 1), kept[1]]))
    assert said in str(raised.value)


def test_numbers_are_bounded() -> None:
    assert [whole(one) for one in ("0", "17", "9223372036854775807")] == [0, 17, 2**63 - 1]
    assert [whole(one) for one in NONSENSE] == [0] * len(NONSENSE)
    assert [fraction(one) for one in ("1.5", "-2", "1e999", "nan", "inf", "x")] == [
        1.5, -2.0, 0.0, 0.0, 0.0, 0.0
    ]  # fmt: skip
