"""A machine in the protocol: cAdvisor's ``MachineInfo`` (``info/v1``) in JSON.

What belongs here: the form. What never does: discovery (``reference.discover``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from reference import Cache, Core, MachineInfo, NUMANode

_KEPT = 64
_lines: dict[int, tuple[MachineInfo, msgspec.Raw]] = {}


def machine_line(info: MachineInfo) -> msgspec.Raw:
    """The machine in JSON; the last :data:`_KEPT` are cached by the object's identity."""
    kept = _lines.get(id(info))
    if kept is None:
        while len(_lines) >= _KEPT:
            _lines.pop(next(iter(_lines)))
        # The machine is kept beside its text, so that its id stays its own.
        kept = _lines[id(info)] = (info, msgspec.Raw(msgspec.json.encode(machine_info(info))))
    return kept[1]


def machine_info(info: MachineInfo) -> dict[str, Any]:
    """The fields that the two managers read, under cAdvisor's names."""
    return {
        "num_cores": info.num_cores,
        "num_physical_cores": info.num_physical_cores or 0,
        "num_sockets": info.num_sockets or 0,
        "topology": [_node(one) for one in info.nodes],
    }


def _node(node: NUMANode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "memory": node.memory,
        "cores": [_core(one) for one in node.cores],
        "caches": [_cache(one) for one in node.caches],
        "distances": list(node.distances),
    }


def _core(core: Core) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "core_id": core.core_id,
        "thread_ids": list(core.thread_ids),
        "caches": [_cache(one) for one in core.caches],
        "uncore_caches": [_cache(one) for one in core.uncore_caches],
        "socket_id": core.socket_id,
    }
    if core.book:
        shape["book_id"] = core.book
    if core.drawer:
        shape["drawer_id"] = core.drawer
    return shape


def _cache(cache: Cache) -> dict[str, Any]:
    return {"id": cache.id, "size": cache.size, "type": cache.type, "level": cache.level}
