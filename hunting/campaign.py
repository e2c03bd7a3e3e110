"""A campaign: it searches every task of a shard, and keeps the finds in a folder.

What belongs here: which tasks a shard has, the file that a campaign resumes from, and how shards
are joined. What never does: a search (``walk``), and which finds have one cause (``finds``).

``hunt.jsonl`` has one JSON object a line: a header first, then each task that is done and each
find, as they come. A campaign that is killed loses only the task that it was searching.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from conformance.subject import SubjectError, SubjectUsageError, usable
from hunting import telling
from hunting.finds import Collection, Find
from hunting.processes import Processes, Searched, SearchOptions
from hunting.scope import Task, drawn_tasks, regular, tasks, uneven
from hunting.walk import Tally
from topologies import machine
from topologies import names as catalogued

FILE: Final = "hunt.jsonl"
#: How histories are searched: all up to a depth, or long ones by chance.
BREADTH, RANDOM = "breadth", "random"
#: The machines that may be searched, by their shape; ``EVERY`` names all of them.
SHAPES: Final = {"regular": regular, "uneven": uneven}
EVERY: Final = "all"
SCHEMA: Final = 1


class Header(msgspec.Struct, tag="header", tag_field="kind", frozen=True, kw_only=True):
    """What is searched: two campaigns with equal headers search the same tasks. ``others``: the
    releases whose kubelets may take over."""

    schema: int = SCHEMA
    release: str
    machines: list[str]
    depth: int
    alpha: bool = False
    seed: int = 0
    shards: int = 1
    blind: bool = False
    ignored: list[str] = []
    moves: list[str] = []
    walk: str = BREADTH
    others: list[str] = []


class Done(msgspec.Struct, tag="done", tag_field="kind", frozen=True, kw_only=True):
    """A task that was searched in full. ``steps`` and ``states``: what the search took; ``met``:
    how often it met each find, by the find's key."""

    task: int
    steps: int
    states: int
    met: dict[str, int] = {}


class Found(msgspec.Struct, tag="find", tag_field="kind", frozen=True, kw_only=True):
    """A find, as it was made. How often it was met is the sum over the tasks that are done."""

    find: Find


_LINE: Final = msgspec.json.Decoder(Header | Done | Found)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``number`` of ``count`` parts; the first is 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``K/N``. Raises :class:`SubjectUsageError`."""
        number, _, count = text.partition("/")
        if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
            raise SubjectUsageError(f"--shard {text!r}: write K/N, such as 1/4")
        shard = cls(int(number), int(count))
        if not 1 <= shard.number <= shard.count:
            raise SubjectUsageError(f"--shard {text}: K is from 1 to N")
        return shard


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is: ``done`` of the shard's ``total`` tasks are searched. ``task`` is the
    next one; with several processes, the one that was searched last."""

    done: int
    total: int
    task: Task
    tally: Tally
    finds: int


def _tasks(header: Header) -> Iterator[Task]:
    """The tasks of all shards."""
    tasks_of = partial(drawn_tasks, seed=header.seed) if header.walk == RANDOM else tasks
    return tasks_of(
        header.release,
        tuple(header.machines),
        alpha=header.alpha,
        families=tuple(header.moves),
        others=tuple(header.others),
    )


def searches(header: Header) -> int:
    return sum(1 for _ in _tasks(header))


class Campaign:
    """The tasks of one shard, and the folder that keeps what is found."""

    def __init__(self, header: Header, shard: Shard, folder: Path) -> None:
        self.header = header
        self.shard = shard
        self.folder = folder
        self.tally = Tally()
        self.done: dict[int, Done] = {}
        self.finds = Collection(blind=header.blind)
        self._tasks = self._own_tasks()
        self._open()

    def _own_tasks(self) -> list[tuple[int, Task]]:
        """The shard's tasks, numbered over all shards. A seed other than 0 shuffles them, so that a
        short campaign searches some tasks of each kind."""
        header = self.header
        every = list(enumerate(_tasks(header)))
        if header.seed and header.walk != RANDOM:
            random.Random(header.seed).shuffle(every)  # noqa: S311
        return every[self.shard.number - 1 :: self.shard.count]

    def _open(self) -> None:
        path = self.folder / FILE
        with usable(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() or not path.stat().st_size:
                path.write_bytes(msgspec.json.encode(self.header) + b"\n")
        header, done, finds = read(path)
        if header != self.header:
            raise SubjectUsageError(f"{path}: a campaign with other options wrote it")
        self._drop_cut_off_line(path)
        self.done = {one.task: one for one in done}
        for line in done:
            self.tally.add(Tally(line.steps, line.states))
        for find in finds:
            self.finds.join(find)

    @staticmethod
    def _drop_cut_off_line(path: Path) -> None:
        """Drop a last line that was cut off: the next line would be added to it."""
        with usable(path, SubjectError):
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)

    @property
    def is_done(self) -> bool:
        """Whether every task of the shard has been searched in full."""
        return all(number in self.done for number, _ in self._tasks)

    def run(
        self,
        *,
        jobs: int = 1,
        progress: Callable[[Progress], None] = lambda now: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Find]:
        """Search the tasks that are left in ``jobs`` processes; yield each find as it is made.
        ``stop`` is asked between two states. A task that it ends is searched again when the
        campaign is resumed. Raises :class:`SubjectError`."""
        left = [one for one in self._tasks if one[0] not in self.done]
        if jobs > 1 and len(left) > 1:
            yield from self._run_in_processes(min(jobs, len(left)), left, progress, stop)
            return
        for number, task in left:
            if stop():
                return
            progress(self._progress(task))
            tally, before = Tally(), self.finds.met()
            for broken in self._options.search(number, task, tally, stop):
                find = self.finds.add(broken)
                if find is not None:
                    self._write(Found(find=find))
                    yield find
            if stop():
                self.tally.add(tally)
                return
            self._note_done(Searched(number, tally, self.finds.met() - before))

    def _run_in_processes(
        self,
        jobs: int,
        left: Sequence[tuple[int, Task]],
        progress: Callable[[Progress], None],
        stop: Callable[[], bool],
    ) -> Iterator[Find]:
        by_number = dict(left)
        with Processes(jobs, self._options) as processes:
            try:
                for news in processes.search(left):
                    if isinstance(news, Searched):
                        self._note_done(news)
                        progress(self._progress(by_number[news.number]))
                    elif news is not None and self._join(news):
                        yield news
                    if stop():
                        return
            finally:
                for find in processes.pending():
                    self._join(find)

    @property
    def _options(self) -> SearchOptions:
        header = self.header
        return SearchOptions(
            header.depth,
            tuple(header.ignored),
            header.blind,
            tuple(header.moves),
            header.seed if header.walk == RANDOM else None,
        )

    def _progress(self, task: Task) -> Progress:
        return Progress(len(self.done), len(self._tasks), task, self.tally, len(self.finds))

    def _note_done(self, news: Searched) -> None:
        number, tally, met = news
        self.tally.add(tally)
        self.done[number] = Done(task=number, steps=tally.steps, states=tally.states, met=met)
        self._write(self.done[number])

    def _join(self, find: Find) -> bool:
        """Add a find of another process, and write it if it is new; returns whether it is new."""
        new = self.finds.join(find)
        if new:
            self._write(Found(find=find))
        return new

    def _write(self, line: Done | Found) -> None:
        path = self.folder / FILE
        with usable(path, SubjectError), path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


