"""What lscpu and lstopo print of a machine, as a tree.

It reads ``lscpu -p`` and ``lscpu -e`` (with any columns), ``lscpu -J -e``, and ``lstopo --of xml``
of hwloc 1 and 2. None of them prints all that a kubelet reads: the notes say what was made up or is
not known. What never belongs here: running those programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from topologies.cpulist import ids
from topologies.errors import BrokenMachine
from topologies.importing.notes import Note, NoteKind
from topologies.importing.tables import Row, tree_of
from topologies.tree import Tree

_Read: TypeAlias = tuple[Tree, tuple[Note, ...]]
_Objects: TypeAlias = Sequence[tuple[int, ElementTree.Element]]

#: What is printed of the largest machine is a tenth of this.
_MOST_BYTES: Final = 32 << 20
_ROW: Final = re.compile(r"[0-9]+(?:,[^,\n]*)+")
#: An offline CPU: lscpu leaves out the columns of caches, and writes JSON that has no value there.
_OFFLINE: Final = re.compile(r"[0-9]+,+N")
_DASH: Final = re.compile(r'(":\s*)-(?=\s*[,}])')
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_YES: Final = (True, "yes", "Y", "true", "1")
_HEADS: Final = re.compile(r"CPU(?: +[A-Z0-9a-z:()%-]+)+ *(?:\n|$)")
_NO_TOPOLOGY: Final = "`{}` does not list single CPUs: give it what `lscpu -J -e` prints"
_LSCPU: Final = (
    Note(NoteKind.COMPLETED, "cpu/cpu*/topology", "lscpu numbers cores and sockets by itself"),
    Note(NoteKind.COMPLETED, "cpu/cpu*/cache/index3/size", "lscpu prints none in its table"),
    Note(NoteKind.LACKING, "node/node*/meminfo", "lscpu prints no memory and no distances"),
)
_LSTOPO: Final = (
    Note(NoteKind.LACKING, "node/node*/distance", "lstopo's XML has them in a form of its own"),
)


def read_printed(path: Path) -> tuple[Tree, tuple[Note, ...]] | None:
    """The tree that a file with such output describes, and notes on what it lacks; ``None`` where
    the file is something else, such as an archive. Raises :class:`BrokenMachine` for output that is
    cut off, contradicts itself, or lacks what a topology needs; the error then names the command
    that prints it."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        text = path.read_bytes().decode()
        reader = _reader(text.lstrip("\ufeff \t\r\n"))
        return reader(text) if reader else None
    except UnicodeDecodeError:
        return None
    except OSError as error:
        raise BrokenMachine(str(path), error.strerror or str(error)) from error
    except (ValueError, ElementTree.ParseError, RecursionError) as error:
        raise BrokenMachine(str(path), str(error)) from error


def _reader(start: str) -> Callable[[str], _Read] | None:
    if start.startswith("{"):
        return _json
    if start.startswith(("<?xml", "<!DOCTYPE topology", "<topology")):
        return _xml
    if start.startswith("# ") or _ROW.match(start):
        return _csv
    if _HEADS.match(start):
        return _table
    if start.startswith("Architecture:"):
        raise ValueError(_NO_TOPOLOGY.format("lscpu"))
    return None


def _csv(text: str) -> _Read:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    heads = [line.lstrip("# ").lower() for line in lines if line.lower().startswith("# cpu,")]
    if not heads:
        raise ValueError("no line “# CPU,…” names the columns: keep what `lscpu -p` prints whole")
    names = heads[-1].split(",")
    rows = []
    for line in lines:
        if not line.startswith("#"):
            cells = line.split(",")
            if _OFFLINE.fullmatch(line) and "online" in names:
                cells = [cells[0], *[""] * (len(names) - 2), "N"]
            if len(cells) != len(names):
                raise ValueError(f"cut off: {line!r} has {len(cells)} columns, not {len(names)}")
            rows.append(_row(dict(zip(names, cells, strict=True))))
    return tree_of(rows), _LSCPU


def _table(text: str) -> _Read:
    """Columns for people, as ``lscpu -e`` prints them."""
    heads, *lines = [line.split() for line in text.splitlines() if line.strip()]
    names = [name.lower() for name in heads]
    rows = []
    for cells in lines:
        if len(cells) != len(names):
            said = " ".join(cells)[:60]
            raise ValueError(f"cut off: {said!r} has {len(cells)} columns, not {len(names)}")
        named = dict(zip(names, cells, strict=True))
        rows.append(_row({**named, **_caches(named)}))
    return tree_of(rows), _LSCPU


