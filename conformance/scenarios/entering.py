"""Short ways to enter scenarios: core ones, and those that differ from others in values alone.

What belongs here: what decorates a scenario's function, or stands for it. What never does: a
scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from conformance.lockstep import LockstepNode
from conformance.scenario import Body, Capability, Level, Source, promised
from reference.steps import KubeletConfig

#: Enters a core scenario.
core: Final = partial(promised, level=Level.CORE)


def row(
    scenario_id: str,
    title: str,
    promise: str,
    steps: Body,
    *,
    enter: Callable[..., Callable[[Body], Body]] = promised,
    **fields: Any,
) -> None:
    """Enter a scenario that is a row of a table: ``steps`` becomes its function, with the name and
    the docstring that it would have there. ``enter`` and ``fields`` are what decorates a
    scenario's function."""
    area, _, words = scenario_id.partition("/")
    name = words.replace("-", "_")
    steps.__name__ = f"_{name}" if name[0].isdigit() else name
    steps.__doc__ = f"{title}.\n{promise}"
    enter(area=area, **fields)(steps)


def refused(
    scenario_id: str,
    title: str,
    source: Source,
    promise: str,
    config: Callable[[LockstepNode], KubeletConfig],
    *texts: str,
    beyond: Iterable[Capability] = (),
    **fields: Any,
) -> None:
    """Enter a scenario: with this configuration the kubelet does not start, and its error has these
    texts in it. ``beyond``: capabilities that the configuration takes."""

    def steps(node: LockstepNode) -> None:
        node.boot(config(node))
        node.promise_refusal(*texts)

    steps.__module__ = config.__module__
    can = (Capability.START_ERROR, *beyond)
    row(scenario_id, title, promise, steps, source=source, capabilities=can, **fields)
