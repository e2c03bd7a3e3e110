"""``pinproof probe``: what a node is, and which scenarios it can take; nothing is changed on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.catalogue import catalogue
from conformance.discovered import topology_of
from conformance.scenario import Scenario
from conformance.subject import Capability
from conformance.verdict import ExitStatus
from hil.abilities import capabilities, unable
from hil.distributions import Distribution, distribution_of
from hil.inspection import NodeFacts, gather
from hil.safety import Risk, left_by_a_run, risk_of
from hil.session.booting import may_boot
from hil.shell import NodeError, NodeUsageError
from hil.transport import NodeAddress, connected, each, nodes
from pinproof import password, written_configuration
from pinproof.output import print_json
from pinproof.parameters import (
    AcceptNewHostKey,
    AsJson,
    KnownHosts,
    Kubeconfig,
    TransportImage,
    argument,
    option,
    with_options,
)
from pinproof.password import AskSudoPassword
from pinproof.progress import busy
from reference import NEWEST, CPUTopology, DiscoveryError
from topologies.errors import one_line


@dataclass(frozen=True, slots=True)
class Login:
    """The nodes that are named, and what the command line adds to their inventory; each field is a
    parameter of ``probe`` and ``restore``."""

    node: str = argument("ssh://user@host[:port], kube://NODE, local: or an inventory NAME.toml.")
    accept_new_host_key: AcceptNewHostKey = False
    known_hosts: KnownHosts = None
    key: Path | None = option(None, "A private key.")
    kubeconfig: Kubeconfig = None
    transport_image: TransportImage = ""
    sudo: bool = option(False, "Become root with sudo, which must not ask for a password.")
    ask_sudo_password: AskSudoPassword = False

    def addresses(self) -> list[NodeAddress]:
        """The nodes; a password is asked for here. Raises :class:`hil.shell.NodeUsageError` and
        :class:`conformance.subject.SubjectUsageError`."""
        given: dict[str, Any] = {
            "accept_new": self.accept_new_host_key,
            "known_hosts": self.known_hosts,
            "identity": self.key and (self.key,),
            "sudo": self.sudo,
            "kubeconfig": self.kubeconfig,
            "transport_image": self.transport_image,
        }
        added = {name: value for name, value in given.items() if value}
        found = [dataclasses.replace(one, **added) for one in nodes(self.node)]
        if self.ask_sudo_password:
            password.ask()
        return found


@with_options
def probe(
    *,
    max_risk: Annotated[str, typer.Option(help="What a run may do to the node.")] = Risk.PODS.value,
    meant: Annotated[
        Path | None,
        typer.Option(
            help="A KubeletConfiguration: its settings count as written on the node.",
            metavar="FILE",
        ),
    ] = None,
    login: Login,
    as_json: AsJson = False,
) -> None:
    """Show the facts of a node: kubelet, runtime, cgroups, kernel, machine, distribution; and say
    which scenarios apply there and why the others do not. Reads only.

    The settings that decide CPUs are shown as they are written on the node and as the kubelet runs
    with them. Exit status 1: they differ."""
    risk = risk_named(max_risk)
    wanted = written_configuration.meant_in(meant)
    addresses = login.addresses()
    with busy("probe") as say:
        say(", ".join(one.name for one in addresses))
        results = each(addresses, lambda address: _probed(address, risk, wanted))
    failed = next((one for one in results if isinstance(one, NodeError)), None)
    found: list[dict[str, Any]] = [
        {"node": address.name, "error": one_line(str(one))} if isinstance(one, NodeError) else one
        for address, one in zip(addresses, results, strict=True)
    ]
    if as_json:
        print_json(found)
    else:
        for one in found:
            _print(one)
    if failed is not None:
        raise failed
    if any(one["configuration"]["same"] is False for one in found):
        raise typer.Exit(ExitStatus.NOT_CONFORMANT)


def risk_named(text: str) -> Risk:
    """The risk of this name. Raises :class:`NodeUsageError`."""
    try:
        return Risk(text)
    except ValueError:
        known = ", ".join(one.value for one in Risk)
        raise NodeUsageError(f"--max-risk {one_line(text)!r}: it is one of {known}") from None


def _probed(address: NodeAddress, risk: Risk, meant: Mapping[str, Any]) -> dict[str, Any]:
    with connected(address) as shell:
        facts = gather(shell, paths=address.kubelet)
        compared = written_configuration.compared(shell, facts, address, meant)
        left = left_by_a_run(shell) if facts.leftovers else []
        trips = shell.trips
    distribution = distribution_of(facts)
    reasons = reasons_against(
        facts, risk, boots=may_boot(address), server=address.kubeconfig is not None
    )
    return {
        "node": address.name,
        "address": address.url,
        "distribution": distribution.name,
        "facts": facts_by_name(facts) | _of_kind(facts, distribution) | {"of that run": left},
        "configuration": written_configuration.as_json(compared),
        "scenarios": {
            "apply": [one for one, reason in reasons.items() if not reason],
            "do not apply": {one: reason for one, reason in reasons.items() if reason},
        },
        "max risk": risk.value,
        "round trips": trips,
    }


def facts_by_name(facts: NodeFacts) -> dict[str, Any]:
    """Facts as plain values, by the names that people use."""
    kubelet = facts.kubelet
    topology = _topology(facts)
    values: dict[str, Any] = {
        "host name": facts.hostname,
        "kernel": f"{facts.kernel} {facts.arch}",
        "kernel command line": facts.command_line,
        "CPUs online": str(facts.online),
        "CPUs possible": str(facts.possible),
        "CPUs isolated": str(facts.isolated),
        "CPUs nohz_full": str(facts.nohz_full),
        "machine": f"{topology.num_sockets} sockets, {topology.num_numa_nodes} NUMA nodes, "
        f"{topology.num_cores} physical cores, {topology.num_cpus} CPUs"
        if topology
        else "unknown",
        "cgroup": f"v{facts.cgroup.version}, driver {facts.cgroup.driver or 'unknown'}"
        + ("" if facts.cgroup.cpuset else ", no cpuset controller"),
        "runtime": f"{facts.runtime.name} {facts.runtime.version}".strip() or "none found",
        "runtime endpoint": facts.runtime.endpoint,
        "systemd": facts.systemd or "no",
        "tools": sorted(facts.tools),
        "free bytes": dict(facts.free),
        "pods": len(facts.workloads),
        "pinned pods": sum(bool(one.pinned) for one in facts.workloads),
        "left by a run": list(facts.leftovers),
        "odd": list(facts.oddities),
    }
    if kubelet is None:
        return values | {"kubelet": "none found"}
    return values | {
        "kubelet": kubelet.version or f"unknown version: it {kubelet.unsaid}",
        "kubelet binary": kubelet.binary,
        "kubelet unit": kubelet.unit,
        "kubelet runs": kubelet.process is not None,
        "kubelet flags": dict(kubelet.flags),
        "configuration file": kubelet.config_path,
        "drop-ins": list(kubelet.drop_ins),
        "root directory": kubelet.root_dir,
        "manifests": kubelet.manifests,
        "CPU Manager policy": kubelet.policy,
        "reserved CPUs": str(kubelet.settings.get("reservedSystemCPUs") or ""),
        "state file": f"{kubelet.state_path}"
        + ("" if kubelet.state_file is not None else " (not there)"),
        "state survives a restart": facts.survives_restart.value,
        "state survives a reboot": facts.survives_reboot.value,
    }


def _of_kind(facts: NodeFacts, distribution: Distribution) -> dict[str, str]:
    """Whether this distribution's kubelet can be restarted and configured, and whether that
    lasts."""
    if facts.kubelet is None:
        return {}
    restart, configure = distribution.cannot_restart(facts), distribution.cannot_configure(facts)
    lost = configure or distribution.lost_at_boot(facts)
    return {
        "kubelet can be restarted": f"no: {restart}" if restart else "yes",
        "configuration can be changed": f"no: {configure}" if configure else "yes",
        "a changed configuration survives a reboot": f"no: {lost}" if lost else "yes",
    }


def _topology(facts: NodeFacts) -> CPUTopology | None:
    try:
        return topology_of(facts.machine, release=_release(facts))
    except DiscoveryError:
        return None


def _release(facts: NodeFacts) -> str:
    release = facts.kubelet.release if facts.kubelet else ""
    return release or str(NEWEST)


def reasons_against(
    facts: NodeFacts, risk: Risk, *, boots: bool, server: bool = False
) -> dict[str, str]:
    """Each scenario of the catalogue, and why it does not apply to the node; ``""``: it does.
    ``boots`` and ``server`` as of :func:`hil.abilities.capabilities`."""
    if facts.kubelet is None:
        return dict.fromkeys((one.id for one in catalogue()), "there is no kubelet on the node")
    able = capabilities(facts, Risk.REBOOT, boots=boots, server=server)
    why = unable(facts)
    return {one.id: _reason(one, facts, risk, able, why) for one in catalogue()}


def _reason(
    scenario: Scenario,
    facts: NodeFacts,
    risk: Risk,
    able: frozenset[Capability],
    why: Mapping[Capability, str],
) -> str:
    if not_promised := scenario.not_promised_in(_release(facts)):
        return not_promised
    if scenario.of_fork:
        return f"promised by forks with the behaviour {scenario.of_fork.title}"
    if scenario.machine:
        return f"is about the catalogue's machine {scenario.machine}, and never run on a real node"
    topology = _topology(facts)
    if topology is None:
        return "the kubelet would find no machine"
    if lacking := scenario.needs.missing(topology):
        return lacking
    # What the node cannot do is named first: no ``--max-risk`` changes it.
    if missing := scenario.capabilities - able:
        said = sorted(f"{one.value}: {why[one]}" if one in why else one.value for one in missing)
        return f"cannot {'; '.join(said)}"
    needed = risk_of(scenario.capabilities)
    return f"needs --max-risk {needed.value}" if needed > risk else ""


def _print(one: Mapping[str, Any]) -> None:
    console = Console(highlight=False, emoji=False)
    if "error" in one:
        console.print(Text(f"{one['node']}: {one['error']}"), soft_wrap=True)
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text("node", style="bold"), Text(f"{one['node']} ({one['address']})"))
    table.add_row("distribution", Text(one["distribution"]))
    for name, value in one["facts"].items():
        if value not in ("", [], {}):
            table.add_row(name, Text(one_line(_shown(value), limit=2000)))
    console.print(table)
    console.print(written_configuration.table(one["configuration"]), soft_wrap=True)
    scenarios = one["scenarios"]
    against: dict[str, int] = {}
    for reason in scenarios["do not apply"].values():
        against[reason] = against.get(reason, 0) + 1
    console.print(
        f"\n{len(scenarios['apply'])} scenarios apply at --max-risk {one['max risk']}; "
        f"{len(scenarios['do not apply'])} do not:"
    )
    for reason, count in sorted(against.items(), key=lambda pair: -pair[1]):
        console.print(Text(f"  {count:4}  {reason}"), soft_wrap=True)
    console.print(f"{one['round trips']} round trips\n")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
