"""The SVG of a machine: boxes laid out bottom-up, in rows of a wanted proportion.

A report holds many pictures, so what many CPUs share is written once: the cores of a box are one
path, and the document has the font size and the anchor of numbers. CPUs have tooltips only in a
picture with owners or marks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Final

from topologies.boxes import Box, Level, Owner, Scene
from topologies.cpulist import format_list

_CELL_HEIGHT: Final = 24
#: The baseline of a number, from the top of its cell.
_BASE: Final = 16.5
_DIGIT: Final = 7.4
_NUMBER: Final = 12.5
_TAG: Final = 7.2
_MARK: Final = "#b00020"
_INK: Final = "#1c2127"
_MARGIN: Final = 16
#: The boxes below a machine may be this wide, however small the machine is.
_LEAST_ROOM: Final = 420
_FONT: Final = "ui-sans-serif,system-ui,'Segoe UI','Liberation Sans',Arial,sans-serif"

#: level: (fill, outline, padding, gap between its members, height of its label, wanted
#: proportion of width to height)
_STYLE: Final = {
    Level.MACHINE: ("none", "none", 0, 14, 0, 1.8),
    Level.SOCKET: ("#f4f6f8", "#9aa4ae", 9, 9, 20, 2.4),
    Level.NUMA: ("#ffffff", "#b7c0c9", 7, 6, 18, 2.4),
    Level.CACHE: ("#f8f9fb", "#cfd6dd", 4, 3, 14, 1.6),
    Level.CORE: ("#ffffff", "#c3cad2", 2, 1, 0, 1.0),
    Level.MEMORY: ("#f8f9fb", "#b7c0c9", 7, 0, 18, 1.0),
    Level.NOWHERE: ("#ffffff", "#b7c0c9", 7, 6, 18, 8.0),
}
_SIMPLE: Final = {Level.CACHE: "L3 {}", Level.SOCKET: "Socket {}"}


@dataclass(frozen=True, slots=True)
class _Laid:
    """A box with its size, and where its members lie in it."""

    box: Box
    width: float
    height: float
    members: tuple[tuple[float, float, _Laid], ...] = ()


def render(scene: Scene, title: str) -> str:
    """The document, ending with a newline."""
    cell = _cell_width(scene)
    titled = _text_width(title, 19) if title else 0
    machine = _lay(scene.machine, cell)
    room = max(machine.width, titled, _LEAST_ROOM)
    laid = _with_beside(machine, [_lay(box, cell) for box in scene.beside], room)
    legend = _Legend(scene, max(laid.width, _LEAST_ROOM))
    head = 34 if title else 0
    width = max(laid.width, legend.width, titled) + 2 * _MARGIN
    height = laid.height + legend.height + head + 2 * _MARGIN + (14 if legend.height else 0)
    name = title or "CPUs of a machine"
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}" '
        f'style="max-width:100%;height:auto" font-family="{_FONT}" font-size="{_NUMBER}" '
        f'text-anchor="middle" fill="{_INK}">\n',
        f"<title>{_e(name)}</title>\n<desc>{_e(scene.summary())}</desc>\n",
        f'<rect width="{_n(width)}" height="{_n(height)}" rx="8" fill="#ffffff"/>\n',
    ]
    if title:
        parts.append(_text(_MARGIN, _MARGIN + 17, title, 17, bold=True))
    _draw(parts, scene, laid, _MARGIN, _MARGIN + head, cell)
    legend.draw(parts, _MARGIN, _MARGIN + head + laid.height + 14)
    parts.append("</svg>\n")
    return "".join(parts)


def _cell_width(scene: Scene) -> float:
    """Wide enough for the longest number beside the longest tags."""
    digits = max((len(str(cpu)) for cpu in scene.all_cpus()), default=1)
    tags = max((len(_tags(owners)) for owners in scene.held.values()), default=0)
    return max(28, round(11 + digits * _DIGIT + (4 + tags * _TAG if tags else 0)))


def _tags(owners: tuple[Owner, ...]) -> str:
    """At most two: a CPU of more owners has them in its tooltip."""
    shown = "".join(owner.tag for owner in owners[:2])
    return shown + "…" if len(owners) > 2 else shown


def _lay(box: Box, cell: float) -> _Laid:
    _, _, padding, gap, label, wanted = _STYLE[box.level]
    if box.level is Level.CORE:
        height = len(box.cpus) * (_CELL_HEIGHT + gap) - gap + 2 * padding
        return _Laid(box, cell + 2 * padding, height)
    members = [_lay(member, cell) for member in box.inside]
    least = _text_width(_label(box), 12) if label else 0
    if box.level is Level.MEMORY:
        return _Laid(box, least + 2 * padding, label + padding)
    if not members:
        return _Laid(box, 0, 0)
    columns = _columns(members, gap, wanted)
    widths = [max(m.width for m in members[at::columns]) for at in range(columns)]
    placed, y = [], float(padding + label)
    for start in range(0, len(members), columns):
        row, x = members[start : start + columns], float(padding)
        for column, member in enumerate(row):
            placed.append((x, y, member))
            x += widths[column] + gap
        y += max(member.height for member in row) + gap
    width = max(sum(widths) + gap * (columns - 1), least) + 2 * padding
    return _Laid(box, width, y - gap + padding, tuple(placed))


def _with_beside(machine: _Laid, others: list[_Laid], room: float) -> _Laid:
    """The machine with the boxes of ``others`` below it, in rows no wider than ``room``."""
    gap = _STYLE[Level.MACHINE][3]
    placed, width = list(machine.members), machine.width
    x, y, row = 0.0, machine.height + (gap if machine.height else 0), 0.0
    for other in others:
        if x and x + other.width > room:
            x, y, row = 0.0, y + row + gap, 0.0
        placed.append((x, y, other))
        x, row, width = x + other.width + gap, max(row, other.height), max(width, x + other.width)
    height = y + row if others else machine.height
    return _Laid(machine.box, width, height, tuple(placed))


def _columns(members: list[_Laid], gap: float, wanted: float) -> int:
    """The number of columns that comes nearest to the wanted shape, full rows preferred."""
    width = max(member.width for member in members) + gap
    height = max(member.height for member in members) + gap

    def badness(columns: int) -> float:
        rows = math.ceil(len(members) / columns)
        ragged = rows * columns - len(members)
        return abs(math.log(columns * width / (rows * height) / wanted)) + 0.8 * bool(ragged)

    return min(range(1, len(members) + 1), key=badness)


def _draw(parts: list[str], scene: Scene, laid: _Laid, x: float, y: float, cell: float) -> None:
    fill, line, padding, _, label, _ = _STYLE[laid.box.level]
    if laid.box.level is not Level.MACHINE:
        parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(laid.width)}" height="{_n(laid.height)}" '
            f'rx="6" fill="{fill}" stroke="{line}"/>\n'
        )
    if label:
        size = 10 if laid.box.level is Level.CACHE else 12
        bold = laid.box.level is Level.SOCKET
        parts.append(_text(x + padding, y + label - 4, _label(laid.box), size, bold=bold) + "\n")
    cores = []
    for inner_x, inner_y, member in laid.members:
        if member.box.level is Level.CORE:
            cores.append((x + inner_x, y + inner_y, member))
        else:
            _draw(parts, scene, member, x + inner_x, y + inner_y, cell)
    if cores:
        _draw_cores(parts, scene, cores, cell)


def _draw_cores(
    parts: list[str], scene: Scene, cores: list[tuple[float, float, _Laid]], cell: float
) -> None:
    fill, line, padding, gap, _, _ = _STYLE[Level.CORE]
    outline = "".join(
        f"M{_n(x)} {_n(y)}h{_n(core.width)}v{_n(core.height)}h-{_n(core.width)}z"
        for x, y, core in cores
    )
    parts.append(f'<path fill="{fill}" stroke="{line}" stroke-linejoin="round" d="{outline}"/>\n')
    draw = _draw_cpu if scene.owners or scene.highlight else _draw_number
    for x, y, core in cores:
        for row, cpu in enumerate(core.box.cpus):
            draw(parts, scene, cpu, x + padding, y + padding + row * (_CELL_HEIGHT + gap), cell)
    parts.append("\n")


def _draw_number(parts: list[str], _: Scene, cpu: int, x: float, y: float, cell: float) -> None:
    """Draw a CPU of a picture without owners and marks."""
    parts.append(_text(x + cell / 2, y + _BASE, str(cpu), anchor="middle"))


def _draw_cpu(parts: list[str], scene: Scene, cpu: int, x: float, y: float, cell: float) -> None:
    owners = scene.held.get(cpu, ())
    said = " and ".join(owner.name for owner in owners) or "no owner"
    marked = bool(scene.highlight >> cpu & 1)
    parts.append(f"<g><title>CPU {cpu}: {_e(said)}{', marked' if marked else ''}</title>")
    colours = [owner.colour for owner in owners[:4]] or ["#ffffff"]
    part = cell / len(colours)
    for at, colour in enumerate(colours):
        parts.append(
            f'<rect x="{_n(x + at * part)}" y="{_n(y)}" width="{_n(part)}" '
            f'height="{_CELL_HEIGHT}" fill="{colour}"/>'
        )
    first = ink(colours[0])
    base = y + _BASE
    tags = _tags(owners)
    if tags:
        parts.append(_text(x + 5, base, str(cpu), colour=first))
        last = ink(colours[-1])
        parts.append(_text(x + cell - 5, base, tags, 10, colour=last, bold=True, anchor="end"))
    else:
        parts.append(_text(x + cell / 2, base, str(cpu), colour=first, anchor="middle"))
    if marked:
        parts.append(_mark(x, y, cell, _CELL_HEIGHT))
    parts.append("</g>")


def _mark(x: float, y: float, width: float, height: float) -> str:
    """A heavy frame and a corner: shape as well as colour."""
    return (
        f'<rect x="{_n(x + 1.5)}" y="{_n(y + 1.5)}" width="{_n(width - 3)}" '
        f'height="{_n(height - 3)}" fill="none" stroke="#ffffff" stroke-width="2.5"/>'
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
        f'fill="none" stroke="{_MARK}" stroke-width="3"/>'
        f'<path d="M{_n(x + width - 8)} {_n(y)}h8v8z" fill="{_MARK}"/>'
    )


class _Legend:
    """Owners with colour, tag, name and CPUs, in as many columns as fit."""

    _ROW: Final = 24

    def __init__(self, scene: Scene, available: float) -> None:
        self._rows: list[Owner | None] = list(scene.owners)
        if scene.highlight:
            self._rows.append(None)
        self._marked = format_list(scene.highlight)
        texts = [self._said(row) for row in self._rows]
        entry = max((44 + _text_width(text, _NUMBER) + 24 for text in texts), default=0)
        self._columns = max(1, min(len(texts), int(available // entry))) if entry else 1
        self._entry = entry
        self._lines = math.ceil(len(texts) / self._columns)
        self.width = self._columns * entry
        self.height = self._lines * self._ROW

    def _said(self, owner: Owner | None) -> str:
        if owner is None:
            return f"marked: {_short(self._marked, 60)}"
        return f"{_short(owner.name, 48)}: {_short(owner.listed(), 60)} ({owner.count()})"

    def draw(self, parts: list[str], x: float, y: float) -> None:
        for at, owner in enumerate(self._rows):
            left = x + at // self._lines * self._entry
            top = y + at % self._lines * self._ROW
            colour = owner.colour if owner else "#ffffff"
            parts.append(
                f'<rect x="{_n(left)}" y="{_n(top)}" width="34" height="18" fill="{colour}" '
                'stroke="#9aa4ae"/>'
            )
            if owner is None:
                parts.append(_mark(left, top, 34, 18))
            else:
                on = ink(colour)
                tag = _text(
                    left + 17, top + 13, owner.tag, 11, colour=on, bold=True, anchor="middle"
                )
                parts.append(tag)
            parts.append(_text(left + 42, top + 13.5, self._said(owner)) + "\n")


def _label(box: Box) -> str:
    return _SIMPLE[box.level].format(box.number) if box.level in _SIMPLE else box.label()


def _text(
    x: float, y: float, text: str, size: float = _NUMBER, *,
    colour: str = "", bold: bool = False, anchor: str = "start",
) -> str:  # fmt: skip
    more = f' font-size="{_n(size)}"' if size != _NUMBER else ""
    more += f' fill="{colour}"' if colour and colour != _INK else ""
    more += ' font-weight="600"' if bold else ""
    more += f' text-anchor="{anchor}"' if anchor != "middle" else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{_e(text)}</text>'


def _text_width(text: str, size: float) -> float:
    """An estimate on the safe side: the font is the viewer's."""
    return len(text) * size * 0.56 + 4


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def ink(colour: str) -> str:
    """Black or white, whichever stands out on ``colour`` (WCAG's relative luminance)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return _INK if luminance > 0.18 else "#ffffff"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _e(text: str) -> str:
    """Escaped, and without the characters that XML 1.0 cannot hold."""
    allowed = "".join(char if _is_xml(ord(char)) else "\ufffd" for char in text)
    return escape(allowed, quote=True)


def _is_xml(code: int) -> bool:
    return code in (9, 10, 13) or 32 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code > 0xFFFF
