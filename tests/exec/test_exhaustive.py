"""Every free set and request on small machines: what is asked, and that a difference is found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from conformance.subjects.exec import wire
from conformance.subjects.exec.program import Program
from differential import exhaustive
from differential.exhaustive import Asked, Compared, Shape, option_sets, shapes, work
from reference import CPUSet

Driver = Callable[[str], Path]


def test_every_regular_machine_is_there_once() -> None:
    """Of four CPUs: their sizes multiplied are four; threads beside one another or not."""
    found = list(shapes(4))
    assert len(found) == len(set(found)) == 19
    assert all(one.cpus == 4 for one in found)
    assert str(Shape(1, 2, 1, 1, 2, near=True)) == "1s-2n-2c-smt2-near"
    assert sum(len(list(shapes(cpus))) for cpus in range(1, 9)) == 96 + 26


def test_options_that_exclude_each_other_are_left_out() -> None:
    """And those that the release has not."""
    assert list(option_sets("1.22")) == [{}, {"full-pcpus-only": "true"}]
    both = {"distribute-cpus-across-numa": "true", "distribute-cpus-across-cores": "true"}
    every = list(option_sets("1.36"))
    assert {} in every
    assert len(every) == 28
    assert not any(both.items() <= one.items() for one in every)


def test_every_free_set_and_request_is_asked_for() -> None:
    """One more than there are, too."""
    asked = list(Asked(Shape(1, 1, 1, 1, 2, near=False), {}, "1.36").questions())
    assert [(str(one.free), one.count) for one, _ in asked] == [
        (free, count) for free in ("", "0", "1", "0-1") for count in (1, 2, 3)
    ]
    assert [one.said for one, _ in asked][-3:] == [
        "0", "0-1", "not enough cpus available to satisfy request: requested=3, available=2",
    ]  # fmt: skip


def test_shards_are_all_of_it() -> None:
    """Each machine and set of options in one of them; a shard out of range is refused."""
    every = work("1.36", 3, 0)
    parts = [every[shard - 1 :: 3] for shard in (1, 2, 3)]
    assert sorted(map(str, every)) == sorted(str(one) for part in parts for one in part)
    assert exhaustive.shard_of("2/3") == (2, 3)
    for wrong in ("0/3", "4/3", "x"):
        with pytest.raises(ValueError, match=r"shard|invalid literal"):
            exhaustive.shard_of(wrong)


@pytest.mark.parametrize("release", ["1.22", "1.26", "1.32", "1.36", "1.37"])
def test_the_go_code_answers_the_same(driver_path: Driver, release: str) -> None:
    """On every machine of up to two CPUs."""
    with closing(Compared(lambda: Program("driver", [str(driver_path(release))]))) as made:
        for shape, options in work(release, 2, 0):
            assert list(made.differences(Asked(shape, options, release))) == []
    assert made.asked > 100


def test_the_first_request_that_is_sent_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others leave it out. The first three are not sent: over these the Go code hangs."""
    sent: list[wire.Take] = []

    class Recorder:
        def send(self, requests: list[wire.Take]) -> None:
            sent.extend(requests)

        def receive(self, requests: list[wire.Take]) -> list[wire.TakeAnswer]:
            return [wire.TakeAnswer(id=0, cpus="as the model") for _ in requests]

    def said(_: Asked, free: CPUSet, __: int) -> str:
        return "as the model" if free else exhaustive._HANGS

    monkeypatch.setattr(Asked, "_model_says", said)
    made = Compared(lambda: cast(Program, Recorder()))
    for near in (False, True):
        asked = Asked(Shape(1, 1, 1, 1, 2, near), {}, "1.36")
        assert list(made.differences(asked)) == []
    assert (made.asked, made.hanging) == (18, 6)
    assert [bool(one.machine) and bool(one.config) for one in sent] == [True, *[False] * 8] * 2


def test_a_difference_is_found(driver_path: Driver) -> None:
    """A model that is wrong about one text."""
    asked = Asked(Shape(1, 1, 1, 1, 2, near=False), {}, "1.36+numbers-in-refusal=off")
    with closing(Compared(lambda: Program("driver", [str(driver_path("1.36"))]))) as made:
        found = list(made.differences(asked))
    assert len(found) == 8  # of 12 requests those that cannot be met
    assert "not enough cpus available to satisfy request: requested=1, available=0" in found[0].go


def test_the_command_says_how_many(driver_path: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last line has the figures of the docs."""
    driver_path("1.36")
    assert exhaustive.main(["--release", "1.36", "--cpus", "1", "--packed", "3"]) == 0
    assert "0 differences" in capsys.readouterr().out.splitlines()[-1]
