"""Completing ``node/``: links between NUMA nodes and CPUs, their lists and masks.

A tree without any NUMA node stays so: its kernel knew of none, and the kubelet takes packages for
nodes. Where list, mask and links of a node are all there and disagree, they stay as they are.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_
from typing import Final

from topologies.cpulist import bits, format_list, grouped, ids
from topologies.importing.draft import Draft
from topologies.importing.notes import NoteKind
from topologies.paths import CPU, NODE
from topologies.tree import Link

_MEMBER: Final = re.compile(
    rf"{NODE}/node(?P<node>[0-9]{{1,5}})/cpu(?P<cpu>[0-9]{{1,7}})(?:/.*)?", re.ASCII
)
_HOME: Final = re.compile(rf"{CPU}/cpu(?P<cpu>[0-9]{{1,7}})/node(?P<node>[0-9]{{1,5}})", re.ASCII)
_FILE: Final = re.compile(rf"{NODE}/node([0-9]{{1,5}})/.*", re.ASCII)


def complete_nodes(draft: Draft) -> None:
    """Links come first, because the kubelet reads those."""
    nodes = sorted(_folders(draft) | _named(draft))
    if not nodes:
        draft.note(NoteKind.LACKING, NODE, "no NUMA node; the kubelet takes packages for nodes")
        return
    _repair_links(draft)
    _add_links(draft, nodes)
    _complete_sets(draft, nodes)
    for node in nodes:
        if f"{NODE}/node{node}/meminfo" not in draft.entries:
            draft.note(NoteKind.LACKING, f"{NODE}/node{node}/meminfo", "its memory counts as none")
        if f"{NODE}/node{node}/distance" not in draft.entries:
            draft.note(NoteKind.LACKING, f"{NODE}/node{node}/distance", "no file has the distances")
    _complete_lists(draft, nodes)


def _folders(draft: Draft) -> set[int]:
    return {int(found[1]) for found in map(_FILE.fullmatch, draft.entries) if found}


def _named(draft: Draft) -> set[int]:
    """Nodes that the links of CPUs name: of them those in ``node/online``, or all where that cannot
    be read."""
    named = set(_homes(draft))
    online = draft.cpus(f"{NODE}/online")
    return named if online is None else named & set(ids(online))


def _homes(draft: Draft) -> dict[int, int]:
    """The CPUs of each node by the links in the CPUs' folders."""
    return _by_node(draft, _HOME)


def _linked(draft: Draft) -> dict[int, int]:
    """The CPUs of each node by its links (or folders, where links were followed in packing)."""
    return _by_node(draft, _MEMBER)


def _by_node(draft: Draft, paths: re.Pattern[str]) -> dict[int, int]:
    found = filter(None, map(paths.fullmatch, draft.entries))
    return grouped((int(one["node"]), int(one["cpu"])) for one in found)


def _repair_links(draft: Draft) -> None:
    """Repair links that lead to no CPU: packers that copy a part of sysfs leave such links."""
    folders = draft.folders
    for node, members in sorted(_linked(draft).items()):
        repaired = 0
        for cpu in ids(members & folders):
            path = f"{NODE}/node{node}/cpu{cpu}"
            target = draft.entries.get(path)
            if isinstance(target, Link) and not target.endswith(f"/cpu/cpu{cpu}"):
                draft.entries[path] = Link(f"../../cpu/cpu{cpu}")
                repaired |= 1 << cpu
        if repaired:
            what = f"{NODE}/node{node}/cpu{{{format_list(repaired)}}}"
            why = "the links did not lead to the CPUs they are named by"
            draft.note(NoteKind.REPAIRED, what, why)


def _add_links(draft: Draft, nodes: list[int]) -> None:
    """Add the links of CPUs that have a folder, are in no node's folder, and are in the list or
    mask of exactly one node."""
    linked, folders = reduce(or_, _linked(draft).values(), 0), draft.folders
    homes = _homes(draft)
    claims = {node: _listed(draft, node, homes.get(node, 0)) for node in nodes}
    seen = twice = 0
    for claim in claims.values():
        seen, twice = seen | claim, twice | seen & claim
    for node, claim in claims.items():
        wanted = claim & folders & ~linked & ~twice
        for cpu in ids(wanted):
            draft.entries[f"{NODE}/node{node}/cpu{cpu}"] = Link(f"../../cpu/cpu{cpu}")
        if wanted:
            what = f"{NODE}/node{node}/cpu{{{format_list(wanted)}}}, links"
            why = "the CPUs of its list or mask, or whose own links lead there"
            draft.note(NoteKind.COMPLETED, what, why)
    left = draft.online & ~linked & ~(seen & folders & ~twice)
    if left:
        what = f"the NUMA node of CPUs {format_list(left)}"
        draft.note(NoteKind.LACKING, what, "no node has them; the kubelet leaves them out")


def _listed(draft: Draft, node: int, homes: int) -> int:
    base = f"{NODE}/node{node}"
    listed = draft.cpus(f"{base}/cpulist")
    if listed is None:
        listed = draft.mask(f"{base}/cpumap")
    return homes if listed is None else listed


def _complete_sets(draft: Draft, nodes: list[int]) -> None:
    """``cpulist`` and ``cpumap``: the one from the other, or both from the links."""
    linked = _linked(draft)
    done: dict[tuple[str, str], int] = {}
    for node in nodes:
        base, members = f"{NODE}/node{node}", linked.get(node, 0) & draft.online
        listed, masked = draft.cpus(f"{base}/cpulist"), draft.mask(f"{base}/cpumap")
        for name, other, stated, write in (
            ("cpulist", "cpumap", masked, draft.list_text),
            ("cpumap", "cpulist", listed, draft.mask_text),
        ):
            if f"{base}/{name}" not in draft.entries:
                draft.entries[f"{base}/{name}"] = write(members if stated is None else stated)
                key = name, "the links of each" if stated is None else f"the {other} of each"
                done[key] = done.get(key, 0) | 1 << node
    for (name, why), added in done.items():
        what = f"{NODE}/node{{{format_list(added)}}}/{name}"
        draft.note(NoteKind.COMPLETED, what, why)


def _complete_lists(draft: Draft, nodes: list[int]) -> None:
    every, linked = bits(nodes), _linked(draft)
    with_cpus = bits(node for node in nodes if linked.get(node, 0) & draft.online)
    for name, members in (("online", every), ("possible", every), ("has_cpu", with_cpus)):
        if f"{NODE}/{name}" not in draft.entries:
            draft.complete(f"{NODE}/{name}", draft.list_text(members), "the folders of the nodes")
