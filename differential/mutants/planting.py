"""Kubernetes with a fault at every place where one can be planted, each behind a switch.

What belongs here: which packages and files of a release are planted in, the call of the Go program
``plant`` on them, and the folder that takes the place of the released module. What never does: how
Go source is changed (``plant``), and building programs of it (``programs``).

Go refuses to replace single files of its module cache (``-overlay``), so the folder is the released
module as hard links, with the changed files in place of the released ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from conformance.kubelets import recipe
from conformance.kubelets.golang import Go, environment
from conformance.kubelets.recipe import KUBERNETES
from conformance.kubelets.releases import Version
from conformance.kubelets.workshop import write_files
from conformance.subject import SubjectSetupError

PLANT: Final = Path(__file__).with_name("plant")
#: The package of the switches, inside the released module.
SWITCH: Final = f"{KUBERNETES}/pkg/pinproofmutant"
_MANAGERS: Final = f"{KUBERNETES}/pkg/kubelet/cm"
#: The functions of the container manager that deal with the admission of pods and with their CPUs.
_OF_CONTAINER_MANAGER: Final = (
    "^(PodHasExclusiveCPUs|ContainerHasExclusiveCPUs|InternalContainerLifecycle|"
    "GetAllocateResourcesPodAdmitHandler|GetAllocatableCPUs|GetCPUs|Admit|PreCreateContainer|"
    "PreStartContainer|PostStopContainer)$"
)
#: The admission of pods without the checks of a pod's operating system, supplemental groups and
#: extended resources.
_OF_PREDICATES: Final = (
    "^(NewPredicateAdmitHandler|Admit|generalFilter|Error|GetReason|GetInsufficientAmount|"
    "NewAdmissionFailureHandlerStub|HandleAdmissionFailure)$"
)
#: How a new pod is admitted. The rest of that package resizes pods in place.
_OF_ALLOCATION: Final = "^(AddPod|AddPodAdmitHandlers|canAdmitPod|getAllocatedPods)$"


class Mutant(msgspec.Struct, frozen=True):
    """One planted fault. ``number`` switches it on, ``id`` stays the same from build to build:
    file, function, line, kind. ``source`` is the line that it is in."""

    number: int
    id: str
    file: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True)
class Planted:
    """The mutants of a release. ``sources``: the changed files by their paths in the module;
    ``texts``: the functions as they were, by ``file:function``."""

    mutants: tuple[Mutant, ...]
    sources: Mapping[str, str]
    texts: Mapping[str, str]

    def new_since(self, older: Planted) -> tuple[Mutant, ...]:
        """The mutants in lines that the older release's function of this name does not have."""
        lines = {
            name: {line.strip() for line in text.splitlines()} for name, text in older.texts.items()
        }
        return tuple(
            one
            for one in self.mutants
            if one.source not in lines.get(f"{one.file}:{one.function}", set())
        )


@dataclass(frozen=True, slots=True)
class _Area:
    """A package that is planted in: files whose names begin so, functions that match."""

    package: str
    files: tuple[str, ...] = ("",)
    functions: str = ""


AREAS: Final = (
    _Area(f"{_MANAGERS}/cpumanager"),
    _Area(f"{_MANAGERS}/cpumanager/state"),
    _Area(f"{_MANAGERS}/cpumanager/topology"),
    _Area(f"{_MANAGERS}/topologymanager"),
    _Area(f"{_MANAGERS}/admission"),
    _Area(
        _MANAGERS,
        ("container_manager_linux", "internal_container_lifecycle"),
        _OF_CONTAINER_MANAGER,
    ),
    _Area(f"{KUBERNETES}/pkg/kubelet/lifecycle", ("predicate", "admission"), _OF_PREDICATES),
    _Area(f"{KUBERNETES}/pkg/kubelet/allocation", ("allocation_manager",), _OF_ALLOCATION),
)


