"""The picture of a machine for a terminal, made of rich's parts.

Every CPU is its number followed by its owner's tag, on the owner's colour; ``!`` stands before a
marked one. The CPUs of a core stand together, and cores wrap to the width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from topologies.boxes import Box, Level, Scene
from topologies.cpulist import format_list
from topologies.picture import ink

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_INDENT: Final = "  "
_LEAST_WIDTH: Final = 24


def render(scene: Scene, title: str, width: int) -> RenderableType:
    """One text of lines no longer than ``width`` where the numbers allow it."""
    from rich.text import Text

    picture = _Picture(scene, max(width, _LEAST_WIDTH))
    lines = [Text(_shown(title), style="bold")] if title else []
    for box in (*scene.machine.inside, *scene.beside):
        lines += picture.box(box, "")
    lines += picture.legend()
    return Text("\n").join(lines)


class _Picture:
    def __init__(self, scene: Scene, width: int) -> None:
        self._scene = scene
        self._width = width
        cpus = scene.all_cpus()
        self._digits = max((len(str(cpu)) for cpu in cpus), default=1)
        self._tag = max((len(self._tags(cpu)) for cpu in cpus), default=0)

    def box(self, box: Box, indent: str) -> list[Text]:
        from rich.text import Text

        bold = "bold" if box.level in (Level.SOCKET, Level.MEMORY, Level.NOWHERE) else ""
        lines = [Text(f"{indent}{box.label()}", style=bold)]
        inner = indent + _INDENT
        if box.level is Level.MEMORY:
            return lines
        if box.inside and box.inside[0].level is not Level.CORE:
            for member in box.inside:
                lines += self.box(member, inner)
            return lines
        return lines + self._cores(box.inside, inner)

    def _cores(self, cores: tuple[Box, ...], indent: str) -> list[Text]:
        """Cores side by side, in lines of equal length."""
        from rich.text import Text

        cell = 1 + self._digits + self._tag
        widest = max(len(core.cpus) for core in cores)
        core_width = widest * cell + 2
        room = max(1, (self._width - len(indent)) // core_width)
        room = math.ceil(len(cores) / math.ceil(len(cores) / room))
        lines = []
        for start in range(0, len(cores), room):
            line = Text(indent)
            for core in cores[start : start + room]:
                for cpu in core.cpus:
                    line.append_text(self._cell(cpu))
                line.append("  " + " " * (cell * (widest - len(core.cpus))))
            line.rstrip()
            lines.append(line)
        return lines

    def _cell(self, cpu: int) -> Text:
        from rich.text import Text

        marked = bool(self._scene.highlight >> cpu & 1)
        said = ("!" if marked else " ") + str(cpu).rjust(self._digits)
        return Text(said + self._tags(cpu).ljust(self._tag), style=self._style(cpu, marked))

    def _tags(self, cpu: int) -> str:
        owners = self._scene.held.get(cpu, ())
        shown = "".join(owner.tag for owner in owners[:2])
        return shown + "+" if len(owners) > 2 else shown

    def _style(self, cpu: int, marked: bool) -> str:
        owners = self._scene.held.get(cpu, ())
        weight = "bold underline " if marked else ""
        if not owners:
            return weight.strip()
        return f"{weight}{ink(owners[0].colour)} on {owners[0].colour}"

    def legend(self) -> list[Text]:
        from rich.text import Text

        lines = []
        for owner in self._scene.owners:
            badge = f" {owner.tag} ", f"{ink(owner.colour)} on {owner.colour}"
            said = f" {_shown(owner.name)}: {owner.listed()} ({owner.count()})"
            lines.append(Text.assemble(badge, said))
        if self._scene.highlight:
            lines.append(Text(f" !  marked: {format_list(self._scene.highlight)}", style="bold"))
        return [Text(""), *lines] if lines else []


def _shown(text: str) -> str:
    """Names come from untrusted nodes: no control character reaches the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
