"""The fuzzer finds what is broken, says how to see it again, and finds nothing here."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from differential import fuzz


@pytest.mark.parametrize("name", sorted(fuzz.TARGETS))
def test_no_input_breaks_the_model(name: str) -> None:
    tally = fuzz.Tally()
    fuzz.run(name, fuzz.made(name, 400, seed=7), tally)
    assert not tally.broken
    assert tally.taken
    assert tally.refused
    assert tally.taken + tally.refused.total() == 400


def test_one_seed_makes_one_list_of_inputs() -> None:
    assert list(fuzz.made("pod", 20, 3)) == list(fuzz.made("pod", 20, 3))
    assert list(fuzz.made("pod", 20, 3)) != list(fuzz.made("pod", 20, 4))


def _broken() -> Iterator[tuple[str, ...]]:
    yield ("0-3", "1.36")
    yield ("5-1", "1.x")  # no release: an exception that nobody documents


def test_what_breaks_is_printed_so_that_it_can_be_replayed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "TARGETS", {"cpu-list": fuzz.TARGETS["cpu-list"]})
    monkeypatch.setattr(fuzz, "made", lambda *_: _broken())
    assert fuzz.main(["--inputs", "2"]) == 1
    printed = capsys.readouterr().out
    assert "1 broken" in printed
    assert "ValueError: not a Kubernetes release" in printed
    literal = printed.rpartition("on stdin:\n")[2].splitlines()[0]
    monkeypatch.setattr("sys.stdin", io.StringIO(literal))
    assert fuzz.main(["--replay", "cpu-list"]) == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("('0-3', '1.36')"))
    assert fuzz.main(["--replay", "cpu-list"]) == 0


def test_a_broken_law_is_a_failure() -> None:
    def wrong(_: str) -> None:
        fuzz._require(False, "never so")

    tally = fuzz.Tally()
    target = fuzz.Target(1.0, lambda _: ("x",), wrong, (ValueError,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fuzz.TARGETS, "wrong", target)
        fuzz.run("wrong", iter([("x",)]), tally)
    assert len(tally.broken) == 1