def _json(text: str) -> _Read:
    try:
        read = json.loads(_DASH.sub(r"\1null", text))
    except ValueError as error:
        raise ValueError(f"cut off: {error}") from error
    if isinstance(read, dict) and "lscpu" in read:
        raise ValueError(_NO_TOPOLOGY.format("lscpu -J"))
    rows = read.get("cpus") if isinstance(read, dict) else None
    if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
        raise ValueError("not a list of CPUs: give it what `lscpu -J -e` prints")
    return tree_of([_row({**one, **_caches(one)}) for one in rows]), _LSCPU


def _caches(cells: Mapping[str, Any]) -> dict[str, str]:
    """The column ``l1d:l1i:l2:l3``, which has all caches, as a column each."""
    for name, value in cells.items():
        if ":" in name:
            return dict(zip(name.lower().split(":"), str(value).split(":"), strict=False))
    return {}


def _row(cells: Mapping[str, Any]) -> Row:
    cpu = _id(cells, "cpu")
    if cpu is None:
        raise ValueError("a row names no CPU")
    if cells.get("online", True) not in _YES:
        return Row(cpu, online=False)
    core, socket, node, cache = (_id(cells, name) for name in ("core", "socket", "node", "l3"))
    return Row(cpu, core, socket, node, cache)


def _id(cells: Mapping[str, Any], name: str) -> int | None:
    value = cells.get(name)
    text = "" if value is None else str(value).strip()
    if text in ("", "-"):
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{name} is {text[:20]!r}, which is not a number")
    return int(text)


def _xml(text: str) -> _Read:
    if "<!ENTITY" in text:
        raise ValueError("refused: it declares entities, as no lstopo does")
    root = ElementTree.fromstring(text)  # noqa: S314  - no entities, and expat opens no file
    if root.tag != "topology":
        raise ValueError("not a topology of lstopo: give it what `lstopo --of xml` prints")
    found = {
        kind: list(_objects(root, kind)) for kind in ("Package", "Core", "L3", "NUMANode", "PU")
    }
    where = {kind: _by_cpu(objects) for kind, objects in found.items()}
    core, socket, node, cache = (where[kind] for kind in ("Core", "Package", "NUMANode", "L3"))
    rows = [
        Row(cpu, core.get(cpu), socket.get(cpu), node.get(cpu), cache.get(cpu))
        for cpu in sorted(where["PU"])
    ]
    off = _mask(root.find("object"), "complete_cpuset") & ~_mask(root.find("object"), "cpuset")
    rows += [Row(cpu, online=False) for cpu in ids(off) if cpu not in where["PU"]]
    memory = {
        number: size
        for number, one in found["NUMANode"]
        if (size := _kilobytes(one, "local_memory"))
    }
    sizes = {number: _kilobytes(one, "cache_size") for number, one in found["L3"]}
    return tree_of(rows, memory=memory, sizes=sizes), _LSTOPO


def _objects(root: ElementTree.Element, kind: str) -> Iterator[tuple[int, ElementTree.Element]]:
    """Objects of a kind with their numbers; hwloc 1 has other names for two kinds, and numbers no
    cache."""
    for place, one in enumerate(root.iter("object")):
        name = one.get("type", "")
        is_l3 = name == "L3Cache" or (name == "Cache" and one.get("depth") == "3")
        if ("L3" if is_l3 else {"Socket": "Package"}.get(name, name)) != kind:
            continue
        number = _id(one.attrib, "os_index")
        yield (place if kind == "L3" or number is None else number), one


def _by_cpu(objects: _Objects) -> dict[int, int]:
    return {cpu: number for number, one in objects for cpu in ids(_mask(one, "cpuset"))}


def _mask(one: ElementTree.Element | None, name: str) -> int:
    """A set as hwloc writes it: ``0x0000ffff,0xffffffff``, words of 32 bits, the highest first."""
    if one is None:
        raise ValueError("it holds no machine object")
    mask = 0
    for word in one.get(name, "0x0").split(","):
        if not re.fullmatch(r"0x[0-9a-f]{1,8}|", word) or mask >= 1 << 8192:
            raise ValueError(f"{name} is {word[:20]!r}, which is not a set as hwloc writes it")
        mask = mask << 32 | int(word or "0", 16)
    return mask


def _kilobytes(one: ElementTree.Element, name: str) -> int:
    """0 where it is not known."""
    size = one.get(name, "")
    return int(size) // 1024 if re.fullmatch(r"[0-9]{1,18}", size, re.ASCII) else 0
