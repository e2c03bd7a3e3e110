"""``pinproof job``: manifests of Jobs that run, hunt, or certify nodes; and a plugin of Sonobuoy.

What belongs here: options, and what is refused before a manifest is printed. What never does: the
objects (:mod:`pinproof.job_manifest`, :mod:`pinproof.job_certify`,
:mod:`pinproof.sonobuoy_plugin`).
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
from hil.observation.places import OURS
from hil.safety import Allow, Risk
from hil.transport.inventory import HOST
from hunting import campaign
from pinproof import certify as certify_command
from pinproof import hunt as hunt_command
from pinproof import run as run_command
from pinproof.image.contents import is_image_name
from pinproof.job_certify import Certified, jobs
from pinproof.job_manifest import Place, Task
from pinproof.job_manifest import job as manifest
from pinproof.parameters import argument, option, read_options, with_options
from pinproof.probe import risk_named
from pinproof.sonobuoy_plugin import plugin

#: Options that the Job gives to each of its pods.
_OWN: Final = frozenset({"--shard", "--report", "--resume"})
#: Options that ask, print or write where the command runs, which a pod cannot do for its user.
_NOT_IN_A_POD: Final = frozenset({"--dry-run", "--record", "--ask-sudo-password"})
#: What a pod on its own node sets itself, and files and API servers that the pod does not reach.
_NOT_ON_A_NODE: Final = frozenset(
    {"--report", "--resume", "--machine", "--dry-run", "--at-once", "--ask-sudo-password", "--sign"}
    | {"--cosign-key", "--kubeconfig", "--upgrade-to"}
)
#: A reboot would end the pod that asks for it.
_ALLOWED: Final = sorted({one.value for one in Allow} - {Allow.REBOOT.value})
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST: Final = 63
#: Texts of options that two commands have.
_WORKLOAD: Final = "What certify calls --image: an image with a POSIX shell that is on the nodes."
_MAY_ALLOW: Final = "foreign-workloads or static-pods, as an inventory has it; repeatable."
_SETTINGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Asked:
    shards: int = option(MISSING, "How many shards there are: a pod for each.", min=1, max=100_000)
    image: str = option(MISSING, "An image with pinproof on its path.", metavar="NAME")
    at_once: int = option(0, "How many pods run at once; 0: all.", min=0)
    claim: str = option(
        "", "A volume claim that keeps what the pods write; without it only their logs do.",
        metavar="NAME",
    )  # fmt: skip
    name: str = option("", "The Job's name; default: the command and -pinproof.", metavar="NAME")
    namespace: str = option("", "The Job's namespace; default: that of kubectl.", metavar="NAME")

    def place(self, command: str) -> Place:
        """As :func:`_checked`."""
        name = self.name or f"{command}-pinproof"
        place = Place(name, self.image, self.shards, self.at_once, self.namespace, self.claim)
        return _checked(place)


def _checked(place: Place) -> Place:
    """Raises :class:`SubjectUsageError` for what no API server or container runtime takes."""
    _require_image("--image", place.image)
    most = _LONGEST - len(f"-{place.shards - 1}")  # a pod's host name ends with its index
    _require(_LABEL, "--name", place.name, most)
    if place.name.startswith(OURS):
        raise SubjectUsageError(
            f"--name {place.name!r}: on a node that is judged, pods whose names begin with {OURS} "
            "are those of scenarios"
        )
    if place.namespace:
        _require(_LABEL, "--namespace", place.namespace, _LONGEST)
    if place.claim:
        _require(_SUBDOMAIN, "--claim", place.claim, 253)
    return place


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
    task = Task(["pinproof", "hunt", *words], campaign.FILE, keep, ended)
    _echo(manifest(place, task))


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
    _echo(manifest(place, task))


@dataclass(frozen=True, slots=True)
class Plugged:
    image: str = option(MISSING, "An image with pinproof on its path.", metavar="NAME")
    workload_image: str = option("", _WORKLOAD, metavar="NAME")
    allow: list[str] | None = option(None, _MAY_ALLOW)
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
    _require_image("--image", asked.image)
    _require(_LABEL, "--name", asked.name, _LONGEST)
    words = _certifying(context.args, asked.allow or [], asked.workload_image)
    _echo(plugin(asked.name, asked.image, words, asked.allow or []))


@dataclass(frozen=True, slots=True)
class Nodes:
    nodes: list[str] = argument("Names of nodes, as kubectl get nodes has them.", metavar="NODE...")
    image: str = option(MISSING, "An image with pinproof on its path.", metavar="NAME")
    max_unavailable: int = option(1, "How many nodes are certified at a time.", min=1)
    workload_image: str = option("", _WORKLOAD, metavar="NAME")
    allow: list[str] | None = option(None, _MAY_ALLOW)
    claim: str = option("", "A volume claim that keeps the certificates.", metavar="NAME")
    name: str = option("certify-pinproof", "What the Jobs' names begin with.", metavar="NAME")
    namespace: str = option("", "The Jobs' namespace; default: that of kubectl.", metavar="NAME")


@app.command(
    "certify",
    epilog="Example: pinproof job certify node1 node2 --image example.com/pinproof:1 "
    "--max-risk kubelet-restart",
    context_settings=_SETTINGS,
)
@with_options
def certify(context: typer.Context, asked: Nodes) -> None:
    """Print Jobs of Kubernetes by which nodes certify themselves: one Job, and one pod, for each.

    All other options go to pinproof certify. A pod's log is the result stream of its node, and
    pinproof report joins the streams; the certificates are in the claim. The pods are privileged.
    """
    nodes, extra = _nodes(asked.nodes + context.args)
    for one in nodes:
        _require(_SUBDOMAIN, "NODE", one, 253)
    place = Place(asked.name, asked.image, len(nodes), 0, asked.namespace, asked.claim)
    words = _certifying(extra, asked.allow or [], asked.workload_image)
    wish = Certified(nodes, asked.max_unavailable, words, asked.allow or [])
    _echo(jobs(_checked(place), wish))


def _nodes(words: list[str]) -> tuple[list[str], list[str]]:
    """The names of nodes, which come first, and the options after them."""
    count = next((k for k, word in enumerate(words) if word.startswith("-")), len(words))
    return list(dict.fromkeys(words[:count])), words[count:]


def _certifying(words: list[str], allow: list[str], workload_image: str) -> list[str]:
    """Options of ``pinproof certify`` for a pod on its own node. Raises
    :class:`SubjectUsageError` for those that it cannot have."""
    _require_foreign(words, _NOT_ON_A_NODE)
    for one in allow:
        if one not in _ALLOWED:
            raise SubjectUsageError(f"--allow {one!r}: it is one of {', '.join(_ALLOWED)}")
    if workload_image:
        _require_image("--workload-image", workload_image)
        words = ["--image", workload_image, *words]
    read, _ = read_options(
        certify_command.certify, certify_command.Asked, [HOST, *words], "pinproof certify",
        takes_more=True,
    )  # fmt: skip
    if read.nodes[1:] and not read.nodes[1].startswith("-"):
        raise SubjectUsageError(f"{read.nodes[1]}: a node certifies itself, and is not named")
    if read.max_risk and risk_named(read.max_risk) is Risk.REBOOT:
        raise SubjectUsageError("--max-risk reboot: it would end the pod that certifies the node")
    return words


def _require_foreign(words: list[str], own: Collection[str]) -> None:
    """Refuse options that a Job has no use for, or sets itself."""
    for word in words:
        if (flag := word.partition("=")[0]) in own:
            raise SubjectUsageError(f"{flag}: not an option of a Job's pods")


def _require_few(shards: int, parts: int, what: str) -> None:
    if shards > parts:
        raise SubjectUsageError(f"--shards {shards}: number of {what} to share: {parts}")


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as it is read, and each object in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _echo(value: dict[str, Any]) -> None:
    typer.echo(yaml.dump(value, Dumper=_Dumper, sort_keys=False), nl=False)
