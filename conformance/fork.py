"""What a fork of the kubelet changes on purpose, as its owner keeps it in a file (TOML,
docs/how-to/gating-a-fork.md).

What belongs here: reading that file. Named behaviours that the fork has or lacks change what the
fork is judged by. Differences that have no such name are known failures
(:mod:`conformance.known`), each with a name of the fork's own. Files are put where the fork's
kubelet looks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

from conformance.known import KnownFailuresError, checked, loaded, require_known
from conformance.kubelets.put import checked as checked_file
from conformance.records import KnownFailure
from conformance.subject import SubjectUsageError
from reference.behaviours import Behaviour
from reference.releases import AnyRelease, has

_TOP: Final = {"fork": str, "behaviour": list, "difference": list, "files": dict}
_BEHAVIOUR: Final = {"name": str, "on": bool, "reason": str, "link": str}
_DIFFERENCE: Final = {
    "name": str, "scenarios": list, "machines": list, "differs": str, "reason": str, "link": str,
    "expires": date,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork's file. ``behaviours``: whether it has each named behaviour; ``differences``: entries
    of a list of known failures; ``files``: what is put into a sandbox, by its path there."""

    path: Path | None = None
    name: str = ""
    behaviours: Mapping[Behaviour, bool] = field(default_factory=dict)
    differences: Sequence[KnownFailure] = ()
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def overrides(self) -> list[str]:
        """Its behaviours as ``--behaviour`` takes them."""
        return [f"{one.title}={'on' if on else 'off'}" for one, on in self.behaviours.items()]

    def idle(self, release: AnyRelease) -> list[str]:
        """A line for each behaviour in which the fork does not differ from its release."""
        return [
            f"{self.path}: {one.title}: {release} {'has' if on else 'lacks'} it anyway, remove it"
            for one, on in self.behaviours.items()
            if has(release, one) is on
        ]


def read(path: Path, ids: Collection[str]) -> Fork:
    """The fork's file; ``ids`` are those of all scenarios. Raises
    :class:`conformance.known.KnownFailuresError`."""
    table = checked(loaded(path), _TOP, (), f"{path}")
    return Fork(
        path,
        table.get("fork", ""),
        dict(_behaviours(path, table.get("behaviour", []))),
        [
            entry
            for number, one in enumerate(table.get("difference", []), 1)
            for entry in _difference(one, f"{path}: difference {number}", ids)
        ],
        {inside: _put(path, inside, name) for inside, name in table.get("files", {}).items()},
    )


def _put(path: Path, inside: str, name: Any) -> Path:
    """A file that is put into a sandbox; ``name`` is relative to the fork's file at ``path``."""
    if not isinstance(name, str) or not name:
        raise KnownFailuresError(f"{path}: files: {inside} is the name of a file")
    try:
        return checked_file(inside, path.parent / name)
    except SubjectUsageError as error:
        raise KnownFailuresError(f"{path}: files: {error}") from error


def _behaviours(path: Path, tables: Sequence[Any]) -> dict[Behaviour, bool]:
    found: dict[Behaviour, bool] = {}
    for number, one in enumerate(tables, 1):
        where = f"{path}: behaviour {number}"
        table = checked(one, _BEHAVIOUR, ("name", "reason"), where)
        name = table["name"]
        require_known("behaviour", name, [each.title for each in Behaviour], where)
        if Behaviour.named(name) in found:
            raise KnownFailuresError(f"{where}: {name} is listed twice")
        found[Behaviour.named(name)] = table.get("on", True)
    return found


def _difference(given: Any, where: str, ids: Collection[str]) -> list[KnownFailure]:
    table = checked(given, _DIFFERENCE, ("name", "scenarios", "reason"), where)
    scenarios, machines = table["scenarios"], table.get("machines", ["*"])
    for name, values in (("scenarios", scenarios), ("machines", machines)):
        if not values or not all(isinstance(one, str) and one for one in values):
            raise KnownFailuresError(f"{where}: {name} is a list of texts")
    for one in scenarios:
        require_known("scenario", one, ids, where)
    expires = table.get("expires")
    return [
        KnownFailure(
            scenario=scenario,
            machine=machine,
            reason=table["reason"],
            link=table.get("link", ""),
            expires=expires.isoformat() if expires else "",
            name=table["name"],
            differs=table.get("differs", ""),
        )
        for scenario in scenarios
        for machine in machines
    ]
