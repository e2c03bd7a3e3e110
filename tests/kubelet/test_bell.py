"""Who waits on a node looks again when something happens, and leaves the host its processors."""

from __future__ import annotations

import threading
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


def test_looks_that_take_long_leave_most_of_the_time_to_others() -> None:
    """However often the bell rings, as each line of a kubelet's log does."""
    bell, end = Bell(), threading.Event()
    spent: list[float] = []

    def look() -> bool:
        began = time.monotonic()
        time.sleep(0.02)
        spent.append(time.monotonic() - began)
        return False

    def ring() -> None:
        while not end.wait(0.001):
            bell.ring()

    ringing = threading.Thread(target=ring)
    ringing.start()
    began = time.monotonic()
    assert not bell.until(look, 1.0)
    seconds = time.monotonic() - began
    end.set()
    ringing.join()
    assert len(spent) > 2
    assert sum(spent) < seconds / 2


def test_a_look_that_waited_for_an_answer_is_followed_by_another() -> None:
    """A rest has an end, and so has the wait."""
    bell, looks = Bell(), []

    def look() -> bool:
        looks.append(time.monotonic())
        time.sleep(0.5)
        return len(looks) == 3

    assert bell.until(look, 30)
    assert looks[2] - looks[1] < 1.0
