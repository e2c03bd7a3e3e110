"""Wheel and source distribution of this checkout, built without a network; and an environment that
has the wheel and what it requires, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib import resources
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import lacking

ROOT: Final = Path(__file__).parents[2]


def loaded(path: Path) -> Any:
    """A file of YAML as JSON has it; YAML 1.1 takes the key ``on`` for a truth."""
    text = json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")))
    return json.loads(text.replace('"true": {', '"on": {'))


def published(name: str) -> Any:
    """A validator by the schema that is published under this name."""
    jsonschema = lacking.module("jsonschema")
    lacking.module("check_jsonschema")
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def shipped() -> list[str]:
    """The files that git would ship of this checkout."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return sorted({name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()})


def copied(to: Path) -> Path:
    """The checkout as git has it."""
    for name in shipped():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    return to


def build(source: Path, to: Path, kind: str) -> Path:
    """A ``wheel`` or an ``sdist`` of the folder ``source``, made by the project's build backend."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(to)],
        cwd=source, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    (made,) = to.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def required(extra: str = "") -> dict[str, Distribution]:
    """The libraries of the smallest installation, or with an extra, by name, as they are installed
    here: what pinproof requires, what that requires, and so on."""
    found: dict[str, Distribution] = {}
    left = [(distribution("pinproof"), extra)]
    while left:
        one, asked = left.pop()
        for requirement in map(Requirement, one.requires or ()):
            name = canonicalize_name(requirement.name)
            marker = requirement.marker
            wanted = marker is None or marker.evaluate({"extra": asked})
            if wanted and name != "pinproof" and name not in found:
                found[name] = distribution(name)
                left.append((found[name], ""))
            if wanted and name == "pinproof":
                left += [(distribution("pinproof"), more) for more in requirement.extras]
    return found


def files(one: Distribution) -> Iterator[tuple[str, Path]]:
    """What a library has in the folder of packages, without compiled files of Python."""
    for file in one.files or ():
        if file.suffix != ".pyc" and file.parts[0] != "..":
            yield file.as_posix(), Path(str(file.locate()))


def environment(at: Path, wheel: Path) -> Path:
    """A new environment with this wheel and the libraries that it requires; its ``bin``."""
    venv.create(at, with_pip=False, symlinks=True)
    (packages,) = at.glob("lib/python3.*/site-packages")
    for one in required().values():
        for name, path in files(one):
            place = packages / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(at / "bin" / "python"), "install", "--quiet",
         "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", str(wheel)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return at / "bin"
