"""What a kubelet says of its own configuration, and whether that is what it was given.

What belongs here: reading the settings that decide CPUs from a kubelet's log, in the words of
``str()`` of a :class:`reference.steps.KubeletConfig`, and comparing the two texts. A kubelet that
is wrapped in a script, or patched, may run with other settings than its configuration has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from conformance.kubelets.durations import seconds
from reference.steps import RECONCILE_PERIOD

#: What stands before the settings in evidence.
LABEL: Final = "in effect: "
#: The setting that names reserved CPUs, as a configuration has it.
RESERVED_CPUS: Final = "reservedSystemCPUs"
#: Logged once a start, from 1.8 on (``container_manager_linux.go``): JSON from 1.26 on, before that
#: a Go struct.
_CREATING: Final = "Creating Container Manager object based on Node Config"
_POLICY: Final = re.compile(r'\b(?:Experimental)?CPUManagerPolicy(?:Name)?"?:"?([\w-]+)')
_OPTIONS: Final = re.compile(
    r'"CPUManagerPolicyOptions":\{([^}]*)\}|CPUManagerPolicyOptions:map\[([^]]*)'
)
_TOPOLOGY: Final = re.compile(r'\b(?:Experimental)?TopologyManagerPolicy(?:Name)?"?:"?([\w-]+)')
_TOPOLOGY_OPTIONS: Final = re.compile(
    r'"TopologyManagerPolicyOptions":(?:\{([^}]*)\}|null)|TopologyManagerPolicyOptions:map\[([^]]*)'
)
_SCOPE: Final = re.compile(r'\b(?:Experimental)?TopologyManagerScope"?:"?([\w-]+)')
_MEMORY: Final = re.compile(r'\b(?:Experimental)?MemoryManagerPolicy(?:Name)?"?:"?([\w-]+)')
#: In nanoseconds, or as Go writes a duration.
_PERIOD: Final = re.compile(r'\b(?:Experimental)?CPUManagerReconcilePeriod"?:"?([\w.]+)')
#: ``policy_static.go``: structured, and as it was up to 1.20.
_RESERVED: Final = re.compile(
    r'Reserved CPUs not available for exclusive assignment".* reserved="([\d,-]*)"'
    r'|reserved \d+ CPUs \("([\d,-]*)"\) not available for exclusive assignment'
)
_OPTION: Final = "option"
_TOPOLOGY_OPTION: Final = "Topology Manager option"
_RECONCILES: Final = "cpuManagerReconcilePeriod"
_STEP: Final = re.compile(r"(?:on \S+, with|configure the kubelet:) (policy .*)")


def tells_settings(line: str) -> bool:
    """Whether :func:`in_effect` reads something in this line of a log."""
    return _CREATING in line or _RESERVED.search(line) is not None


def in_effect(lines: Sequence[str]) -> str:
    """The settings of the last start among these lines of a log, as ``policy static,
    reservedSystemCPUs 0,4, Topology Manager restricted``; ``""`` where the kubelet did not say.
    Options are those of the static policy. Reserved CPUs stand there however they were chosen."""
    starts = [place for place, line in enumerate(lines) if _CREATING in line]
    if not starts:
        return ""
    config, later = lines[starts[-1]], lines[starts[-1] + 1 :]
    reserved = [f"{RESERVED_CPUS} {found}" for line in later if (found := _of(_RESERVED, line))]
    named = (
        ("policy", _of(_POLICY, config)),
        ("Topology Manager", _of(_TOPOLOGY, config)),
        ("Topology Manager scope", _of(_SCOPE, config)),
        ("memory manager", _of(_MEMORY, config)),
        (_RECONCILES, _period(_of(_PERIOD, config))),
    )
    settings = [f"{name} {value}" for name, value in named if value]
    options = _options(_OPTION, _of(_OPTIONS, config))
    if _TOPOLOGY_OPTIONS.search(config):
        of_topology = _options(_TOPOLOGY_OPTION, _of(_TOPOLOGY_OPTIONS, config))
        settings += of_topology or [f"{_TOPOLOGY_OPTION}s none"]
    return ", ".join([*settings[:1], *reserved[:1], *options, *settings[1:]])


def _options(kind: str, text: str) -> list[str]:
    pairs = re.split("[, ]", text.replace('"', ""))
    return sorted(f"{kind} {pair.replace(':', '=')}" for pair in pairs if pair)


def _period(text: str) -> str:
    """``0.1 s`` of ``100000000`` or ``100ms``."""
    if text.isdigit():
        return f"{int(text) / 1e9:g} s"
    found = seconds(text)
    return "" if found is None else f"{float(found):g} s"


def _of(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


def differing(steps: Iterable[str], evidence: str) -> tuple[tuple[str, str, str], ...]:
    """The settings whose value in effect differs from the last configuration among the ``steps``:
    name, value given, value in effect. ``""`` is a setting that is not set. There are none if
    ``evidence`` does not say what was in effect."""
    seen = next((one for one in evidence.splitlines() if one.startswith(LABEL)), "")
    given = [found[1] for step in steps if (found := _STEP.match(step))]
    if not seen or not given:
        return ()
    logged, configured = settings_by_name(seen.removeprefix(LABEL)), settings_by_name(given[-1])
    names = [*_DEFAULTS, *sorted(one for one in logged | configured if one.startswith(_WITH_NAME))]
    return tuple(
        (name, given_value, value)
        for name in names
        if name in logged | configured and _is_comparable(name, configured, logged)
        if (given_value := _value(configured, name)) != (value := _value(logged, name))
    )


#: What the names of options start with.
_WITH_NAME: Final = (f"{_OPTION} ", f"{_TOPOLOGY_OPTION} ")
_DEFAULTS: Final = {
    "policy": "none",
    RESERVED_CPUS: "",
    "Topology Manager": "none",
    "Topology Manager scope": "container",
    "memory manager": "None",
    _RECONCILES: f"{RECONCILE_PERIOD / 1000:g} s",
}


def _is_comparable(name: str, configured: dict[str, str], logged: dict[str, str]) -> bool:
    """Whether both sides can name the setting. Reserved CPUs that were not configured are chosen by
    the policy, and policy none does not log them. A release before a manager has none of its
    settings."""
    if name == RESERVED_CPUS:
        return name in configured and name in logged
    if name.startswith(f"{_TOPOLOGY_OPTION} "):
        return any(one.startswith(_TOPOLOGY_OPTION) for one in logged)
    return name.startswith(f"{_OPTION} ") or name in logged


def _value(settings: dict[str, str], name: str) -> str:
    return settings.get(name, _DEFAULTS.get(name, ""))


def settings_by_name(text: str) -> dict[str, str]:
    """Names and values of ``policy static, option full-pcpus-only=true, …``."""
    found = {}
    for one in text.split(", "):
        if one.startswith(_RECONCILES):
            found[_RECONCILES] = one.removeprefix(f"{_RECONCILES} ")
            continue
        name, _, value = one.rpartition("=" if one.startswith(_WITH_NAME) else " ")
        found[name] = value
    return found
