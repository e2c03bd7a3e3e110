"""An exploration: histories are drawn and walked until the time is over, and differences shrunk.

What belongs here: the order of this work, what counts as a difference, and what is kept. What never
does: drawing a history (``drawing``), judging one (``driving``), and files (``telling``).

How it works: one thread draws. If several nodes are used at a time, as many other threads walk. A
busy host is not a difference, and a first walk does not wait for long. So a history that ends in a
difference or without a verdict is walked again: alone, once the others have ended, and with the
full waiting times of a run. If it differs alike each time, and its cause is new, it is shrunk.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from conformance.results import Result
from conformance.subject import Hurries, Subject, WaitsMost
from conformance.verdict import Verdict
from hunting.exploring.causes import Symptom, is_same, ways_of
from hunting.exploring.covering import Covering
from hunting.exploring.drafting import is_legal
from hunting.exploring.drawing import Drawn, drawn
from hunting.exploring.driving import Walk, walked
from hunting.exploring.factors import offered
from hunting.exploring.history import History
from hunting.exploring.shrinking import shrunk
from hunting.exploring.tracing import Lines

#: Seconds that shrinking one difference may take: a busy host walks few histories in it. On a
#: subject that cannot hurry it is the time of so many walks, where that is longer.
SHRINKS: Final = 150.0
_SHRINKING_WALKS: Final = 30
#: Seconds that shrinking may still take once the time of the exploration is over.
_LATE: Final = 60.0
#: How many simpler histories may not differ before the whole one is walked once more. Shrinking
#: ends where that does not differ either: chance decides there.
_DOUBTED: Final = 32
#: Seconds that a first walk waits for a node. What differs is walked again with full waiting times.
HASTE: Final = 6.0
#: The same while a difference is shrunk. Where nothing that is found so differs with full waiting
#: times, it is shrunk once more with :data:`HASTE`.
_BRIEF: Final = 3.0
#: How many of the smallest histories that differ in haste are walked with full waiting times; and
#: the seconds after the time of shrinking in which these walks may begin.
_CONFIRMED: Final = 4
_CONFIRMING: Final = 20.0
#: How many causes end an exploration: a subject with as many differs everywhere.
MOST_CAUSES: Final = 10
#: One history in so many is on another machine, where there are others.
OTHERS_GET: Final = 5
#: The title of a shrunk history, whose factors are plain or nearly so.
_SHRUNK: Final = "A drawn history, shrunk"
_FAIL, _UNKNOWN = Verdict.FAIL.value, Verdict.UNKNOWN.value
_ODD: Final = (_FAIL, _UNKNOWN)


def _silent(stage: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is explored: which ``machines``, by which ``release``, drawn from which ``seed``. One
    history in :data:`OTHERS_GET` is on one of the ``others`` in turn, whose pairs do not count.
    ``count``: how many histories end it (0: any number); ``most``: how many causes end it.
    ``only``: the history of this number alone is walked (0: all are). ``shrink``: whether what
    differs is shrunk. ``shard``: which one of ``of`` shards it is."""

    machines: tuple[str, ...]
    release: str
    others: tuple[str, ...] = ()
    seed: int = 1
    count: int = 0
    most: int = MOST_CAUSES
    only: int = 0
    shrink: bool = True
    shard: int = 1
    of: int = 1

    @property
    def every_machine(self) -> tuple[str, ...]:
        return (*self.machines, *self.others)


@dataclass(slots=True)
class Cause:
    """A difference, shrunk. ``symptoms``: those of its shrunk history, and of others of the same
    cause that were shrunk. ``met``: the names of the histories that differ for this cause."""

    number: int
    history: History
    result: Result
    symptoms: set[Symptom]
    met: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """A history that was walked under a name, with its result. ``once``: the first result, if the
    second walk did not differ alike. ``cause``: the number of its cause (0: none); ``first``:
    whether it is the first history of that cause. ``shrunk``: what it shrank to, with the result of
    that; ``None`` where the cause has the symptom of that already."""

    name: str
    history: History
    result: Result
    once: Result | None = None
    cause: int = 0
    first: bool = False
    shrunk: tuple[History, Result] | None = None


