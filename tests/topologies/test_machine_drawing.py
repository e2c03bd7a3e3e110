"""Pictures of machines."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

import pytest
from rich.console import Console

from topologies import drawing
from topologies.boxes import Beside

SVG = "{http://www.w3.org/2000/svg}"
Cpus = dict[int, tuple[int, int, int, int]]

#: 2 sockets, 2 NUMA nodes, 4 cores of 2 threads
SMALL: Cpus = {cpu: (cpu % 4 // 2, cpu % 4 // 2, cpu % 4, cpu % 4 // 2) for cpu in range(8)}
OWNERS = {"web/main": [1, 5], "db/main": [2, 6], "reserved": [0, 4], "shared pool": [0, 3, 4, 7]}


def large() -> Cpus:
    """512 CPUs: 8 sockets, 8 NUMA nodes, 2 uncore caches in each."""
    return {cpu: (cpu // 64, cpu // 64, cpu // 4 * 4, cpu // 32) for cpu in range(512)}


def tooltips(svg: str) -> dict[int, str]:
    """What each CPU's cell says of it."""
    root = ElementTree.fromstring(svg)
    said = [group.findtext(f"{SVG}title", "") for group in root.iter(f"{SVG}g")]
    return {int(text.split()[1].rstrip(":")): text.partition(": ")[2] for text in said}


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def printed(
    cpus: Cpus, owners: Mapping[str, Iterable[int]], width: int = 100, **more: object
) -> str:
    console = Console(width=width, no_color=True, force_terminal=False, file=None)
    with console.capture() as capture:
        console.print(drawing.text(cpus, owners, width=width, **more))  # type: ignore[arg-type]
    return capture.get()


def test_every_cpu_is_drawn_once_with_its_owner() -> None:
    said = tooltips(drawing.svg(SMALL, OWNERS))
    owners = ["reserved", "web/main", "db/main", "shared pool"]
    assert said == dict(enumerate(owners * 2))


def test_boxes_carry_their_names() -> None:
    shown = texts(drawing.svg(SMALL, OWNERS))
    for label in ("Socket 0", "Socket 1", "NUMA node 0", "NUMA node 1"):
        assert shown.count(label) == 1
    assert not [text for text in shown if text.startswith("L3")], "one cache a node says nothing"
    assert texts(drawing.svg(large())).count("L3 15") == 1


def test_numa_nodes_that_hold_sockets_are_the_outer_boxes() -> None:
    cpus = {0: (0, 0, 0, 0), 1: (0, 1, 1, 1), 2: (1, 2, 2, 2), 3: (1, 3, 3, 3)}
    shown = [text for text in texts(drawing.svg(cpus)) if not text.isdigit()]
    assert shown == [
        "NUMA node 0", "Socket 0", "Socket 1", "NUMA node 1", "Socket 2", "Socket 3",
    ]  # fmt: skip


def test_the_legend_lists_owners_tags_and_marks() -> None:
    shown = texts(drawing.svg(SMALL, OWNERS, highlight=[3]))
    assert "web/main: 1,5 (2)" in shown
    assert "reserved: 0,4 (2)" in shown
    assert "shared pool: 0,3-4,7 (4)" in shown
    assert "marked: 3" in shown
    assert {"A", "B", "R", "S"} <= set(shown)


def test_a_cpu_of_two_pods_says_both_and_wears_both_colours() -> None:
    svg = drawing.svg(SMALL, {"a/x": [1], "b/y": [1], "c/z": [2]})
    assert tooltips(svg)[1] == "a/x and b/y"
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    (group,) = (one for one in groups if one.findtext(f"{SVG}title", "").startswith("CPU 1:"))
    assert len({rect.get("fill") for rect in group.iter(f"{SVG}rect")}) == 2
    assert "AB" in [node.text for node in group.iter(f"{SVG}text")]
    said = tooltips(drawing.svg(SMALL, {"a/x": [1, 2], "reserved": [1], "shared pool": [1, 2]}))
    assert (said[1], said[2]) == ("a/x and reserved", "a/x and shared pool")


def test_marked_cpus_are_framed_and_others_not() -> None:
    svg = drawing.svg(SMALL, {"a/x": [1, 40, 41]}, highlight=[3, 99])
    assert [cpu for cpu, text in tooltips(svg).items() if text.endswith(", marked")] == [3]
    assert "a/x: 1 (not on this machine: 40-41) (1)" in texts(svg)


def test_pods_keep_distinct_tags_when_colours_repeat() -> None:
    owners = {f"pod{index}/main": [index] for index in range(60)}
    shown = texts(drawing.svg(large(), owners))
    tags = [tag for tag in shown if tag.isalpha() and tag.isupper()]
    assert len(set(tags)) == 60
    assert not {"R", "S"} & set(tags)
    assert "AA" in tags


HOSTILE = 'x"><script>alert(1)</script>&\x00\x1b[31m\ud800'


def test_nothing_gets_through_unescaped() -> None:
    svg = drawing.svg(SMALL, {HOSTILE: [1]}, title=HOSTILE)
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert not {"\x00", "\x1b", "\ud800"} & set(svg)
    svg.encode("utf-8")
    shown = printed(SMALL, {HOSTILE + "[red]x[/red]": [1]}, title=HOSTILE)
    assert "[red]x[/red]" in shown
    assert not {"\x00", "\x1b", "\ud800"} & set(shown)


