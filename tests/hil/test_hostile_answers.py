"""A node may answer anything: each reader comes to a value or to its one error, within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.answers import fraction, whole
from hil.inspection import gather
from hil.isolation.latency import read_latency
from hil.isolation.noise import NotMeasured, read_noise
from hil.observation import NotAnObservation, read_observation
from hil.pods.statuses import NoList, read_pods
from hil.shell import DEADLINE, LIMIT, Done, NodeError
from tests.hil.test_truth_looks import ID, MARK, SLICE, TASKS, answer, section, v2
from tests.support.fakenode import FakeNode

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

Reader = Callable[[str], object]
READERS: dict[str, tuple[str, Reader, type[Exception]]] = {
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


def refusal(reader: Reader, text: str, error: type[Exception]) -> str:
    """Why the text is refused, ``""`` where it is read. Any other exception goes on."""
    try:
        reader(text)
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
        said = refusal(reader, one, error)
        assert "\n" not in said
        assert len(said) < 400


@given(st.text())
@pytest.mark.parametrize("name", READERS)
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    _, reader, error = READERS[name]
    for one in (text, text.join(["[" * 100_000, "]"])):
        assert "\n" not in refusal(reader, one, error)


class LyingShell:
    """A shell whose first and second answers have a number replaced."""

    def __init__(self, fake: FakeNode, number: int, nonsense: str) -> None:
        self._shell = fake.shell()
        self._number, self._nonsense = number, nonsense
        self.name, self.trips = self._shell.name, 0

    def run(
        self, script: str, *, stdin: bytes = b"", deadline: float = DEADLINE, limit: int = LIMIT
    ) -> Done:
        done = self._shell.run(script, stdin=stdin, deadline=deadline, limit=limit)
        self.trips += 1
        found = list(re.finditer(rb"\d+", done.stdout))
        begin, end = found[self._number % len(found)].span()
        false = done.stdout[:begin] + self._nonsense.encode() + done.stdout[end:]
        return Done(done.status, false, done.stderr)

    def close(self) -> None:
        self._shell.close()


def gathered(shell: LyingShell, root: str) -> object:
    return gather(shell, root=root)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_node_that_lies_about_a_number_is_described_or_refused(
    fake: FakeNode, nonsense: str
) -> None:
    for number in range(0, 4000, 173):
        read = partial(gathered, LyingShell(fake, number, nonsense))
        said = refusal(read, str(fake.root), NodeError)
        assert "\n" not in said


def test_numbers_are_bounded() -> None:
    assert [whole(one) for one in ("0", "17", "9223372036854775807")] == [0, 17, 2**63 - 1]
    assert [whole(one) for one in NONSENSE] == [0] * len(NONSENSE)
    assert [fraction(one) for one in ("1.5", "-2", "1e999", "nan", "inf", "x")] == [
        1.5, -2.0, 0.0, 0.0, 0.0, 0.0
    ]  # fmt: skip
