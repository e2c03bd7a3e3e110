"""Which scenarios a run inside pytest judges, on which machines."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import pytest

import topologies
from conformance.catalogue import catalogue
from conformance.judge import Case
from conformance.records import Shard
from conformance.scenario import Level, Scenario
from conformance.session.options import CERTIFICATE
from conformance.session.subject import release_of, subject_of
from conformance.subject import HasOwnMachines, SubjectError, SubjectUsageError
from conformance.verdict import ExitStatus
from reference.errors import ModelError
from reference.releases import require_whole_node
from topologies.errors import one_line

NODE_AREA: Final = "node"
_SHARD: Final = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


def cases(config: pytest.Config) -> list[Case]:
    """Every scenario on every machine that was asked for. A scenario about one machine of its own
    stands in the list once, on that machine: where the whole catalogue was asked for, that machine,
    or, with ``-k``, that scenario.

    Raises :class:`pytest.UsageError` for an unknown machine or release.
    """
    try:
        require_whole_node(release_of(config))
        machines = _machines(config)
        unique = {machine.name: machine for machine in machines}
        level = config.getoption("--pin-level")
        # Of a subject that is a machine, a scenario about another one says nothing.
        real = isinstance(subject_of(config), HasOwnMachines)
        shard = shard_of(config)
        return [
            case
            for scenario in catalogue()
            if _is_asked(scenario, level) and not (real and scenario.machine)
            for case in _cases_of(scenario, unique, config)
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
    """By the digest of its id alone: no other case, machine or order moves it to another shard."""
    if shard is None:
        return True
    digest = hashlib.sha256(case.id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shard.of + 1 in shard.parts


def _is_asked(scenario: Scenario, level: str) -> bool:
    """A certificate is about every core promise, and about all that only a real node can show."""
    if level == CERTIFICATE and scenario.area == NODE_AREA:
        return True
    return level == Level.EXTENDED.value or scenario.level is Level.CORE


def _machines(config: pytest.Config) -> list[topologies.Machine]:
    """Those that were asked for; of a subject that is a machine itself, its own."""
    patterns = config.getoption("--pin-machine") or ["all"]
    subject = subject_of(config)
    if isinstance(subject, HasOwnMachines):
        return [one for one in subject.machines if "all" in patterns or one.name in patterns]
    return [machine for pattern in patterns for machine in topologies.find(pattern)]


def _cases_of(
    scenario: Scenario, machines: dict[str, topologies.Machine], config: pytest.Config
) -> list[Case]:
    if not scenario.machine:
        return [Case(scenario, machine) for machine in machines.values()]
    own = topologies.machine(scenario.machine)
    chosen = machines.get(own.name)
    is_chosen = chosen is not None and chosen.digest == own.digest
    by_name = scenario.id.partition("/")[2] in config.getoption("-k").lower()
    takes_all = "all" in (config.getoption("--pin-machine") or ["all"])
    return [Case(scenario, own)] if is_chosen or by_name or takes_all else []


def named_machines(config: pytest.Config) -> set[str]:
    """The machines that were asked for by more than ``all``; those of a subject that is machines
    itself came with its name."""
    if isinstance(subject_of(config), HasOwnMachines):
        return {machine.name for machine in _machines(config)}
    patterns = [one for one in config.getoption("--pin-machine") if one != "all"]
    return {machine.name for pattern in patterns for machine in topologies.find(pattern)}
