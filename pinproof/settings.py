"""The kubelet's settings of ``simulate``, ``draw`` and ``upgrade``: a file, and options.

What belongs here: the options, and what they make: a :class:`reference.steps.KubeletConfig`. What
never does: what a kubelet makes of it; it refuses a wrong value in its own words.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from conformance.discovered import first_core
from conformance.kubelets.settings import GATES, MAPS_OF_TEXTS, TEXTS, deciding
from conformance.subject import SubjectUsageError
from pinproof.configuration_fields import FIELDS
from pinproof.files import documents
from pinproof.parameters import option
from reference import CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.kubelet.configuration import is_known_gate, reserving
from reference.releases import Release, has
from reference.steps import KubeletConfig
from reports.text import few
from topologies.errors import one_line

#: What a person should know of settings whose memory manager is left out.
NO_MEMORY: Final = "the Memory Manager is not modelled: only CPUs decide the NUMA nodes here"
_KIND: Final = "KubeletConfiguration"
_FIELDS: Final = FIELDS | {"apiVersion", "kind"}
#: The key under which a kubelet gives its configuration away (``/configz``).
_CONFIGZ: Final = "kubeletconfig"
_MANAGER_GATE: Final = "CPUManager"


@dataclass(frozen=True, slots=True)
class Given:
    """What was given on the command line, where each field is an option; ``None``: not given."""

    panel: ClassVar = "Kubelet settings"

    config: Path | None = option(
        None, "A KubeletConfiguration, as a node has it; the options below override it."
    )
    policy: str | None = option(None, "cpuManagerPolicy. Default: static.", metavar="none|static")
    policy_option: list[str] | None = option(
        None,
        "cpuManagerPolicyOptions, as full-pcpus-only=true. May be repeated.",
        metavar="NAME=VALUE",
    )
    topology_manager_policy: str | None = option(
        None, "none, best-effort, restricted or single-numa-node.", metavar="POLICY"
    )
    topology_manager_scope: str | None = option(
        None, "topologyManagerScope.", metavar="container|pod"
    )
    topology_manager_policy_option: list[str] | None = option(
        None, "topologyManagerPolicyOptions. May be repeated.", metavar="NAME=VALUE"
    )
    feature_gate: list[str] | None = option(
        None, "A feature gate. May be repeated.", metavar="NAME=true|false"
    )
    reserved: str | None = option(
        None,
        "reservedSystemCPUs, as 0,4. Default without a configuration: the first physical core.",
        metavar="CPUS",
    )
    kube_reserved: str | None = option(None, "kubeReserved.", metavar="cpu=AMOUNT")
    system_reserved: str | None = option(None, "systemReserved.", metavar="cpu=AMOUNT")

    @property
    def nothing(self) -> bool:
        """Whether nothing was given at all."""
        return self == Given()


@dataclass(frozen=True, slots=True)
class Settings:
    """A kubelet's configuration, and what a person should know of it."""

    config: KubeletConfig
    notes: tuple[str, ...] = field(default=())


def settings_of(given: Given, topology: CPUTopology, *, release: str) -> Settings:
    """The configuration: that of the file, if there is one, overridden by the options. Without a
    file the policy is ``static``, and without any reservation the first physical core is reserved.

    Raises :class:`SubjectUsageError` with the file and the field, or the option, at fault.
    """
    notes: list[str] = []
    base = KubeletConfig()
    if given.config is not None:
        base, notes = _of_file(given.config, release)
    config = replace(
        base,
        policy=base.policy if given.policy is None else given.policy,
        policy_options={**base.policy_options, **_pairs("--policy-option", given.policy_option)},
        feature_gates={**base.feature_gates, **_gates(given.feature_gate)},
        topology_manager_policy=given.topology_manager_policy or base.topology_manager_policy,
        topology_manager_scope=given.topology_manager_scope or base.topology_manager_scope,
        topology_manager_policy_options={
            **base.topology_manager_policy_options,
            **_pairs("--topology-manager-policy-option", given.topology_manager_policy_option),
        },
        kube_reserved=_cpu("--kube-reserved", given.kube_reserved) or base.kube_reserved,
        system_reserved=_cpu("--system-reserved", given.system_reserved) or base.system_reserved,
    )
    if given.reserved is not None:
        config = replace(config, reserved_system_cpus=_reserved(given.reserved, release))
    elif given.config is None and config.policy == "static":
        config = _with_a_reservation(config, topology, release)
    return Settings(config, tuple(notes))


def _with_a_reservation(
    config: KubeletConfig, topology: CPUTopology, release: str
) -> KubeletConfig:
    """Policy static needs one. On a machine without CPUs the kubelet does not start anyway."""
    named = config.kube_reserved is not None or config.system_reserved is not None
    if named or not topology.details:
        return config
    default = reserving(first_core(topology), release=release)
    return replace(
        config,
        reserved_system_cpus=default.reserved_system_cpus,
        system_reserved=default.system_reserved,
    )


# -- options -----------------------------------------------------------------------------------