class _SameThread(Executor):
    """Walks in the calling thread, so that an interrupt ends a walk that is under way."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Exploration:
    """An exploration, with what it knows so far. ``plan``: histories to walk in place of drawn
    ones. ``replay`` gives the command that walks the history of a number again. ``drawn``: the
    drawn histories, by name."""

    def __init__(
        self,
        subject: Subject,
        scope: Scope,
        *,
        at_a_time: int,
        plan: Sequence[History] = (),
        replay: Callable[[int], str] = lambda number: "",
    ) -> None:
        self._subject, self.scope, self._plan = subject, scope, plan
        self._replay = replay
        self._pool: Executor = (
            ThreadPoolExecutor(at_a_time, thread_name_prefix="pinproof-explore")
            if at_a_time > 1
            else _SameThread()
        )
        self._at_a_time = at_a_time
        values = offered(scope.release, subject.capabilities)
        self.covering = {
            name: Covering(values, f"{scope.seed}/{name}/{scope.shard}")
            for name in scope.every_machine
        }
        self.lines = Lines()
        self.drawn: dict[str, Drawn] = {}
        self.causes: list[Cause] = []
        self.refusals: Counter[str] = Counter()
        self.walked = 0
        self._is_interrupted = False
        self._haste = HASTE
        self._until = math.inf
        self._progress: Callable[[str], None] = _silent

    def explore(
        self, *, until: float, skip: Sequence[str] = (), progress: Callable[[str], None] = _silent
    ) -> Generator[Outcome, None, None]:
        """The outcome of each walk, in the order in which they end. None begins after ``until`` (of
        the monotonic clock). Histories named in ``skip`` are drawn, and not walked. Once there are
        as many causes as end it, a history that differs has no outcome. ``progress`` gets a line
        about work that takes long."""
        self._progress, self._until = progress, until
        self._hurry(HASTE)
        earlier = frozenset(skip)
        waiting = (one for one in self._walks() if one.name not in earlier)
        busy: dict[Future[Result], Walk] = {}
        with self._interrupting_nodes():
            while True:
                while len(busy) < self._at_a_time and time.monotonic() < until:
                    walk = next(waiting, None)
                    if walk is None or len(self.causes) >= self.scope.most:
                        break
                    busy[self._pool.submit(self._walked, walk)] = walk
                if not busy:
                    return
                done, _ = wait(busy, return_when=FIRST_COMPLETED)
                results = [(busy.pop(one), one.result()) for one in done]
                if any(result.verdict in _ODD for _, result in results):
                    wait(busy)  # a second walk has the host for itself
                for walk, result in results:
                    if len(self.causes) < self.scope.most or result.verdict not in _ODD:
                        self.walked += 1
                        yield self._outcome(walk, result)
                    if self._is_interrupted:
                        raise KeyboardInterrupt
                progress("")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    @contextmanager
    def _interrupting_nodes(self) -> Iterator[None]:
        """Interrupt the subject if an exception leaves the block, so that no thread waits for a
        node."""
        try:
            yield
        except BaseException:
            if isinstance(self._subject, WaitsMost):
                self._subject.interrupt()
            raise

    def _walked(self, walk: Walk) -> Result:
        return walked(walk, self._subject, self.scope.release)

    # -- what is walked ------------------------------------------------------------------------

    def _walks(self) -> Iterator[Walk]:
        for number, history in enumerate(self._plan, start=1):
            if self._is_wanted(number) and (number - self.scope.shard) % self.scope.of == 0:
                yield Walk(f"plan-{number}", history, self._replay(number))
        if self._plan:
            return
        part = f"{self.scope.shard}-" if self.scope.of > 1 else ""
        machines = _in_turn(self.scope)
        for number in itertools.count(1):
            if number > (self.scope.only or self.scope.count or number):
                return
            new = self._draw(next(machines))
            name = f"{self.scope.seed}-{part}{number}"
            self.drawn[name] = new
            self.refusals.update(new.refusals)
            if self._is_wanted(number):
                yield Walk(name, new.history, self._replay(number))

    def _is_wanted(self, number: int) -> bool:
        return self.scope.only in (0, number)

    def _draw(self, machine: str) -> Drawn:
        covering, release = self.covering[machine], self.scope.release
        while True:
            new = drawn(covering, machine, release, self._subject.capabilities)
            if new is not None:
                with self.lines.watched():
                    is_legal(new.history.task(release), new.history.taken)
                return new

    # -- outcomes --------------------------------------------------------------------------------

    def _outcome(self, walk: Walk, result: Result) -> Outcome:
        if result.verdict == _UNKNOWN:
            result = self._walk_again(walk)
        if result.verdict != _FAIL:
            return Outcome(walk.name, walk.history, result)
        again = self._walk_again(walk)
        if again.verdict != _FAIL or not is_same(ways_of(result), ways_of(again)):
            return Outcome(walk.name, walk.history, _undecided(again), once=result)
        cause, small = self._known_cause(Symptom.of(again, walk.history, self.scope.release)), None
        if cause is None:
            small = self._shrunk(walk, again) if self.scope.shrink else (walk.history, again)
            symptom = Symptom.of(small[1], small[0], self.scope.release)
            cause = self._cause_of(symptom, *small)
            small = None if symptom in cause.symptoms else small
            cause.symptoms.add(symptom)
        cause.met.append(walk.name)
        first = cause.met == [walk.name]
        return Outcome(walk.name, walk.history, again, None, cause.number, first, small)

    def _walk_again(self, walk: Walk) -> Result:
        """Walk with full waiting times. Nothing else is walked meanwhile."""
        self._hurry(None)
        try:
            return self._pool.submit(self._walked, walk).result()
        finally:
            self._hurry(self._haste)

    def _hurry(self, seconds: float | None) -> None:
        if isinstance(self._subject, Hurries):
            self._subject.hurry(seconds)

    def _known_cause(self, symptom: Symptom) -> Cause | None:
        """The cause that a history shows before it is shrunk."""
        seen = (one for one in self.causes if any(s.is_seen_in(symptom) for s in one.symptoms))
        return next(seen, None)

    def _cause_of(self, symptom: Symptom, history: History, result: Result) -> Cause:
        """The known cause of a shrunk history, or else a new one."""
        is_shrunk = self.scope.shrink and not self._is_interrupted
        for cause in self.causes if is_shrunk else ():
            if any(symptom.is_of_one_cause(one) for one in cause.symptoms):
                return cause
        self.causes.append(Cause(len(self.causes) + 1, history, result, set()))
        return self.causes[-1]

    def _shrunk(
        self, walk: Walk, result: Result, end: float | None = None
    ) -> tuple[History, Result]:
        """The smallest history that differs alike in haste and then with full waiting times. Where
        it differs in new ways as well, it is shrunk once more by these, until the same ``end`` (of
        the monotonic clock). After an interrupt it is the smallest that is known to differ with
        full waiting times."""
        whole = (_up_to(result, walk.history), result)
        alike = [whole]
        if end is None:
            end = self._end_of_shrinking(result.seconds)
        try:
            for haste in (_BRIEF, HASTE) if isinstance(self._subject, Hurries) else (HASTE,):
                alike = [whole]
                small = self._smaller(walk, alike, end, haste)
                if alike == [whole]:
                    break  # with longer waiting times no more histories would differ
                others = [one for one, _ in reversed(alike) if one != small]
                for history in [small, *others][:_CONFIRMED]:
                    if history == walk.history or time.monotonic() >= end + _CONFIRMING:
                        break
                    found = self._walk_again(Walk(walk.name, history, title=_SHRUNK))
                    if _differs_like(found, result):
                        smaller = Walk(walk.name, history)
                        is_known = ways_of(found) <= ways_of(result)
                        return (history, found) if is_known else self._shrunk(smaller, found, end)
        except KeyboardInterrupt:
            self._is_interrupted = True
            return whole if isinstance(self._subject, Hurries) else alike[-1]
        return whole

    def _end_of_shrinking(self, walk_takes: float) -> float:
        now = time.monotonic()
        least = 0.0 if isinstance(self._subject, Hurries) else _SHRINKING_WALKS * walk_takes
        return min(now + max(SHRINKS, least), max(now, self._until) + max(_LATE, least))

    def _smaller(
        self, walk: Walk, alike: list[tuple[History, Result]], end: float, haste: float
    ) -> History:
        """The smallest history that is found to differ like the first of ``alike``, in walks that
        wait ``haste`` seconds. Each history that differs so is added to ``alike``."""
        result = alike[0][1]
        until_doubted = _DOUBTED

        def differ(histories: Sequence[History]) -> list[History | None]:
            nonlocal end, until_doubted
            same: list[History | None] = []
            for some in _some_at_a_time(histories, self._at_a_time):
                if time.monotonic() >= end:
                    break
                self._progress(f"shrinking {walk.name}: {len(alike[-1][0].steps)} steps")
                walks = [Walk(walk.name, one) for one in some]
                for history, found in zip(some, self._pool.map(self._walked, walks), strict=True):
                    one = _up_to(found, history) if _differs_like(found, result) else None
                    same.append(one)
                    if one is not None:
                        alike.append((one, found))
                is_doubted = 0 < until_doubted <= len(some) and len(alike) == 1
                until_doubted -= len(some)
                if is_doubted and not _differs_like(self._walk_again(walk), result):
                    end = 0.0
            return same + [None] * (len(histories) - len(same))

        self._haste = haste
        self._hurry(haste)
        try:
            return shrunk(walk.history, self.scope.release, differ, self._subject.capabilities)
        finally:
            self._haste = HASTE
            self._hurry(HASTE)


def _some_at_a_time(histories: Sequence[History], count: int) -> Iterator[Sequence[History]]:
    return (histories[at : at + count] for at in range(0, len(histories), count))


def _in_turn(scope: Scope) -> Iterator[str]:
    machines, others = itertools.cycle(scope.machines), itertools.cycle(scope.others)
    for number in itertools.count(1):
        yield next(others if scope.others and number % OTHERS_GET == 0 else machines)


def _differs_like(one: Result, other: Result) -> bool:
    return one.verdict == _FAIL and is_same(ways_of(one), ways_of(other))


def _up_to(result: Result, history: History) -> History:
    """The history up to the step after which it differs. The first step of a story is the machine,
    which no history has."""
    return msgspec.structs.replace(history, steps=history.steps[: max(len(result.steps) - 1, 1)])


def _undecided(result: Result) -> Result:
    """The result of a second walk that did not differ like the first: ``unknown`` if it differs."""
    if result.verdict != _FAIL:
        return result
    reason = f"the two walks differed in different ways: {result.reason}"
    return msgspec.structs.replace(result, verdict=_UNKNOWN, reason=reason, failure=None)
