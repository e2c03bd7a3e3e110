"""The certificate as a page: its face, which is one sheet of paper, then an annex.

It is made from the certificate alone. Text of a certificate is cleaned and escaped by the
template's environment. What is too long for the face is cut there, and whole in the annex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from reports.certificate.document import Entry, Facts, Firmware, Level, Machine, Statement
from reports.certificate.making import is_open
from reports.html import environment
from reports.noise import picture
from reports.text import line, many, utc, web_link, when
from topologies import drawing

#: What fits on the face: characters of a fact, settings, and reasons for what is missing.
_FACT: Final = 80
_SETTINGS: Final = 6
_SETTING: Final = 44
_REASONS: Final = 4
_REASON: Final = 100
#: A machine with more CPUs has no picture.
_DRAWN: Final = 1024
_GIB: Final = 1 << 30

_TONES: Final = {
    "success": "pass",
    "partial": "unknown",
    "none": "unknown",
    "not-restored": "unknown",
    "failure": "fail",
}
#: The sign in the seal.
_SIGNS: Final = {"success": "✓", "failure": "✗"}
_MEANING: Final = {
    "success": "Conformant",
    "partial": "Not everything was shown",
    "none": "Nothing was shown",
    "not-restored": "The node was not left as it was found",
    "failure": "Not conformant",
}
_OUTCOMES: Final = {
    "pass": "kept",
    "fail": "broken",
    "unknown": "could not tell",
    "not-run": "not run",
    "skip": "does not apply",
}


def html(statement: Statement) -> str:
    """The page as the text of one HTML document: no network, no script."""
    facts = statement.facts
    profiles = {profile.name: profile for profile in facts.profiles}
    claimed = [name for name, profile in profiles.items() if name == "core" or profile.claimed]
    unclaimed = [name for name in profiles if name not in claimed]
    return (
        environment()
        .get_template("certificate.html.jinja")
        .render(
            facts=facts,
            tone=_TONES[facts.verdict],
            meaning=_MEANING[facts.verdict],
            sign=_SIGNS.get(facts.verdict, "!"),
            core=profiles["core"],
            extended=profiles["extended"],
            number=facts.digest.removeprefix("sha256:")[:12].upper(),
            blocks=_blocks(facts),
            reasons=_reasons(facts)[:_REASONS],
            more_reasons=max(0, len(_reasons(facts)) - _REASONS),
            open_ends=[entry for entry in facts.scenarios if is_open(entry)],
            broken=[entry for entry in facts.scenarios if entry.outcome == "fail"],
            scenarios=_ordered(facts, claimed),
            unclaimed=_ordered(facts, unclaimed),
            outcomes=_OUTCOMES,
            days=_day,
            when=when,
            link=web_link,
            machine=_picture(facts),
            plot=picture(facts.noise) if facts.noise else "",
            owners=_owners(facts),
        )
    )


def _blocks(facts: Facts) -> dict[str, list[tuple[str, str]]]:
    """Name and value of what stands on the face, by heading; empty values are left out."""
    machine, firmware, system = facts.machine, facts.firmware, facts.system
    systemd = f"systemd {system.systemd}" if system.systemd else ""
    unknown = "none: the machine is described" if machine.described else "not named by its kernel"
    threads = machine.threads_per_core
    smt = f"SMT with {threads} threads each" if threads > 1 else "without SMT"
    blocks = {
        "Machine": {
            "Product": f"{firmware.vendor} {firmware.product}".strip(),
            "Board": firmware.board,
            "Processor": machine.processor or unknown,
            "Microcode": machine.microcode,
            "CPUs": f"{machine.cpus} on {machine.cores} physical cores, {smt}",
            "Sockets, NUMA": f"{many(machine.sockets, 'socket')}, "
            + many(machine.numa_nodes, "NUMA node"),
            "Memory": _memory(machine),
            "Firmware": " ".join(
                filter(
                    None,
                    (firmware.firmware_vendor, firmware.firmware_version, firmware.firmware_date),
                )
            ),
            "CPU settings": ", ".join(_cpu_settings(firmware)),
            "Hardware": _hardware(facts),
            "Unit": _unit(facts),
        },
        "System": {
            "Operating system": ", ".join(filter(None, (system.os, systemd))),
            "Kernel": f"{system.kernel} {system.architecture}".strip(),
            "Command line": system.command_line,
            "Control groups": system.cgroup,
            "Container runtime": system.runtime,
            "Distribution": system.distribution,
            "Kubelet": facts.kubelet.version,
            "Allowed to the run": facts.allowed,
            "Operator": facts.operator or "not named",
        },
        "Configuration as found": dict(_settings(facts)),
    }
    return {
        heading: [(name, _cut(text)) for name, text in rows.items() if text]
        for heading, rows in blocks.items()
    }


def _memory(machine: Machine) -> str:
    if not machine.memory:
        return ""
    parts = [f"{size / _GIB:.1f}" for size in machine.memory_by_node.values()]
    alike = f"{len(parts)} x {parts[0]}" if len(set(parts)) == 1 else " + ".join(parts)
    return f"{machine.memory / _GIB:.1f} GiB" + (f" ({alike})" if len(parts) > 1 else "")


def _cpu_settings(firmware: Firmware) -> Iterator[str]:
    """The settings that the machine has."""
    for name, value in firmware.settings.items():
        if value != "not there":
            yield f"{name} {value}"


def _unit(facts: Facts) -> str:
    if facts.kind == "pre-certificate":
        return ""
    return f"by {', '.join(facts.unit.digests)}" if facts.unit.digests else "not named"


def _hardware(facts: Facts) -> str:
    if facts.kind == "pre-certificate":
        described = facts.machine.described
        return f"none: the machine {'is described by its totals' if described else 'was captured'}"
    if facts.system.emulated:
        return f"emulated by {facts.system.emulated}"
    return "not emulated, as far as firmware and systemd show"


def _settings(facts: Facts) -> list[tuple[str, str]]:
    found = [(name, text) for name, text in facts.configuration.settings.items() if text]
    rows = [(name, _cut(text, _SETTING)) for name, text in found[:_SETTINGS]]
    if len(found) > _SETTINGS:
        rows.append(("and", f"{len(found) - _SETTINGS} more settings: see the annex"))
    return rows or [("Configuration", "chosen by each scenario")]


def _cut(text: str, limit: int = _FACT) -> str:
    text = line(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _reasons(facts: Facts) -> list[tuple[int, str]]:
    """Why scenarios that need a verdict have none, each reason with its number, the most frequent
    first."""
    reasons = Counter(line(entry.reason) for entry in facts.scenarios if is_open(entry))
    return [
        (count, _cut(reason, _REASON) or "no reason given")
        for reason, count in reasons.most_common()
    ]


def _ordered(facts: Facts, levels: Collection[Level]) -> list[Entry]:
    """Kept promises first. Lists of their own have those that are broken or open."""
    order = list(_OUTCOMES)
    found = [entry for entry in facts.scenarios if entry.level in levels]
    return sorted(found, key=lambda entry: (order.index(entry.outcome), entry.id))


def _day(text: str) -> str:
    moment = utc(text)
    return f"{moment:%-d %B %Y}" if moment else "none"


def _picture(facts: Facts) -> str:
    places: Mapping[int, tuple[int, int, int, int]] = facts.machine.places
    return drawing.svg(places) if 0 < len(places) <= _DRAWN else ""


def _owners(facts: Facts) -> list[str]:
    """The containers that held CPUs at any stage of an upgrade, in the order of the stages."""
    stages = facts.upgrade.stages if facts.upgrade else []
    return list(dict.fromkeys(owner for stage in stages for owner in stage.exclusive))
