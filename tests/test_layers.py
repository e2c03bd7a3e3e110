"""Import directions, as a table. A new edge is a decision: it changes this table and
docs/architecture.md in one commit."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
_ARCHITECTURE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

#: What each package may import of the project, by module prefix.
MAY_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "reference": ("reference",),
    "topologies": ("topologies",),
    "conformance": ("conformance", "reference", "topologies"),
    "hil": ("hil", "conformance", "reference", "topologies"),
    "reports": (
        "reports",
        "conformance.accounts",
        "conformance.in_effect",
        "conformance.json_schema",
        "conformance.known",
        "conformance.results",
        "conformance.verdict",
        "topologies.drawing",
    ),
    "hunting": ("hunting", "conformance", "reference", "topologies"),
    "pinproof": ("pinproof", "conformance", "hil", "hunting", "reference", "reports", "topologies"),
}

#: The rooms of a package, from the ground up: what each may import of the others.
ROOMS: Final[dict[str, dict[str, str]]] = {
    "reference": {
        "errors": "",
        "behaviours": "",
        "copies": "",
        "releases": "behaviours errors",
        "feature_gates": "behaviours releases",
        "golang": "errors",
        "cpuset": "behaviours golang releases",
        "pods": "behaviours errors feature_gates golang releases",
        "view": "cpuset",
        "steps": "cpuset pods view",
        "machine": "behaviours cpuset errors golang releases",
        "topologymanager": (
            "behaviours cpuset errors feature_gates golang machine pods releases steps"
        ),
        "cpumanager": (
            "behaviours copies cpuset errors feature_gates golang machine pods releases steps "
            "topologymanager view"
        ),
        "devicemanager": "behaviours copies errors pods releases steps topologymanager view",
        "memorymanager": "behaviours copies cpuset errors pods releases topologymanager",
        "kubelet": (
            "behaviours cpumanager cpuset devicemanager errors feature_gates golang machine "
            "memorymanager pods releases steps topologymanager view"
        ),
        "node": (
            "behaviours cpumanager cpuset devicemanager errors kubelet machine memorymanager pods "
            "releases steps topologymanager view"
        ),
        "branching": "behaviours copies cpumanager cpuset node releases steps view",
    },
    "hil": {
        "answers": "",
        "changes": "",
        "shell": "",
        "apiserver": "shell",
        "inspection": "answers shell",
        "distributions": "changes inspection shell",
        "observation": "answers inspection shell",
        "safety": "changes distributions inspection shell",
        "transport": "apiserver inspection safety shell",
        "lab": "shell transport",
        "pods": "answers apiserver changes inspection observation shell transport",
        "session": "distributions inspection lab observation pods safety shell transport",
        "isolation": "answers observation session shell",
        "abilities": "distributions inspection observation safety",
        "subject": (
            "abilities distributions inspection lab observation pods safety session shell transport"
        ),
        "replaced": "distributions inspection safety session shell subject",
        "dry_run": (
            "distributions inspection observation pods safety session shell subject transport"
        ),
    },
}

#: Ways to run a CPU manager. What two of them need is no subject's own.
SUBJECTS: Final = ("exec", "kubelet", "miniatures", "reference")

#: What a place imports nothing of, but for itself: rooms inside a room of that room, subjects of
#: one another, and what is known of kubelets of what lies above it.
APART: Final = {
    "reference.cpumanager.fast": "reference.cpumanager",
    "reference.cpumanager.state": "reference.cpumanager",
    "conformance.kubelets": ("conformance.subjects conformance.scenarios conformance.lockstep"),
    **{
        f"conformance.subjects.{name}": " ".join(
            f"conformance.subjects.{other}"
            for other in SUBJECTS
            if (name, other) != ("miniatures", "reference")  # they are made of it
        )
        for name in SUBJECTS
    },
}

#: What the model never touches: files, time, logs, threads, the network, other programs.
NOT_IN_THE_MODEL: Final = {
    "asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "shutil", "socket", "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip


def _sources(name: str) -> list[Path]:
    """Of a package, or the one of a module."""
    return sorted((ROOT / name).rglob("*.py")) or [ROOT / f"{name}.py"]


def _nodes(text: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(text))


class _Source(NamedTuple):
    """What these tests ask of a file: every module that it imports, as dotted names, the number
    of methods of each class, and of lines of each function. ``from a import b`` counts as ``a.b``,
    since b may be a module."""

    imports: tuple[str, ...]
    methods: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, int], ...]


def _imports(path: Path) -> tuple[str, ...]:
    return _source(path.read_text(encoding="utf-8")).imports


@cache
def _source(text: str) -> _Source:
    """Remembered, because most of these tests ask for it of the same files."""
    imports: list[str] = []
    methods: list[tuple[str, int]] = []
    functions: list[tuple[str, int]] = []
    for node in _nodes(text):
        if isinstance(node, ast.Import):
            imports += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            imports += (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.ClassDef):
            methods.append((node.name, sum(isinstance(one, ast.FunctionDef) for one in node.body)))
        elif isinstance(node, ast.FunctionDef):
            functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
    return _Source(tuple(imports), tuple(methods), tuple(functions))


def _within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


def _wrong(folder: str, is_forbidden: Callable[[str], bool]) -> list[str]:
    """The forbidden imports of the files below a folder."""
    sources = _sources(folder)
    assert sources
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources
        for module in _imports(path)
        if is_forbidden(module)
    ]


def test_the_page_names_what_packages_may_import() -> None:
    """The table of docs/architecture.md."""
    rows = re.findall(r"^\| ([a-z, ]+) \| (.+) \|$", _ARCHITECTURE.split("| may import |")[1], re.M)
    said = {one: text for names, text in rows for one in names.split(", ")}
    for package, allowed in MAY_IMPORT.items():
        others = sorted(set(allowed) - {package})
        everything = others == sorted(set(MAY_IMPORT) - {package})
        text = "all" if everything else ", ".join(others) or "nothing of the others"
        assert said[package] == text


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    """Of the project's own packages."""
    others = (*MAY_IMPORT.keys(),)
    assert not _wrong(
        package, lambda one: _within(one, others) and not _within(one, MAY_IMPORT[package])
    )


