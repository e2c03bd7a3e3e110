"""What a probe says of the configuration that a node's kubelet runs with.

What belongs here: where it is read, the user's file of the settings that were meant, and the words.
What never does: which settings are compared (:mod:`hil.inspection.running`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from conformance.kubelets.configuration import merged
from conformance.subject import SubjectUsageError
from hil.apiserver import Server
from hil.inspection import NodeFacts, running
from hil.shell import Shell
from hil.transport import NodeAddress
from pinproof.files import documents


def meant_in(path: Path | None) -> dict[str, Any]:
    """The settings of a KubeletConfiguration in a file; none without one. Raises
    :class:`SubjectUsageError`."""
    if path is None:
        return {}
    found = documents(path)
    if len(found) != 1 or not isinstance(found[0], dict):
        raise SubjectUsageError(f"--meant {path}: not one KubeletConfiguration")
    return found[0]


def compared(
    shell: Shell, facts: NodeFacts, address: NodeAddress, meant: Mapping[str, Any]
) -> running.Compared:
    """Compare what is written on the node, overridden by ``meant``, with what runs."""
    written = merged(facts.kubelet.settings if facts.kubelet else {}, meant)
    if address.kubeconfig is None:
        return running.compare(shell, facts, meant=written)
    with contextlib.closing(Server.of(address.kubeconfig, address.context)) as server:
        return running.compare(
            shell,
            facts,
            meant=written,
            ask=lambda: server.ask(
                "connect_get_node_proxy_with_path",
                "read the kubelet's configuration",
                name=address.node or facts.hostname,
                path="configz",
            ),
        )


def as_json(found: running.Compared) -> dict[str, Any]:
    """Plain values; ``same`` is ``null`` where it could not be read."""
    return {
        "told by": found.source,
        "unread": found.unread,
        "same": None if found.unread else not found.differing,
        "settings": [
            {"name": one.name, "written": one.written, "runs": one.runs, "same": one.same}
            for one in found.settings
        ],
    }


def table(found: Mapping[str, Any]) -> Table | Text:
    """Of :func:`as_json`: a line for each setting, or why there is none."""
    if found["unread"]:
        return Text(f"\nThe configuration that runs is not known: {found['unread']}")
    made = Table(box=None, padding=(0, 2, 0, 0), title_justify="left", title_style="bold")
    made.title = f"\nThe configuration that runs, as {found['told by']} reports it"
    for head in ("setting", "written", "runs", ""):
        made.add_column(head, overflow="fold")
    for one in found["settings"]:
        last = Text("" if one["same"] else "differs", style="bold red")
        made.add_row(one["name"], Text(one["written"]), Text(one["runs"]), last)
    return made
