"""``python -m pinproof.playground.build FOLDER``: write the playground, a folder of static files.

Any web server can serve it, and it loads nothing from elsewhere. What belongs here: which files.
What never does: what is on the page (``page/``).
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any, Final

import typer
import yaml

import pinproof
import topologies
from conformance.verdict import ExitStatus
from pinproof.playground.distribution import VERSION, NotBuilt, unpack
from reference import NEWEST
from reference.cpumanager.policy_options import OPTIONS
from reference.releases import LATEST
from topologies.entries import CATALOGUE, catalogue_entry, entry_names

_PAGE: Final = Path(__file__).with_name("page")
_ROOT: Final = Path(pinproof.__file__).parents[1]
_OWN: Final = ("conformance", "pinproof", "reference", "reports", "topologies")
#: Modules that read result streams and report them: the page has none.
_LEFT_OUT: Final = ["reports.run", "reports.merging", "reports.html", "reports.junit",
                    "reports.terminal", "reports.files"]  # fmt: skip
_ENTRY: Final = "pinproof.playground.asked"
#: The first release whose pages of policies and options are those of today.
_OLDEST_OFFERED: Final = 17
_NOTICE: Final = """\
pinproof {own}: Apache-2.0
Pyodide {pyodide}, with CPython: MPL-2.0, and PSF-2.0
PyYAML {yaml}: MIT
"""


def build(folder: Path) -> None:
    """Write the playground into ``folder``; its files of a former build are overwritten. Raises
    :class:`NotBuilt`, and :class:`OSError` where a file cannot be written."""
    unpack(folder / "pyodide")
    for path in _PAGE.iterdir():
        shutil.copyfile(path, folder / path.name)
    (folder / "choices.json").write_text(json.dumps(choices()), encoding="utf-8")
    notice = _NOTICE.format(own=version("pinproof"), pyodide=VERSION, yaml=version("pyyaml"))
    (folder / "NOTICE.txt").write_text(notice, encoding="utf-8")
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_members()):
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)


def choices() -> dict[str, Any]:
    """What the forms of the page offer before Python runs."""
    return {
        "machines": [
            {"name": name, "why": catalogue_entry(name).why}
            for name in topologies.names()
            if name in entry_names()
        ],
        "releases": [f"1.{minor}" for minor in range(LATEST, _OLDEST_OFFERED - 1, -1)],
        "release": NEWEST,
        "policyOptions": list(OPTIONS),
    }


def _members() -> Iterator[tuple[str, Path]]:
    """The files that run in the browser: each module that the page's entry imports, PyYAML without
    libyaml, and the catalogue of machines."""
    finder = ModuleFinder(path=[str(_ROOT)], excludes=_LEFT_OUT)
    finder.import_hook(_ENTRY)
    for name, module in finder.modules.items():
        if name.partition(".")[0] in _OWN and (file := getattr(module, "__file__", None)):
            path = Path(file)
            yield path.relative_to(_ROOT).as_posix(), path
    for path in Path(yaml.__file__).parent.glob("*.py"):
        yield f"yaml/{path.name}", path
    for path in [*CATALOGUE.glob("*.toml"), *CATALOGUE.glob("*.tar.xz")]:
        yield path.relative_to(_ROOT).as_posix(), path


def main(arguments: list[str]) -> int:
    """Exit status 2 for wrong usage, 3 where the playground cannot be built."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        typer.echo("usage: python -m pinproof.playground.build FOLDER", err=True)
        return ExitStatus.USAGE
    try:
        build(Path(arguments[0]))
    except (NotBuilt, OSError) as error:
        typer.echo(f"the playground is NOT BUILT: {error}", err=True)
        return ExitStatus.COULD_NOT_TELL
    typer.echo(arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
