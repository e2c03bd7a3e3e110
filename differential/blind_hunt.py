"""Which past defects the hunt finds without knowledge of them: docs/tables/blind-hunt.md.

    python -m differential.blind_hunt > docs/tables/blind-hunt.md

``historical_bugs.toml`` has the defects. Each that the hunt should find is searched blind on a
release that had it: every history up to a depth on one machine with one configuration. It counts
as found if a history breaks the promise that the defect breaks.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from differential import markdown
from hunting.finds import Find
from hunting.finds import found as find_of
from hunting.replaying import replayed
from hunting.scope import POD_LEVEL, Task, config_of
from hunting.walk import Broken, search
from reference import CPUSet
from reference.steps import KubeletConfig

_FILE: Final = Path(__file__).parent / "historical_bugs.toml"


class Search(msgspec.Struct, frozen=True):
    """Where a defect is searched. ``options`` may be ``pod-level``: no option, and the managers of
    pod-level resources, under scope ``pod``. ``moves`` are families (``hunting.families``),
    ``reserved`` the CPUs that are reserved, ``gates`` feature gates that are on; ``cluster``: pods
    come from an API server. ``mended``: a release without the defect, which has to keep the
    promise, so that another defect does not count for it."""

    release: str
    machine: str
    depth: int
    promise: str
    options: list[str] = []
    topology_manager: str = "none"
    moves: list[str] = []
    reserved: list[int] = []
    gates: list[str] = []
    cluster: bool = False
    mended: str = ""

    @property
    def task(self) -> Task:
        if self.options == ["pod-level"]:
            config = KubeletConfig(
                reserved_system_cpus=CPUSet([0]),
                topology_manager_policy=self.topology_manager,
                topology_manager_scope="pod",
                feature_gates=POD_LEVEL,
            )
        else:
            options = dict.fromkeys(self.options, "true")
            config = config_of(self.release, options, self.topology_manager)
        if self.reserved:
            config = replace(config, reserved_system_cpus=CPUSet(self.reserved))
        gates = {**config.feature_gates, **dict.fromkeys(self.gates, True)}
        config = replace(config, feature_gates=gates, api_server=self.cluster)
        return Task(self.release, self.machine, config)


class Bug(msgspec.Struct, frozen=True):
    """A defect: ``search`` says where it is searched, or ``beyond`` why it is not."""

    number: str
    title: str
    releases: str
    search: Search | None = None
    beyond: str = ""


def bugs() -> list[Bug]:
    return msgspec.convert(tomllib.loads(_FILE.read_text())["bug"], list[Bug])


def found(bug: Bug) -> Find | None:
    """The first find that breaks the promise of the defect; ``None``: there is none."""
    if bug.search is None:
        return None
    for broken in search(bug.search.task, bug.search.depth, families=tuple(bug.search.moves)):
        if broken.promise == bug.search.promise and _is_mended(broken, bug.search.mended):
            return find_of(broken, 0)
    return None


def _is_mended(broken: Broken, mended: str) -> bool:
    """Whether the same history keeps the promise on the ``mended`` release, if one is named."""
    task = replace(broken.task, release=mended)
    return not mended or replayed(task, broken.steps, broken.promise) is None


def page() -> str:
    rows = [(bug, found(bug)) for bug in bugs()]
    count = sum(one is not None for _, one in rows)
    table = [
        "| defect | releases | found in | families | promise | steps | why not |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(bug, find) for bug, find in rows),
    ]
    text = (
        f"The [hunt](../how-to/hunting.md) finds {count} of {len(rows)} past defects in a release "
        "that had them. It knows nothing of the defects: it tries all sequences of steps up to a "
        "given length, and judges them by the promises alone. The machine, the configuration and "
        "the families of moves (`--moves`) were chosen so that the defect can show. A known "
        "release without the defect keeps the promise in the same steps. The last column says why "
        "the hunt does not find the other defects. `python -m differential.blind_hunt` writes "
        "this page."
    )
    return markdown.page(["# The blind hunt", text, table])


def _row(bug: Bug, find: Find | None) -> str:
    number = bug.number
    if number.isdigit():
        number = f"[{number}](https://github.com/kubernetes/kubernetes/issues/{number})"
    seen = f" | | | | {bug.beyond or 'not found in this scope'}"
    if find and bug.search:
        moves = ", ".join(bug.search.moves)
        seen = f"{find.release}, {find.machine} | {moves} | {find.promise} | {len(find.steps)} |"
    return f"| {number}: {bug.title} | {bug.releases} | {seen} |"


if __name__ == "__main__":
    sys.stdout.write(page())