def machines_named(
    names: Sequence[str], *, most: int, walk: str = BREADTH, shapes: str = EVERY
) -> list[str]:
    """The machines of these ``names``; without names, those of at most ``most`` CPUs that have one
    of these ``shapes``: regular, uneven or all. Random walks on all have those of the catalogue as
    well."""
    if names:
        return [machine(name).name for name in names]
    kinds = [of_most for kind, of_most in SHAPES.items() if shapes in (kind, EVERY)]
    found = [one for of_most in kinds for one in of_most(most)]
    if walk == RANDOM and shapes == EVERY:
        found += catalogued()
    return found


def read(path: Path) -> tuple[Header, list[Done], list[Find]]:
    """What a campaign has written, without a last line that was cut off. Raises
    :class:`SubjectUsageError`."""
    with usable(path):
        lines = path.read_bytes().split(b"\n")
    records: list[Header | Done | Found] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            records.append(_LINE.decode(line))
        except msgspec.MsgspecError as error:
            raise SubjectUsageError(f"{path}, line {number}: {error}") from error
    if not records or not isinstance(records[0], Header):
        raise SubjectUsageError(f"{path}: its first line is not the header of a campaign")
    header = records[0]
    if header.schema != SCHEMA:
        raise SubjectUsageError(f"{path}: it was written by another version of pinproof")
    done = [one for one in records if isinstance(one, Done)]
    return header, done, [*_counted(done, [one.find for one in records if isinstance(one, Found)])]


def _counted(done: Sequence[Done], finds: Sequence[Find]) -> Iterator[Find]:
    """Each find once, with how often the tasks that are done have met it."""
    met = sum((Counter(one.met) for one in done), Counter[str]())
    joined = Collection(msgspec.structs.replace(find, met=0) for find in finds)
    for find in joined:
        yield msgspec.structs.replace(find, met=met[find.key])


def merged(folders: Sequence[Path], target: Path) -> Collection:
    """Join the finds of several shards, and write them to the folder ``target``. Raises
    :class:`SubjectUsageError` where the shards are not of one campaign."""
    read_all = [read(folder / FILE) for folder in folders]
    headers = {str(header): header for header, _, _ in read_all}
    if len(headers) > 1:
        raise SubjectUsageError("merge: the folders are not shards of one campaign")
    (header,) = headers.values()
    done = {one.task: one for _, lines, _ in read_all for one in lines}
    finds = Collection((find for _, _, some in read_all for find in some), blind=header.blind)
    lines: list[Header | Done | Found] = [header, *(done[number] for number in sorted(done))]
    lines += [Found(find=find) for find in finds]
    with usable(target, SubjectError):
        target.mkdir(parents=True, exist_ok=True)
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        (target / FILE).write_bytes(data)
    return finds


def write_told(finds: Collection, folder: Path) -> None:
    """Write ``story.md``, ``replay.py``, ``scenario.py`` and ``report.md`` of each find, in a
    folder of its own beside ``hunt.jsonl``."""
    for number, find in enumerate(finds, start=1):
        own = folder / f"{number:02}-{find.promise}{f'-{find.issue}' if find.issue else ''}"
        with usable(own, SubjectError):
            own.mkdir(parents=True, exist_ok=True)
            (own / "story.md").write_text(telling.story(find))
            (own / "replay.py").write_text(telling.script(find))
            (own / "scenario.py").write_text(telling.scenario(find))
            (own / "report.md").write_text(telling.report(find))
