"""The kubelet's settings of ``simulate``, ``draw`` and ``upgrade``: a file, and options.

What belongs here: the options, and what they make: a :class:`reference.steps.KubeletConfig`. What
never does: what a kubelet makes of it; it refuses a wrong value in its own words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from conformance.subject import SubjectUsageError
from pinproof.files import documents
from pinproof.kubelet_configuration import settings_in, with_a_reservation
from pinproof.parameters import option
from reference import CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import KubeletConfig
from topologies.errors import one_line


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
        return self == Given()


@dataclass(frozen=True, slots=True)
class Settings:
    """A kubelet's configuration, and notes on it."""

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
        where = one_line(str(given.config))
        base, notes = settings_in(documents(given.config), where, release=release)
    config = replace(
        base,
        policy=base.policy if given.policy is None else given.policy,
        policy_options={**base.policy_options, **pairs("--policy-option", given.policy_option)},
        feature_gates={**base.feature_gates, **_gates(given.feature_gate)},
        topology_manager_policy=given.topology_manager_policy or base.topology_manager_policy,
        topology_manager_scope=given.topology_manager_scope or base.topology_manager_scope,
        topology_manager_policy_options={
            **base.topology_manager_policy_options,
            **pairs("--topology-manager-policy-option", given.topology_manager_policy_option),
        },
        kube_reserved=_cpu("--kube-reserved", given.kube_reserved) or base.kube_reserved,
        system_reserved=_cpu("--system-reserved", given.system_reserved) or base.system_reserved,
    )
    if given.reserved is not None:
        config = replace(config, reserved_system_cpus=_reserved(given.reserved, release))
    elif given.config is None and config.policy == "static":
        config = with_a_reservation(config, topology, release)
    return Settings(config, tuple(notes))


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


def pairs(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    """What was given to an option as ``NAME=VALUE``. Raises :class:`SubjectUsageError`."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SubjectUsageError(f"{option} {text!r}: it is NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _gates(texts: Iterable[str] | None) -> dict[str, bool]:
    gates = {}
    for name, value in pairs("--feature-gate", texts).items():
        if value.lower() not in ("true", "false"):
            raise SubjectUsageError(f"--feature-gate {f'{name}={value}'!r}: it is true or false")
        gates[name] = value.lower() == "true"
    return gates


def _cpu(option: str, text: str | None) -> str | None:
    """The cpu amount of ``cpu=500m,memory=1Gi``."""
    if text is None:
        return None
    amount = pairs(option, text.split(",")).get("cpu")
    if not amount:
        raise SubjectUsageError(f"{option} {text!r}: it is cpu=AMOUNT, as in cpu=500m")
    return amount
