"""Who waits on a node looks again when something happens, and leaves the host its processors."""

from __future__ import annotations

import time

import pytest

import conformance.subjects.kubelet.bell as bell_module
from conformance.subjects.kubelet.bell import Bell


def test_what_happens_while_it_looks_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next look without a ring is minutes away."""
    monkeypatch.setattr(bell_module, "_FIRST_LOOK", 300.0)
    bell, looks = Bell(), 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            bell.ring()
        return looks == 2

    began = time.monotonic()
    assert bell.until(look, 600, slowest=300)
    assert time.monotonic() - began < 100


class _Clock:
    """Shows the time that looks and rests took."""

    def __init__(self, look: float) -> None:
        self.now, self.rests, self._look = 0.0, [0.0], look

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def look(self) -> bool:
        self.now += self._look
        return len(self.rests) > 10


@pytest.mark.parametrize(("look", "rest"), [(0.02, 0.04), (2.0, 0.2)])
def test_a_look_is_followed_by_a_rest(
    look: float, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as long, which leaves most of the time to others; but one that waited for an answer is
    soon followed by another."""
    bell, clock = Bell(), _Clock(look)
    monkeypatch.setattr(bell_module, "time", clock)
    assert bell.until(clock.look, 600)
    assert max(clock.rests) == pytest.approx(rest)
