"""A subject is asked what it is: histories one after another, several at a time.

What belongs here: which histories run, in how many processes, and when that ends. What never does:
what follows from them (``identity``).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context, util
from typing import Final

from conformance.discovered import architecture_of
from conformance.identifying.history import History
from conformance.identifying.identity import Identity, can_be_asked, chosen, identified, stated
from conformance.identifying.telling import RELEASES, Telling, kept, switched
from conformance.identifying.watching import Watched, watch
from conformance.progress import Stage
from conformance.subject import Subject, SubjectLostError
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from reference.behaviours import Behaviour
from reference.releases import Release

#: How many histories may be lost before anything was seen: the subject is then given up.
_GIVEN_UP: Final = 3
#: How many more histories are asked for each behaviour that could explain something.
_MORE: Final = 3
#: Seconds that a worker may take for one history beyond the end of the time.
_GRACE: Final = 90.0

Say = Callable[[str], None]
_subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """A history, and what the subject may be, the likeliest first."""

    history: History
    releases: tuple[str, ...]
    patient: bool = False


def identify(
    name: str, subject: Subject, *, workers: int = 1, seconds: float = 300.0, say: Say
) -> Identity:
    """Ask the subject of this name, which ``subject`` is, what it is. What was seen until the time
    is over, or until the user interrupts, is what is judged.

    Raises :class:`SubjectLostError` where nothing could be seen.
    """
    said, tellings, until = stated(subject.info), kept(), time.monotonic() + seconds
    watched: list[Watched] = []
    with _Workers(name, subject, workers) as at_work:
        asking = _Asking(said, tellings, subject, until, at_work, say)
        with contextlib.suppress(KeyboardInterrupt):
            asking.ask(watched, said)
            found = asking.identity(watched)
            if Release.parse(found.fits).minor != Release.parse(said).minor:
                asking.ask(watched, found.release)
                found = asking.identity(watched)
            if asking.ask_more(watched, found):
                found = asking.identity(watched)
            asking.ask_again(watched, found)
    found = asking.identity(watched)
    if not found.histories:
        reason = found.lost[0] if found.lost else "there was no time to ask it anything"
        raise SubjectLostError(f"{name} could not be identified: {reason}")
    return found


class _Asking:
    """The histories that are left to run."""

    def __init__(
        self,
        said: str,
        tellings: Sequence[Telling],
        subject: Subject,
        until: float,
        at_work: _Workers,
        say: Say,
    ) -> None:
        self._said, self._tellings, self._subject = said, tellings, subject
        self._until, self._at_work, self._say = until, at_work, say
        self._out_of_time = 0

    def identity(self, watched: Sequence[Watched]) -> Identity:
        """What follows from what was watched so far."""
        return identified(
            self._said,
            watched,
            self._tellings,
            self._subject.capabilities,
            architecture=architecture_of(self._subject.info),
            out_of_time=self._out_of_time,
        )

    def ask(self, watched: list[Watched], likeliest: str) -> None:
        """Watch what tells the behaviours of the likeliest release, as far as it was not yet."""
        seen = {one.history for one in watched}
        jobs = [
            _Job(one.history, tuple(_possible(likeliest, one.of(likeliest))))
            for one in chosen(
                self._tellings,
                likeliest,
                self._subject.capabilities,
                architecture=architecture_of(self._subject.info),
            )
            if one.history not in seen
        ]
        self._take(jobs, watched)

    def ask_more(self, watched: list[Watched], found: Identity) -> bool:
        """Watch what else tells the behaviours that could explain what the stated release does not
        do: several may explain one history, and only one of them the others. Whether there was
        anything to watch."""
        names = found.suspects
        seen = {one.history for one in watched}
        subject, asked, jobs = self._subject, Counter[str](), list[_Job]()
        built_for = architecture_of(subject.info)
        for one in self._tellings:
            wanted = {name for name in one.of(found.release) & names if asked[name] < _MORE}
            if (
                wanted
                and one.history not in seen
                and can_be_asked(one.history, subject.capabilities, built_for)
            ):
                asked.update(wanted)
                jobs.append(_Job(one.history, tuple(_possible(found.fits, wanted))))
        self._take(jobs, watched)
        return bool(jobs)

    def ask_again(self, watched: list[Watched], found: Identity) -> None:
        """Watch once more, and wait longer, where the subject did what no release does: a busy
        host may have been the reason."""
        odd = {one.history for one in found.unexplained}
        if not odd or len(odd) > len(watched) / 2:
            return
        jobs = [_Job(one, (found.fits, *_possible(found.fits, ())), patient=True) for one in odd]
        again: list[Watched] = []
        self._take(jobs, again)
        seen_again = {one.history for one in again if one.views}
        watched[:] = [one for one in watched if one.history not in seen_again]
        watched += [one for one in again if one.views]

    def _take(self, jobs: Sequence[_Job], watched: list[Watched]) -> None:
        before = len(watched)
        for number, one in enumerate(self._at_work.results(jobs, self._until), 1):
            watched.append(one)
            self._say(Stage(f"what tells {self._said}", number, len(jobs), "histories"))
            lost = [each for each in watched if each.lost and not each.views]
            if len(lost) >= _GIVEN_UP and len(lost) == len(watched):
                return
        self._out_of_time += len(jobs) - (len(watched) - before)


def _possible(likeliest: str, names: Iterable[str]) -> Iterator[str]:
    """The likeliest release, then it with each of these behaviours switched, then all others."""
    yield likeliest
    yield from (switched(likeliest, Behaviour.named(name)) for name in names)
    yield from reversed(RELEASES)


class _Workers:
    """Processes that each have the subject opened once; a model is asked in this one."""

    def __init__(self, name: str, subject: Subject, count: int) -> None:
        self._subject, self._count = subject, count
        self._pool: ProcessPoolExecutor | None = None
        if not isinstance(subject, ReferenceSubject):
            self._pool = ProcessPoolExecutor(
                count, get_context("spawn"), initializer=_open, initargs=(name,)
            )

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def results(self, jobs: Sequence[_Job], until: float) -> Iterator[Watched]:
        """What was watched, in the order in which it ends. No job begins after ``until``."""
        if self._pool is None:
            for job in jobs:
                if time.monotonic() < until:
                    yield watch(self._subject, job.history, job.releases, patient=job.patient)
            return
        under_way: dict[Future[Watched], _Job] = {}
        left = list(jobs)
        try:
            while left or under_way:
                while left and len(under_way) <= self._count:
                    under_way[self._pool.submit(_watched, left[0])] = left[0]
                    left.pop(0)
                done, _ = wait(under_way, timeout=_GRACE, return_when=FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    del under_way[future]
                    yield found
                if time.monotonic() > until:
                    left.clear()
                if not done:
                    for worker in active_children():  # or leaving would wait for it
                        worker.kill()
                    why = f"no history has ended for {_GRACE:g} s"
                    yield from _lost((*under_way.values(), *left), why)
                    return
        except BrokenProcessPool:
            why = "a process that drives the subject has died"
            yield from _lost((*under_way.values(), *left), why)


def _lost(jobs: Iterable[_Job], why: str) -> Iterator[Watched]:
    for job in jobs:
        yield Watched(job.history, (), why)


def _open(name: str) -> None:
    """Open the subject of this worker; it is closed at the worker's end."""
    global _subject
    _subject = open_subject(name)
    util.Finalize(None, _subject.close, exitpriority=10)


def _watched(job: _Job) -> Watched:
    assert _subject is not None
    return watch(_subject, job.history, job.releases, patient=job.patient)