def _reserved(text: str, release: str) -> CPUSet | None:
    try:
        cpus = CPUSet.parse(text)
    except ValueError as error:
        raise SubjectUsageError(f"--reserved {text!r}: {error}") from error
    if cpus and not has(release, Behaviour.RESERVED_CPU_LIST):
        raise SubjectUsageError(
            f"--reserved {text}: {release} takes no list of reserved CPUs; "
            "--system-reserved cpu=AMOUNT reserves some"
        )
    return cpus or None


def _pairs(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SubjectUsageError(f"{option} {text!r}: it is NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def _gates(texts: Iterable[str] | None) -> dict[str, bool]:
    gates = {}
    for name, value in _pairs("--feature-gate", texts).items():
        if value.lower() not in ("true", "false"):
            raise SubjectUsageError(f"--feature-gate {f'{name}={value}'!r}: it is true or false")
        gates[name] = value.lower() == "true"
    return gates


def _cpu(option: str, text: str | None) -> str | None:
    """The cpu amount of ``cpu=500m,memory=1Gi``."""
    if text is None:
        return None
    amount = _pairs(option, text.split(",")).get("cpu")
    if not amount:
        raise SubjectUsageError(f"{option} {text!r}: it is cpu=AMOUNT, as in cpu=500m")
    return amount


# -- the file ----------------------------------------------------------------------------------


def _of_file(path: Path, release: str) -> tuple[KubeletConfig, list[str]]:
    where = one_line(str(path))
    shape = _configuration(path, where)
    if not Release.parse(release).announced:  # a release to come may know more fields
        _require_fields(shape, where)
    _require_shapes(shape, where)
    notes = []
    gates = shape.get(GATES) or {}
    known = {name: on for name, on in gates.items() if is_known_gate(name)}
    if known.get(_MANAGER_GATE) and has(release, Behaviour.CPU_MANAGER_ON):
        del known[_MANAGER_GATE]  # which says nothing new
    others = sorted(set(gates) - set(known) - {_MANAGER_GATE})
    if others:
        notes.append(f"feature gates ignored, unknown to the model: {few(others)}")
    if str(shape.get("memoryManagerPolicy") or "None").lower() != "none":
        notes.append(NO_MEMORY)
    try:
        return deciding({**shape, GATES: known}), notes
    except ValueError as error:
        raise SubjectUsageError(f"{where}: {one_line(str(error))}") from error


def memory_of(path: Path) -> tuple[str, dict[int, str]]:
    """The memory manager's policy in a KubeletConfiguration, and ``reservedMemory`` by NUMA node:
    empty where it is not of memory alone. Raises as :func:`settings_of`."""
    shape = _configuration(path, one_line(str(path)))
    policy, rows = str(shape.get("memoryManagerPolicy") or "None"), shape.get("reservedMemory")
    reserved: dict[int, str] = {}
    for row in rows if isinstance(rows, list) else ():
        match row:
            case {"numaNode": int(node), "limits": {"memory": str(amount), **others}}:
                if others or node in reserved:
                    return policy, {}
                reserved[node] = amount
            case _:
                return policy, {}
    return policy, reserved


def _configuration(path: Path, where: str) -> Mapping[str, Any]:
    """The one mapping in the file: a KubeletConfiguration, or what a kubelet says of its own."""
    every = documents(path)
    if len(every) != 1 or not isinstance(every[0], dict):
        raise SubjectUsageError(f"{where}: it must hold one {_KIND}")
    shape: dict[str, Any] = every[0]
    if set(shape) == {_CONFIGZ} and isinstance(shape[_CONFIGZ], dict):
        return dict(shape[_CONFIGZ])
    kind = shape.get("kind")
    if kind != _KIND:
        said = "no kind" if kind is None else f"kind {one_line(str(kind), 60)}"
        raise SubjectUsageError(f"{where}: {said}: it is to be a {_KIND}")
    return shape


def _require_fields(shape: Mapping[str, Any], where: str) -> None:
    """A kubelet refuses a field that it does not know, and so a slip of the pen."""
    unknown = next((name for name in map(str, shape) if name not in _FIELDS), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, FIELDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SubjectUsageError(f"{where}: {one_line(unknown, 60)}: no field of a {_KIND}{hint}")


def _require_shapes(shape: Mapping[str, Any], where: str) -> None:
    """What the kubelet's decoder requires: it takes no number and no ``true`` for a text."""
    for name in TEXTS:
        if not isinstance(shape.get(name) or "", str):
            raise SubjectUsageError(f"{where}: {name}: not a string; put it in quotes")
    for name in (*MAPS_OF_TEXTS, GATES):
        _require_map(shape.get(name) or {}, f"{where}: {name}", bool if name == GATES else str)


def _require_map(shape: object, at: str, of: type) -> None:
    if not isinstance(shape, dict) or not all(isinstance(name, str) for name in shape):
        raise SubjectUsageError(f"{at}: not a mapping of names")
    wrong = next((name for name, value in shape.items() if not isinstance(value, of)), None)
    if wrong is not None:
        wanted = "it is true or false" if of is bool else "not a string; put it in quotes"
        raise SubjectUsageError(f"{at}: {one_line(wrong, 60)}: {wanted}")
