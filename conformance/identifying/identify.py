"""A subject is asked what it is: histories one after another, several at a time.

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

#: How many histories may be lost before anything was seen: the subject is then given up.
_GIVEN_UP: Final = 3
#: How many more histories are asked for each behaviour that could explain something.
_MORE: Final = 3
#: Why a history says nothing that was watched twice.
UNSTEADY: Final = "it did what no release does twice, and not the same"
#: Seconds that a process may take for one history.
_PATIENCE: Final = 90.0

Say = Callable[[str], None]


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
            asking.ask_lost(watched, found)
            found = asking.identity(watched)
            asking.ask_witnesses(watched, found)
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
        jobs.sort(key=lambda job: not job.history.config.api_server)  # what waits longest first
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
        host may have been the reason. What differs twice and not alike accuses nobody: it is
        lost."""
        odd = {one.history for one in found.unexplained}
        if not odd or len(odd) > len(watched) / 2:
            return
        jobs = [_Job(one, (found.fits, *_possible(found.fits, ())), patient=True) for one in odd]
        again: list[Watched] = []
        self._take(jobs, again)
        seen_again = {one.history for one in again if one.views}
        watched[:] = [one for one in watched if one.history not in seen_again]
        watched += [one for one in again if one.views]
        before = {one.history: one.look for one in found.unexplained}
        unsteady = {
            one.history
            for one in self.identity(watched).unexplained
            if one.history in seen_again and one.look != before.get(one.history)
        }
        watched[:] = [
            Watched(one.history, (), UNSTEADY) if one.history in unsteady else one
            for one in watched
        ]

    def ask_lost(self, watched: list[Watched], found: Identity) -> None:
        """Watch once more, and wait longer, what was lost: a busy host may have been the reason.
        It counts where it ends as some release does; what does not stays lost."""
        lost = {one.history for one in watched if one.lost}
        if not lost or len(lost) > len(watched) / 2:
            return
        releases = tuple(_possible(found.fits, ()))
        again: list[Watched] = []
        self._take([_Job(one, releases, patient=True) for one in lost], again)
        odd = {one.history for one in self.identity(again).unexplained}
        whole = [one for one in again if not one.lost and one.history not in odd]
        seen = {one.history for one in whole}
        watched[:] = [*(one for one in watched if one.history not in seen), *whole]

    def ask_witnesses(self, watched: list[Watched], found: Identity) -> None:
        """Watch variants of what shows a switched behaviour, where one history alone shows it."""
        can, architecture = self._subject.capabilities, architecture_of(self._subject.info)
        made = [
            Telling(variant, dict.fromkeys(SEARCHED, frozenset([one.title])))
            for one in found.doubtful
            for history in found.witnesses[one]
            for variant in witnesses(
                history, found.fits, str(unswitched(found.fits, one.title)), can, architecture
            )
        ]
        self._tellings = [*self._tellings, *made]
        releases = (found.fits, *_possible(found.release, ()))
        self._take([_Job(one.history, releases) for one in made], watched)

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
        finally:  # an interrupt, too
            if not given_up:
                self._out_of_time += len(jobs) - (len(watched) - before)


def _possible(likeliest: str, names: Iterable[str]) -> Iterator[str]:
    """The likeliest release, then it with each of these behaviours switched, then all others."""
    yield likeliest
    yield from (switched(likeliest, Behaviour.named(name)) for name in names)
    yield from reversed(RELEASES)


class _Workers:
    """Processes that each have the subject opened once; a model is asked in this one."""

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
    """Where jobs are done in a process of their own."""
    with contextlib.closing(open_subject(name)) as subject:
        yield partial(_watched, subject)


def _watched(subject: Subject, job: _Job) -> Watched:
    return watch(subject, job.history, job.releases, patient=job.patient)
