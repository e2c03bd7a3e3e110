"""Which scenarios a run inside pytest judges, on which machines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, TypeAlias

import pytest

import topologies
from conformance.catalogue import catalogue
from conformance.judge import Case
from conformance.records import Shard
from conformance.scenario import Level, Scenario
from conformance.session.keywords import may_match
from conformance.session.options import CERTIFICATE
from conformance.session.subject import release_of, subject_of
from conformance.subject import HasOwnMachines, SubjectError, SubjectUsageError
from conformance.verdict import ExitStatus
from reference.errors import ModelError
from reference.releases import require_whole_node
from topologies.errors import one_line

NODE_AREA: Final = "node"
_CASES: Final = pytest.StashKey[list[Case]]()
#: A function that reads each machine, by the machine's name.
_Machines: TypeAlias = Mapping[str, Callable[[], topologies.Machine]]
_SHARD: Final = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


def cases(config: pytest.Config) -> list[Case]:
    """Every scenario on every machine that was asked for, except those that ``-k`` cannot match. A
    scenario about one machine of its own is in the list once, on that machine: if the whole
    catalogue was asked for, or that machine, or, with ``-k``, that scenario. The list is made once
    in each process. A machine is read only if a case of it is left.

    Raises :class:`pytest.UsageError` for an unknown machine or release.
    """
    if _CASES not in config.stash:
        config.stash[_CASES] = _found(config)
    return config.stash[_CASES]


def _found(config: pytest.Config) -> list[Case]:
    try:
        require_whole_node(release_of(config))
        machines = _machines(config)
        level = config.getoption("--pin-level")
        # A scenario about another machine shows nothing about a subject that is a machine.
        real = isinstance(subject_of(config), HasOwnMachines)
        shard, matches = shard_of(config), may_match(config.getoption("-k"))
        return [
            case
            for scenario in catalogue()
            if _is_asked(scenario, level) and not (real and scenario.machine)
            for case in _cases_of(scenario, machines, matches, config)
            if _is_in(shard, case)
        ]
    except (topologies.MachineError, ModelError, SubjectUsageError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    except SubjectError as error:
        pytest.exit(f"pinproof: {one_line(str(error))}", returncode=ExitStatus.COULD_NOT_TELL)


def shard_of(config: pytest.Config) -> Shard | None:
    """The part of the cases that was asked for; ``None``: all. Raises
    :class:`pytest.UsageError`."""
    text = config.getoption("--pin-shard") or ""
    if not text:
        return None
    found = _SHARD.fullmatch(text)
    part, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= part <= of:
        raise pytest.UsageError(f"--shard {one_line(text)}: it is K/N with K from 1 to N, as 2/3")
    return Shard(of=of, parts=[part])


def _is_in(shard: Shard | None, case: Case) -> bool:
    """Whether the case is in the shard. Only the digest of the case's id decides that."""
    if shard is None:
        return True
    digest = hashlib.sha256(case.id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shard.of + 1 in shard.parts


def _is_asked(scenario: Scenario, level: str) -> bool:
    """Whether the level has the scenario. A certificate has core ones, and those of real nodes."""
    if level == CERTIFICATE and scenario.area == NODE_AREA:
        return True
    return level == Level.EXTENDED.value or scenario.level is Level.CORE


def _machines(config: pytest.Config) -> _Machines:
    """The machines that were asked for; for a subject that is machines itself, its own."""
    patterns = config.getoption("--pin-machine") or ["all"]
    subject = subject_of(config)
    if isinstance(subject, HasOwnMachines):
        own = {one.name: one for one in subject.machines}
        return {
            name: partial(own.__getitem__, name)
            for name in own
            if "all" in patterns or name in patterns
        }
    return {name: read for pattern in patterns for name, read in _named_by(pattern).items()}


def _named_by(pattern: str) -> _Machines:
    """The machines that a pattern names; one of a path or a spec is read to get its name."""
    if names := topologies.matching(pattern):
        return {name: cache(partial(topologies.machine, name)) for name in names}
    found = {one.name: one for one in topologies.find(pattern)}
    return {name: partial(found.__getitem__, name) for name in found}


def _cases_of(
    scenario: Scenario, machines: _Machines, matches: Callable[[str], bool], config: pytest.Config
) -> list[Case]:
    if not scenario.machine:
        return [
            Case(scenario, read())
            for name, read in machines.items()
            if matches(f"{scenario.id}@{name}")
        ]
    if not matches(f"{scenario.id}@{scenario.machine}"):
        return []
    own = topologies.machine(scenario.machine)
    is_chosen = own.name in machines and machines[own.name]().digest == own.digest
    by_name = scenario.id.partition("/")[2] in config.getoption("-k").lower()
    takes_all = "all" in (config.getoption("--pin-machine") or ["all"])
    return [Case(scenario, own)] if is_chosen or by_name or takes_all else []


def named_machines(config: pytest.Config) -> set[str]:
    """The machines that were asked for otherwise than by ``all``; for a subject that is machines
    itself, its own."""
    if isinstance(subject_of(config), HasOwnMachines):
        return {*_machines(config)}
    patterns = [one for one in config.getoption("--pin-machine") if one != "all"]
    return {name for pattern in patterns for name in _named_by(pattern)}