def plant(go: Go, version: Version, scratch: Path) -> Planted:
    """Plant faults in the packages of this release. ``scratch`` is an empty folder. Raises
    :class:`SubjectSetupError` where Go or the modules are missing."""
    module = module_folder(go, version)
    plan = recipe.recipe(version, (module / "go.mod").read_text())
    write_files(plan, scratch)
    go.run(["mod", "tidy"], folder=scratch)
    found = _packages(go, scratch)
    asked = {
        "packages": [
            _pack(area, found[area.package], module) for area in AREAS if area.package in found
        ],
        "exports": exports(go, ["."], scratch),
        "switch": SWITCH,
    }
    answer = run_plant(go, asked)
    sources = {
        "pkg/pinproofmutant/mutant.go" if not path else str(Path(path).relative_to(module)): text
        for path, text in answer["sources"].items()
    }
    return Planted(mutants_of(answer), sources, answer["texts"])


def mutants_of(answer: Mapping[str, Any]) -> tuple[Mutant, ...]:
    """The mutants of an answer of ``plant``."""
    return msgspec.convert(answer["mutants"], tuple[Mutant, ...])


def run_plant(go: Go, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the Go program ``plant`` to a request; raises :class:`SubjectSetupError`."""
    ran = subprocess.run(
        [go.program, "run", "."],
        cwd=PLANT,
        input=json.dumps(asked),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        last = ran.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise SubjectSetupError(f"no faults could be planted: {last[0]}", evidence=ran.stderr)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def module_folder(go: Go, version: Version) -> Path:
    """Where Go keeps the released module, downloaded if it was not there."""
    answer = json.loads(go.run(["mod", "download", "-json", f"{KUBERNETES}@v{version}"]))
    return Path(answer["Dir"])


def exports(go: Go, packages: Iterable[str], folder: Path) -> dict[str, str]:
    """The compiled packages, and those that they import, by import path."""
    fields = "{{.ImportPath}}\t{{.Export}}"
    listed = go.run(
        ["list", "-trimpath", "-export", "-deps", "-f", fields, *packages], folder=folder
    )
    found = dict(line.split("\t") for line in listed.splitlines())
    return {path: export for path, export in found.items() if export}


def _packages(go: Go, scratch: Path) -> dict[str, dict[str, Any]]:
    """The folder and files of each package that the kubelet is made of, by import path."""
    fields = "{{.ImportPath}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}"
    listed = go.run(["list", "-deps", "-f", fields, "."], folder=scratch)
    found = {}
    for line in listed.splitlines():
        path, folder, files = line.split("\t")
        found[path] = {"Dir": folder, "GoFiles": files.split()}
    return found


def _pack(area: _Area, package: Mapping[str, Any], module: Path) -> dict[str, Any]:
    folder = Path(package["Dir"])
    chosen = [
        name
        for name in package["GoFiles"]
        if name.startswith(area.files) and not name.startswith("fake_")
    ]
    return {
        "path": area.package,
        "files": [str(folder / name) for name in package["GoFiles"]],
        "plant": {
            str(folder / name): str((folder / name).relative_to(module / "pkg/kubelet"))
            for name in chosen
        },
        "functions": area.functions,
    }


def copy_module(module: Path, sources: Mapping[str, str], folder: Path) -> None:
    """Make ``folder`` the module, with ``sources`` in the place of its files of these paths."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, folders, names in os.walk(module):
        folders[:] = [one for one in folders if place != str(module) or one not in _NOT_BUILT]
        target = folder / Path(place).relative_to(module)
        target.mkdir(parents=True, exist_ok=True)
        _link(Path(place), target, (name for name in names if not name.endswith("_test.go")))
    for path, text in sources.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(text)


#: Folders of the module that no kubelet is made of.
_NOT_BUILT: Final = frozenset({"vendor", "test", "docs", "hack", "logo", "cluster", "LICENSES"})


def _link(source: Path, target: Path, names: Iterable[str]) -> None:
    for name in names:
        try:
            os.link(source / name, target / name)
        except OSError:  # another file system
            shutil.copyfile(source / name, target / name)
