"""``pinproof job``: manifests of Jobs that run, or hunt, on a cluster, and of a plugin of Sonobuoy.

What belongs here: options, and what is refused before a manifest is printed. What never does: the
objects (:mod:`pinproof.job_manifest`, :mod:`pinproof.sonobuoy_plugin`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import MISSING, dataclass
from typing import Any, Final

import typer
import yaml

from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from hil.safety import Allow, Risk
from hil.transport.inventory import HOST
from hunting import campaign
from pinproof import certify as certify_command
from pinproof import hunt as hunt_command
from pinproof import run as run_command
from pinproof.image.contents import is_image_name
from pinproof.job_manifest import Place, Task
from pinproof.job_manifest import job as manifest
from pinproof.parameters import option, read_options, with_options
from pinproof.probe import risk_named
from pinproof.sonobuoy_plugin import plugin

#: Options that the Job gives to each of its pods.
_OWN: Final = frozenset({"--shard", "--report", "--resume"})
#: A container reaches nodes and writes files of its own host alone.
_NOT_IN_A_POD: Final = frozenset({"--dry-run", "--record", "--ask-sudo-password"})
#: What a pod on its own node sets itself, and files and API servers that it does not reach.
_NOT_ON_A_NODE: Final = frozenset(
    {"--report", "--resume", "--machine", "--dry-run", "--at-once", "--ask-sudo-password", "--sign"}
    | {"--cosign-key", "--kubeconfig", "--upgrade-to"}
)
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST: Final = 63
_SETTINGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """Where the Job runs; each field is an option."""

    shards: int = option(MISSING, "How many shards there are: a pod for each.", min=1, max=100_000)
    image: str = option(MISSING, "An image with pinproof on its path.", metavar="NAME")
    at_once: int = option(0, "How many pods run at once; 0: all.", min=0)
    claim: str = option(
        "", "A volume claim that keeps what the pods write; without it only their logs do.",
        metavar="NAME",
    )  # fmt: skip
    name: str = option("", "The Job's name; default: pinproof- and the command.", metavar="NAME")
    namespace: str = option("", "The Job's namespace; default: that of kubectl.", metavar="NAME")

    def place(self, command: str) -> Place:
        """Raises :class:`SubjectUsageError` for what no API server or container runtime takes."""
        name = self.name or f"pinproof-{command}"
        _require_image("--image", self.image)
        most = _LONGEST - len(f"-{self.shards - 1}")  # a pod's host name ends with its index
        _require(_LABEL, "--name", name, most)
        if self.namespace:
            _require(_LABEL, "--namespace", self.namespace, _LONGEST)
        if self.claim:
            _require(_SUBDOMAIN, "--claim", self.claim, 253)
        return Place(name, self.image, self.shards, self.at_once, self.namespace, self.claim)


def _require_image(flag: str, name: str) -> None:
    if not is_image_name(name):
        raise SubjectUsageError(
            f"{flag} {name!r}: not the name of an image, such as registry.example.com/pinproof:1"
        )


def _require(form: re.Pattern[str], flag: str, name: str, most: int) -> None:
    if form.fullmatch(name) is None or len(name) > most:
        dots = ", '.'" if form is _SUBDOMAIN else ""
        raise SubjectUsageError(
            f"{flag} {name!r}: a name has small letters, digits{dots} and '-', begins and ends "
            f"with a letter or digit, and has at most {most} characters here"
        )


@app.command(
    "hunt",
    epilog="Example: pinproof job hunt --shards 500 --image example.com/pinproof:1 --depth 4",
    context_settings=_SETTINGS,
)
@with_options
def hunt(context: typer.Context, asked: Asked) -> None:
    """Print an Indexed Job of Kubernetes that searches one shard of a campaign in each index.

    All other options go to pinproof hunt. A pod's log is the hunt.jsonl of its shard, and pinproof
    hunt merge joins the folders of the shards. With --claim a pod that replaces a failed one goes
    on where that one ended.
    """
    words, place = context.args, asked.place("hunt")
    _require_foreign(words, {*_OWN, "--crash-points"})
    searches = hunt_command.searches(words)
    _require_few(place.shards, searches, "searches")
    keep = f"$(test -e $shard/{campaign.FILE} && echo --resume || echo --report) $shard"
    ended = (ExitStatus.CONFORMANT, ExitStatus.NOT_CONFORMANT)
    _print(place, Task(["pinproof", "hunt", *words], campaign.FILE, keep, ended))


@app.command(
    "run",
    epilog="Example: pinproof job run --shards 20 --image example.com/pinproof:1 --machine '2s-*'",
    context_settings=_SETTINGS,
)
@with_options
def run(context: typer.Context, asked: Asked) -> None:
    """Print an Indexed Job of Kubernetes that runs one shard of the scenarios in each index.

    All other options go to pinproof run. A pod's log is the result stream of its shard, and
    pinproof report joins the streams. The pods of a subject kubelet: are privileged, because they
    make a sandbox.
    """
    words, place = context.args, asked.place("run")
    _require_foreign(words, {*_OWN, *_NOT_IN_A_POD})
    subject, cases = run_command.cases(words)
    if subject.startswith("node:"):
        raise SubjectUsageError(f"--subject {subject}: a real node has no shards")
    _require_few(place.shards, cases, "cases")
    ended = (ExitStatus.CONFORMANT, ExitStatus.NOT_CONFORMANT, ExitStatus.TOO_FEW)
    task = Task(
        ["pinproof", "run", *words],
        "result.jsonl",
        "--report $shard --resume",
        ended,
        is_root=subject.startswith("kubelet:"),
    )
    _print(place, task)


@dataclass(frozen=True, slots=True)
class Plugged:
    """What a plugin of Sonobuoy is; each field is an option."""

    image: str = option(MISSING, "An image with pinproof on its path.", metavar="NAME")
    workload_image: str = option(
        "", "What certify calls --image: an image with a POSIX shell that is on the nodes.",
        metavar="NAME",
    )  # fmt: skip
    allow: list[str] | None = option(
        None, "foreign-workloads or static-pods, as an inventory has it; repeatable."
    )
    name: str = option("pinproof", "The plugin's name.", metavar="NAME")


@app.command(
    "sonobuoy",
    epilog="Example: pinproof job sonobuoy --image example.com/pinproof:1 >pinproof.yaml",
    context_settings=_SETTINGS,
)
@with_options
def sonobuoy(context: typer.Context, asked: Plugged) -> None:
    """Print a plugin of Sonobuoy with which each node of a cluster certifies itself.

    All other options go to pinproof certify. sonobuoy run --plugin FILE runs it, and its results
    have the certificate, the report and the result stream of each node. The pods are privileged.
    """
    words = [*context.args]
    _require_foreign(words, _NOT_ON_A_NODE)
    for flag, image in (("--image", asked.image), ("--workload-image", asked.workload_image)):
        if image or flag == "--image":
            _require_image(flag, image)
    _require(_LABEL, "--name", asked.name, _LONGEST)
    # A reboot would end the pod that asks for it.
    permitted = {one.value for one in Allow} - {Allow.REBOOT.value}
    for one in asked.allow or []:
        if one not in permitted:
            known = ", ".join(sorted(permitted))
            raise SubjectUsageError(f"--allow {one!r}: it is one of {known}")
    if asked.workload_image:
        words = ["--image", asked.workload_image, *words]
    read, _ = read_options(
        certify_command.certify, certify_command.Asked, [HOST, *words], "pinproof certify",
        takes_more=True,
    )  # fmt: skip
    if read.nodes[1:] and not read.nodes[1].startswith("-"):
        raise SubjectUsageError(f"{read.nodes[1]}: a node certifies itself, and is not named")
    if read.max_risk and risk_named(read.max_risk) is Risk.REBOOT:
        raise SubjectUsageError("--max-risk reboot: it would end the pod that certifies the node")
    typer.echo(_yaml(plugin(asked.name, asked.image, words, asked.allow or [])), nl=False)


def _require_foreign(words: list[str], own: Collection[str]) -> None:
    """Refuse options that a Job has no use for, or sets itself."""
    for word in words:
        if (flag := word.partition("=")[0]) in own:
            raise SubjectUsageError(f"{flag}: not an option of a Job's pods")


def _require_few(shards: int, parts: int, what: str) -> None:
    if shards > parts:
        raise SubjectUsageError(f"--shards {shards}: number of {what} to share: {parts}")


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as it is read."""


def _text(dumper: _Dumper, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _print(place: Place, task: Task) -> None:
    typer.echo(_yaml(manifest(place, task)), nl=False)


def _yaml(value: dict[str, Any]) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)
