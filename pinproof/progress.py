"""Progress of long work: a bar on a terminal, lines on stderr in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from conformance.progress import Stage, now_and_then
from reports.text import clean


@contextmanager
def busy(title: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of the block, which calls the value with each stage in words. Nothing is
    shown before the first stage."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield now_and_then(
            lambda stage: console.print(
                f"pinproof: {title}: {clean(str(stage))}", markup=False, soft_wrap=True
            )
        )
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(title, total=None)
    started = False

    def say(stage: str) -> None:
        nonlocal started
        if not started:
            bar.start()
            started = True
        done, total = (stage.done, stage.total) if isinstance(stage, Stage) else (0, None)
        shown = f"{title}: {clean(str(stage))}"
        bar.update(task, description=shown, completed=done, total=total)

    try:
        yield say
    finally:
        if started:
            bar.stop()
