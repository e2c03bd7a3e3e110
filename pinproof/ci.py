"""``pinproof ci``: files for the CI of a kubelet fork, to copy and change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import typer
from jinja2 import Environment, PackageLoader, StrictUndefined

from conformance.subject import SubjectUsageError, usable
from pinproof.parameters import argument, option, with_options

SCRIPT: Final = "pinproof-gate.sh"
#: The extra without the wheel of Go: the CI of a fork has Go.
_EXTRA: Final = "sandbox"

app = typer.Typer(no_args_is_help=True)


class Forge(Enum):
    GITHUB = "github"
    GITLAB = "gitlab"
    PROW = "prow"


#: Template, and where its file belongs in a repository.
FILES: Final = {
    Forge.GITHUB: ("github.yml", ".github/workflows/pinproof.yml"),
    Forge.GITLAB: ("gitlab.yml", ".gitlab/pinproof.yml"),
    Forge.PROW: ("prow.yaml", "pinproof-prow.yaml"),
}


@app.callback()
def _group() -> None:
    """With it ``init`` is a command of a group."""


@dataclass(frozen=True, slots=True)
class Asked:
    forge: Forge = argument("The CI that runs the job.", metavar="github|gitlab|prow")
    directory: Path = option(Path(), "The repository of the fork.", file_okay=False, exists=True)
    kubelet: str = option("_output/bin/kubelet", "Where the build puts the kubelet.")
    build: str = option(
        "make WHAT=cmd/kubelet KUBE_STATIC_OVERRIDES=kubelet", "The command that builds it."
    )
    machine: list[str] | None = option(
        None, "Name or glob of machines; repeatable. Default: two small ones."
    )
    known: str = option("known-failures.toml", "The list of known failures, where there is one.")
    explore: float = option(0, "Let the job explore so long as well.", min=0, metavar="MINUTES")
    branch: str = option("master", "The main branch.")
    package: str = option(
        "",
        "What the job gives to pip install: git+https://HOST/PATH@COMMIT, or ./FOLDER of a "
        "checkout in the fork. Default: the URL or index from which this pinproof was installed. "
        "Required if it was installed from a folder.",
    )
    force: bool = option(False, "Overwrite what is there.", "--force")


@app.command()
@with_options
def init(asked: Asked) -> None:
    """Write a workflow and the script that it calls: build with a cache, annotations, JUnit, known
    failures, comparison with the main branch."""
    if asked.package:
        _require_installable(asked.package)
    values = {
        "kubelet": asked.kubelet,
        "build": asked.build,
        "machines": " ".join(asked.machine or ["1s-1n-4c-smt2", "2s-4n-64c-smt2"]),
        "known": asked.known,
        "explore": f"{asked.explore:g}",
        "branch": asked.branch,
        "package": _with_extra(asked.package or installed_from()),
        "script": SCRIPT,
    }
    for name, value in values.items():
        _require_plain(name, value)
    template, place = FILES[asked.forge]
    directory = asked.directory
    texts = {place: rendered(template, name=place, **values), SCRIPT: rendered("gate.sh", **values)}
    there = [name for name in texts if (directory / name).exists()]
    if there and not asked.force:
        raise SubjectUsageError(f"{directory / there[0]} exists (--force overwrites it)")
    for name, text in texts.items():
        _write(directory / name, text, executable=name == SCRIPT)
    typer.echo(f"the job installs pinproof from {values['package']}", err=True)
    typer.echo(str(directory / place))


def installed_from() -> str:
    """What pip takes to install this pinproof elsewhere: the URL that it came from, at its commit
    (PEP 610), or its release on an index. Raises :class:`SubjectUsageError` for one that was
    installed from a folder or a file of this machine."""
    installed = distribution("pinproof")
    text = installed.read_text("direct_url.json")
    if text is None:
        return f"pinproof=={installed.version}"
    origin = json.loads(text)
    url, vcs = str(origin["url"]), origin.get("vcs_info")
    if vcs:
        return f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    if url.startswith("file:"):
        raise SubjectUsageError(
            "this pinproof was installed from a folder, which a CI job does not have: give "
            "--package git+https://HOST/PATH@COMMIT, or ./FOLDER of a checkout in the fork"
        )
    return url


def _require_installable(package: str) -> None:
    """Refuse what no job could install: no index has pinproof, and a path of this host is not
    there."""
    if not package.startswith("./") and "://" not in package:
        raise SubjectUsageError(
            f"--package {package}: it is git+https://HOST/PATH@COMMIT, another URL, or ./FOLDER of "
            "a checkout in the fork"
        )


def _with_extra(package: str) -> str:
    """The package with the extra that a kubelet in the loop needs."""
    if "[" in package:
        return package
    if package.startswith("./"):
        return f"{package}[{_EXTRA}]"
    if "://" in package:
        return f"pinproof[{_EXTRA}] @ {package}"
    return package.replace("pinproof", f"pinproof[{_EXTRA}]", 1)


def rendered(template: str, **values: str) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    return Environment(  # noqa: S701  # no HTML: values are refused that would need escaping
        loader=PackageLoader("pinproof", "templates"),
        variable_start_string="@{",
        variable_end_string="}@",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def _require_plain(name: str, value: str) -> None:
    """Refuse what would end a quoted word of YAML or shell."""
    if ": " in value:
        raise SubjectUsageError(f"--{name} has a colon in it; put it into the written file by hand")
    odd = sorted({one for one in value if one in "'\"\\`${}#\n" or not one.isprintable()})
    if odd or not value.strip():
        what = f"has {odd[0]!r} in it" if odd else "is empty"
        raise SubjectUsageError(f"--{name} {what}; put it into the written file by hand")


def _write(path: Path, text: str, *, executable: bool) -> None:
    with usable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if executable:
            path.chmod(0o755)
    typer.echo(f"wrote {path}", err=True)