def test_the_document_scales_and_speaks() -> None:
    svg = drawing.svg(SMALL, OWNERS, title="before", highlight=[3])
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "before"
    assert "web/main: 1,5" in root.findtext(f"{SVG}desc", "")
    assert "marked: 3" in root.findtext(f"{SVG}desc", "")
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert (background.get("width"), background.get("height")) == (f"{width:g}", f"{height:g}")
    assert background.get("fill") == "#ffffff"


@pytest.mark.parametrize("cpus", [SMALL, large(), {0: (0, 0, 0, 0)}], ids=["8", "512", "1"])
def test_everything_lies_inside_and_cells_do_not_overlap(cpus: Cpus) -> None:
    root = ElementTree.fromstring(drawing.svg(cpus, {"a/b": [0]}, highlight=[0]))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    cells = []
    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
        assert x + float(rect.get("width", 0)) <= width
        assert y + float(rect.get("height", 0)) <= height
    for group in root.iter(f"{SVG}g"):
        cell = group.find(f"{SVG}rect")
        assert cell is not None
        cells.append((cell.get("x"), cell.get("y")))
    assert len(set(cells)) == len(cpus)
    assert 0.4 < width / height < 4


BESIDE = Beside({2: 16 << 30, 5: 0}, frozenset({8, 9}))


def test_nodes_without_cpus_and_cpus_without_a_node_are_drawn() -> None:
    svg = drawing.svg(SMALL, {"web/main": [1, 8]}, beside=BESIDE, highlight=[9])
    shown = texts(svg)
    assert "NUMA node 2: no CPUs, 16 GiB" in shown
    assert "NUMA node 5: no CPUs, no memory" in shown
    assert "CPUs in no NUMA node" in shown
    said = tooltips(svg)
    assert set(said) == set(range(10))
    assert (said[8], said[9]) == ("web/main", "no owner, marked")
    assert "web/main: 1,8 (2)" in shown
    described = ElementTree.fromstring(svg).findtext(f"{SVG}desc", "")
    assert "8 CPUs; NUMA node 2: no CPUs, 16 GiB; " in described
    assert "CPUs in no NUMA node: 8-9" in described
    lines = printed(SMALL, {"web/main": [1, 8]}, beside=BESIDE).splitlines()
    assert lines[lines.index("NUMA node 5: no CPUs, no memory") :][1:3] == [
        "CPUs in no NUMA node",
        "   8A   9",
    ]


@pytest.mark.parametrize("nodes", [1, 3, 40])
def test_what_is_drawn_beside_lies_inside_and_overlaps_nothing(nodes: int) -> None:
    beside = Beside({8 + node: node << 20 for node in range(nodes)}, frozenset(range(600, 640)))
    root = ElementTree.fromstring(drawing.svg(large(), beside=beside))
    width, height = (float(root.get(name, "")) for name in ("width", "height"))
    places = [
        tuple(float(one.get(name, "")) for name in ("x", "y", "width", "height"))
        for one in root.iter(f"{SVG}rect")
        if one.get("rx") == "6"
    ]
    outer = [one for one in places if not any(_holds(other, one) for other in places)]
    assert len(outer) == 8 + nodes + 1
    assert all(x >= 0 and x + w <= width and y + h <= height for x, y, w, h in outer)
    for at, one in enumerate(outer):
        assert not any(_overlap(one, other) for other in outer[at + 1 :])


def _holds(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    (x, y, w, h), (a, b, c, d) = outer, inner
    return outer != inner and x <= a and y <= b and a + c <= x + w and b + d <= y + h


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    (x, y, w, h), (a, b, c, d) = one, other
    return x < a + c and a < x + w and y < b + d and b < y + h


def test_a_picture_without_owners_is_numbers_in_boxes_of_70_bytes_a_cpu() -> None:
    """A report holds the pictures of many machines."""
    svg = drawing.svg(large())
    assert svg == drawing.svg(large()), "the same scene is the same text"
    assert len(svg) < 70 * 512
    assert tooltips(svg) == {}
    assert sorted(int(text) for text in texts(svg) if text.isdigit()) == list(range(512))
    outlines = [node.get("d", "") for node in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    assert sum(outline.count("z") for outline in outlines) == 128


def test_an_empty_machine_is_an_empty_picture() -> None:
    assert "0 CPUs" in drawing.svg({})
    assert printed({}, {}).strip() == ""


def test_the_terminal_says_it_without_colour() -> None:
    assert printed(SMALL, OWNERS, title="before", highlight=[3, 6]).splitlines() == [
        "before",
        "socket 0",
        "  NUMA node 0",
        "     0R 4R   1A 5A",
        "socket 1",
        "  NUMA node 1",
        "     2B!6B  !3S 7S",
        "",
        " A  web/main: 1,5 (2)",
        " B  db/main: 2,6 (2)",
        " R  reserved: 0,4 (2)",
        " S  shared pool: 0,3-4,7 (4)",
        " !  marked: 3,6",
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_terminal_keeps_to_its_width(width: int) -> None:
    lines = printed(large(), {"a/b": range(100)}, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(re.findall(r"\d+A", "\n".join(lines))) == 100


def test_uneven_cores_stay_in_their_columns() -> None:
    cpus = {0: (0, 0, 0, 0), 4: (0, 0, 0, 0), 1: (0, 0, 1, 0), 2: (0, 0, 2, 0), 6: (0, 0, 2, 0)}
    assert printed(cpus, {}).splitlines()[2] == "     0 4   1     2 6"


def test_rich_is_loaded_only_for_the_terminal() -> None:
    code = (
        "import sys; from topologies import drawing; drawing.svg({0: (0, 0, 0, 0)}); "
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