def _room(module: str) -> str:
    """The room of its package that a module lies in."""
    return module.split(".")[1]


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_only_rooms_below_it(package: str) -> None:
    """The table names no room before it, so there is no circle; and it says no more than is so."""
    rooms = list(ROOMS[package])
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for path in _sources(package):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        if room != "__init__":
            own = (one for one in _imports(path) if one.startswith(f"{package}."))
            found[room].update(map(_room, own))
    table = {room: below.split() for room, below in ROOMS[package].items()}.items()
    assert all(rooms.index(below) < rooms.index(room) for room, belows in table for below in belows)
    assert {room: sorted(below - {room}) for room, below in found.items()} == {
        room: sorted(below) for room, below in table
    }


@pytest.mark.parametrize(("place", "others"), APART.items())
def test_a_place_imports_nothing_of_those_it_stands_apart_from(place: str, others: str) -> None:
    forbidden = tuple(others.split())
    folder = place.replace(".", "/")
    assert not _wrong(folder, lambda one: _within(one, forbidden) and not _within(one, (place,)))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_modules_import_one_another_in_a_circle(package: str) -> None:
    """Imports within functions and for types alone count as well."""
    assert not _circle(ROOT, package)


def test_a_circle_is_found(tmp_path: Path) -> None:
    """Through a package's own module and an import in a function too."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made/__init__.py").write_text("from made.above import VALUE\n")
    (tmp_path / "made/above.py").write_text("from made.below import VALUE\n")
    below = tmp_path / "made/below.py"
    below.write_text("VALUE = 1\n")
    assert not _circle(tmp_path, "made")
    below.write_text("def look():\n    from made import VALUE\n")
    assert _circle(tmp_path, "made") == {"made", "made.above", "made.below"}


def _circle(root: Path, package: str) -> set[str]:
    """The modules of a package that lie on a circle of imports or above one."""
    paths = {
        _module(path.relative_to(root)): path for path in sorted((root / package).rglob("*.py"))
    }
    left = {
        module: {_imported(name, paths) for name in _imports(path)} - {module}
        for module, path in paths.items()
    }
    while ground := [module for module, below in left.items() if not below & left.keys()]:
        for module in ground:
            del left[module]
    return set(left)


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(name: str, modules: Collection[str]) -> str:
    """The module that an imported name lies in, or the name."""
    return name if name in modules else name.rpartition(".")[0] if "." in name else name


def _larger(part: str, most: int) -> set[str]:
    """The classes or functions of all packages with more than that."""
    return {
        f"{path.relative_to(ROOT)}: {name}"
        for package in (*MAY_IMPORT, "differential")
        for path in _sources(package)
        for name, size in getattr(_source(path.read_text(encoding="utf-8")), part)
        if size > most
    }


def test_no_class_has_more_than_25_methods() -> None:
    assert not _larger("methods", 25)


def test_no_function_has_more_than_80_lines() -> None:
    assert not _larger("functions", 80)


def test_the_model_needs_nothing_but_the_standard_library() -> None:
    """And of that, nothing that acts or looks at the world."""
    allowed = ({*sys.stdlib_module_names} - NOT_IN_THE_MODEL) | {"reference"}
    assert not _wrong("reference", lambda one: one.partition(".")[0] not in allowed)


def test_the_model_opens_nothing_and_prints_nothing() -> None:
    """Text comes in as a mapping, decisions leave as values."""
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {call.func.id}()"
        for path in _sources("reference")
        for call in _nodes(path.read_text(encoding="utf-8"))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in {"open", "print", "input", "exec", "eval", "__import__"}
    ]
    assert not wrong


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    """The table can fail."""
    bad = tmp_path / "bad.py"
    bad.write_text("from conformance import checks\nimport os.path\n")
    assert list(_imports(bad)) == ["conformance.checks", "os.path"]
    assert not _within("conformance.checks", MAY_IMPORT["reference"])
    assert not _within("conformance.checks", MAY_IMPORT["reports"])
    assert _within("conformance.verdict.Verdict", MAY_IMPORT["reports"])


def test_no_subject_is_asked_by_name_what_it_can_do() -> None:
    """What a subject may have is a protocol of ``conformance.subject``; getattr is for what pytest
    has."""
    asked = [
        f"{path.relative_to(ROOT)}: {ast.unparse(call)}"
        for path in _sources("conformance")
        for call in _nodes(path.read_text(encoding="utf-8"))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"getattr", "hasattr"}
        and "config" not in ast.unparse(call.args[0])
        and isinstance(call.args[1], ast.Constant)  # the fields of a dataclass are no question
        and call.args[1].value not in {"worker_id", "workeroutput"}
    ]
    assert not asked
