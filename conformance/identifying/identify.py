"""Finds out what a subject is, by running histories on it, several at a time.

What belongs here: which histories run, in how many processes, and when that ends. What never does:
what follows from them (``identity``).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from conformance.discovered import architecture_of
from conformance.identifying.history import History
from conformance.identifying.identity import (
    Identity,
    can_be_asked,
    chosen,
    identified,
    stated,
    unswitched,
)
from conformance.identifying.telling import RELEASES, SEARCHED, Telling, kept, switched
from conformance.identifying.watching import Watched, watch
from conformance.identifying.witnesses import witnesses
from conformance.processes import Lost, Processes
from conformance.progress import Stage
from conformance.subject import Subject, SubjectLostError
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from reference.behaviours import Behaviour
from reference.releases import Release

#: After this many lost histories, and none that was seen, the subject is given up.
_GIVEN_UP: Final = 3
#: How many more histories are run for each behaviour that could explain a departure.
_MORE: Final = 3
#: Why a history that was watched twice is lost.
UNSTEADY: Final = "it differed from every release twice, each time in another way"
#: Seconds that a process may take for one history.
_PATIENCE: Final = 90.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Job:
    """A history, and the releases that the subject may be, the likeliest first."""

    history: History
    releases: tuple[str, ...]
    patient: bool = False


def identify(
    name: str, subject: Subject, *, workers: int = 1, seconds: float = 300.0, say: Say
) -> Identity:
    """Find out what ``subject``, which has this ``name``, is. After ``seconds``, or when the user
    interrupts, the histories that ran are judged.

    Raises :class:`SubjectLostError` where nothing could be seen.
    """
    said, tellings, until = stated(subject.info), kept(), time.monotonic() + seconds
    watched: list[Watched] = []
    with _Workers(name, subject, workers) as at_work:
        asking = _Asking(said, tellings, subject, until, at_work, say)
        with contextlib.suppress(KeyboardInterrupt):
            asking.ask(watched, said)
            identity = asking.identity(watched)
            if Release.parse(identity.fits).minor != Release.parse(said).minor:
                asking.ask(watched, identity.release)
                identity = asking.identity(watched)
            if asking.ask_more(watched, identity):
                identity = asking.identity(watched)
            asking.ask_again(watched, identity)
            identity = asking.identity(watched)
            asking.ask_lost(watched, identity)
            identity = asking.identity(watched)
            asking.ask_witnesses(watched, identity)
    identity = asking.identity(watched)
    if not identity.histories:
        reason = identity.lost[0] if identity.lost else "no history ran in the given time"
        raise SubjectLostError(f"{name} could not be identified: {reason}")
    return identity


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
        """Watch the histories that tell the behaviours of the likeliest release, each once."""
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
        jobs.sort(key=lambda job: not job.history.config.api_server)  # what waits longest first
        self._take(jobs, watched)

    def ask_more(self, watched: list[Watched], found: Identity) -> bool:
        """Watch more histories of the behaviours that could explain departures from the best fit.
        Several behaviours may explain one history; more histories show which. Returns whether there
        were any."""
        names = found.suspects
        seen = {one.history for one in watched}
        subject, asked, jobs = self._subject, Counter[str](), list[_Job]()
        built_for = architecture_of(subject.info)
        for telling in self._tellings:
            wanted = {name for name in telling.of(found.release) & names if asked[name] < _MORE}
            if (
                wanted
                and telling.history not in seen
                and can_be_asked(telling.history, subject.capabilities, built_for)
            ):
                asked.update(wanted)
                jobs.append(_Job(telling.history, tuple(_possible(found.fits, wanted))))
        self._take(jobs, watched)
        return bool(jobs)

    def ask_again(self, watched: list[Watched], found: Identity) -> None:
        """Watch again, and wait longer, where the subject did what no release does: a busy host may
        have been the reason. A history with two different departures counts as lost, not as
        unexplained."""
        odd = {one.history for one in found.unexplained}
        if not odd or len(odd) > len(watched) / 2:
            return
        jobs = [_Job(one, (found.fits, *_possible(found.fits, ())), patient=True) for one in odd]
        repeated: list[Watched] = []
        self._take(jobs, repeated)
        seen_twice = {one.history for one in repeated if one.views}
        watched[:] = [one for one in watched if one.history not in seen_twice]
        watched += [one for one in repeated if one.views]
        before = {one.history: one.look for one in found.unexplained}
        unsteady = {
            one.history
            for one in self.identity(watched).unexplained
            if one.history in seen_twice and one.look != before.get(one.history)
        }
        watched[:] = [
            Watched(one.history, (), UNSTEADY) if one.history in unsteady else one
            for one in watched
        ]

    def ask_lost(self, watched: list[Watched], found: Identity) -> None:
        """Watch again, and wait longer, what was lost: a busy host may have been the reason. A
        history that now ends as some release does counts; any other stays lost."""
        lost = {one.history for one in watched if one.lost}
        if not lost or len(lost) > len(watched) / 2:
            return
        releases = tuple(_possible(found.fits, ()))
        repeated: list[Watched] = []
        self._take([_Job(one, releases, patient=True) for one in lost], repeated)
        odd = {one.history for one in self.identity(repeated).unexplained}
        whole = [one for one in repeated if not one.lost and one.history not in odd]
        seen = {one.history for one in whole}
        watched[:] = [*(one for one in watched if one.history not in seen), *whole]

    def ask_witnesses(self, watched: list[Watched], found: Identity) -> None:
        """Watch variants of a history that alone shows a switched behaviour."""
        can, architecture = self._subject.capabilities, architecture_of(self._subject.info)
        variants = [
            Telling(variant, dict.fromkeys(SEARCHED, frozenset([one.title])))
            for one in found.doubtful
            for history in found.witnesses[one]
            for variant in witnesses(
                history, found.fits, str(unswitched(found.fits, one.title)), can, architecture
            )
        ]
        self._tellings = [*self._tellings, *variants]
        releases = (found.fits, *_possible(found.release, ()))
        self._take([_Job(one.history, releases) for one in variants], watched)

    def _take(self, jobs: Sequence[_Job], watched: list[Watched]) -> None:
        before, given_up = len(watched), False
        try:
            for number, one in enumerate(self._at_work.results(jobs, self._until), 1):
                watched.append(one)
                self._say(Stage(f"what tells {self._said}", number, len(jobs), "histories"))
                lost = [each for each in watched if each.lost and not each.views]
                given_up = len(lost) >= _GIVEN_UP and len(lost) == len(watched)
                if given_up:
                    return
        finally:  # after an interrupt, too
            if not given_up:
                self._out_of_time += len(jobs) - (len(watched) - before)


def _possible(likeliest: str, names: Iterable[str]) -> Iterator[str]:
    """The likeliest release, then with each of these behaviours switched, then all others."""
    yield likeliest
    yield from (switched(likeliest, Behaviour.named(name)) for name in names)
    yield from reversed(RELEASES)


class _Workers:
    """Processes that each open the subject once; a model runs in this process."""

    def __init__(self, name: str, subject: Subject, count: int) -> None:
        self._subject = subject
        self._processes: Processes[_Job, Watched] | None = None
        if not isinstance(subject, ReferenceSubject):
            self._processes = Processes(count, _opened, (name,))

    def __enter__(self) -> _Workers:
        if self._processes is not None:
            self._processes.__enter__()
        return self

    def __exit__(self, *of: object) -> None:
        if self._processes is not None:
            self._processes.__exit__(*of)

    def results(self, jobs: Sequence[_Job], until: float) -> Iterator[Watched]:
        """What was watched, in the order in which it ends. No job begins after ``until``."""
        if self._processes is None:
            for job in jobs:
                if time.monotonic() < until:
                    yield _watched(self._subject, job)
            return
        for job, seen in self._processes.do(jobs, until=until, patience=_PATIENCE):
            if isinstance(seen, Lost):
                why = f"a process that drives the subject {seen.why}"
                yield Watched(job.history, (), why)
            else:
                yield seen


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Callable[[_Job], Watched]]:
    """In a worker process: opens the subject, and gives a function that runs jobs on it."""
    with contextlib.closing(open_subject(name)) as subject:
        yield partial(_watched, subject)


def _watched(subject: Subject, job: _Job) -> Watched:
    return watch(subject, job.history, job.releases, patient=job.patient)
