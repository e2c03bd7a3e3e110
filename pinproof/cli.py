"""The command line: thin; every command calls what the packages provide and prints it.

Exit statuses are those of :class:`conformance.verdict.ExitStatus`. A command that makes something
prints its path as the last line on stdout, and everything else on stderr.

A command's module is imported when the command is called, or asked for its own help: all of them
together take a second, which ``pinproof --help`` and every Tab would cost.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from conformance.verdict import ExitStatus
from pinproof.helptext import legible

_MARKUP: Final = "rich"
#: What keeps a file from being written that is where it should be.
_CANNOT_BE_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


class Lazy(NamedTuple):
    """A command that is not imported yet: where it is (a function, or the ``typer.Typer`` of a
    group), the first paragraph of its help, the words of an example, whether arguments that it does
    not know are left to it, and the group of ``--help`` that lists it."""

    place: str
    help: str = ""
    example: str = ""
    takes_more: bool = False
    panel: str = ""


#: Commands by their group in ``--help``. Names that only old scripts use are in none.
_PANELS: Final = {
    "Judge": {
        "run": Lazy("run.run",
            "Run the scenarios on a subject, and report.",
            "--subject kubelet:1.36 --machine 2s-4n-64c-smt2 --report out", takes_more=True),
        "certify": Lazy("certify.certify",
            "Certify nodes: each gets a certificate, as HTML and JSON, beside its report.",
            "ssh://root@node7 --max-risk kubelet-restart", takes_more=True),
        "identify": Lazy("identify.identify",
            "Say which named behaviours a binary has: the release that fits best, the behaviours "
            "that the binary has or lacks beside it, and those that contradict the release that it "
            "states.",
            "kubelet:./kubelet --format json"),
        "explore": Lazy("explore.explore",
            "Draw histories, walk the subject through them beside the model, and shrink what "
            "differs.",
            "kubelet:1.36 --machine 2s-2n-8c-smt2 --time 10"),
        "hunt": Lazy("hunt.app",
            "Search the model for histories that break a promise, and show each on a real "
            "kubelet."),
        "explain": Lazy("explain.explain",
            "Say what a scenario promises, where that is promised, and the steps it takes. Of a "
            "release, say what is new in it; of two, what differs between them.",
            "machine/cpu-upgrade-incident"),
    },
    "Rehearse": {
        "simulate": Lazy("simulate.simulate",
            "Show which CPUs each container would get, and why: as a table and a picture.",
            "--machine 2s-4n-64c-smt2 --pods 4,2,1.5"),
        "upgrade": Lazy("upgrade.upgrade",
            "Rehearse an upgrade of the kubelet on one machine, the way back, and the upgrade once "
            "more: does each kubelet start, and do pods that run keep their CPUs?",
            "1.36 1.37 --node node7.tar.xz"),
        "advise": Lazy("advise.advise",
            "Say which known defects of the kubelet apply to a node: its release, settings and "
            "machine.",
            "--release 1.36 --config kubelet.yaml --machine 2s-4n-64c-smt2"),
    },
    "Machines": {
        "machines": Lazy("machines.machines",
            "List machines: a line for each, with its totals and why it is here.", "'2s-*'"),
        "draw": Lazy("draw.draw",
            "Draw a machine: sockets, NUMA nodes, uncore caches, physical cores, threads, and "
            "which containers hold CPUs. With --state alone the holders are those of that file; "
            "with --pods, those to which a kubelet would give CPUs.",
            "2s-4n-64c-smt2 --svg machine.svg"),
        "capture": Lazy("capture.capture",
            "Capture a machine, or with --node a whole node: this host, a node over SSH, one that "
            "QEMU boots a kernel on, or what another program captured.",
            "ssh://root@node7 -o node7.tar.xz"),
    },
    "Nodes": {
        "probe": Lazy("probe.probe",
            "Show the facts of a node: kubelet, runtime, cgroups, kernel, machine, distribution; "
            "and say which scenarios apply there and why the others do not. Reads only.",
            "ssh://root@node7"),
        "restore": Lazy("restore.restore",
            "Undo the changes of a killed run, from the journal on the node, and compare the node "
            "with its state before the run.",
            "ssh://root@node7"),
        "lab": Lazy("lab.app",
            "Boot real nodes in QEMU: kernel, containerd, kubelet. Hardware and KVM are not "
            "needed."),
        "fleet": Lazy("fleet.app",
            "Run a cluster of real kubelets on machines that need not exist, for kubectl and "
            "schedulers."),
    },
    "Results": {
        "report": Lazy("report.report",
            "Make a report from result streams.", "out/result.jsonl --format markdown"),
        "compare": Lazy("report.compare",
            "Compare two runs, machine by machine: regressions, fixes, new and gone cases.",
            "main/result.jsonl out/result.jsonl"),
        "verify": Lazy("verify.verify",
            "Check a certificate: recompute what can be recomputed, and name what cannot.",
            "certificate.json result.jsonl --allowed-signers vendors"),
        "submission": Lazy("submission.app",
            "Make, check and list submissions: certificates that vendors send in."),
    },
    "Develop": {
        "build": Lazy("build.app",
            "Build and list kubelets, drivers (the CPU manager of a release as the subject "
            "exec:PATH), API servers, schedulers and the container image."),
        "job": Lazy("job.app",
            "Print Jobs of Kubernetes: shards of a run or of a hunt, or nodes that certify "
            "themselves."),
        "ci": Lazy("ci.app", "Write the CI of a kubelet fork: GitHub, GitLab or Prow."),
    },
    "": {
        "releases": Lazy("releases.releases", example="1.31 1.32"),
        "collect": Lazy("collect.collect", example="ssh://root@node7 -o node7.tar.xz"),
        "kubelet": Lazy("build.kubelet"),
        "driver": Lazy("build.driver"),
        "apiserver": Lazy("build.apiserver"),
        "witnesses": Lazy("witnesses.witnesses", example="1.36"),
        "import": Lazy("import_export.import_", example="node7.tar.gz -o node7.tar.xz"),
        "export": Lazy("import_export.export", example="2s-4n-64c-smt2 /tmp/machine"),
        "known": Lazy("report.known", example="--from out/result.jsonl -o known-failures.toml"),
    },
}  # fmt: skip
COMMANDS: Final = {
    name: entry._replace(panel=panel)
    for panel, entries in _PANELS.items()
    for name, entry in entries.items()
}


def loaded(name: str) -> Any:
    """The command of this name, imported (a Click command)."""
    entry = COMMANDS[name]
    module, _, attribute = entry.place.partition(".")
    found = getattr(import_module(f"pinproof.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name, group.help = name, entry.help or group.help
        return legible(group)
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    alone = typer.Typer(add_completion=False, rich_markup_mode=_MARKUP)
    alone.command(
        name,
        epilog=f"Example: pinproof {name} {entry.example}",
        context_settings=settings if entry.takes_more else None,
    )(found)
    return legible(get_command(alone))


class _LazyGroup(TyperGroup):
    """Knows its commands by name and one line of help, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(
                TyperCommand(
                    name,
                    help=entry.help,
                    hidden=not entry.panel,
                    rich_markup_mode=_MARKUP,
                    rich_help_panel=entry.panel or None,
                )
            )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the command and what is left of the arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name in COMMANDS else found, rest


app = typer.Typer(
    name="pinproof",
    cls=_LazyGroup,
    help="Prove that a Kubernetes node pins CPUs as it promises.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"pinproof {version('pinproof')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prove that a Kubernetes node pins CPUs as it promises."""


def main() -> None:
    """The command line: errors that a user can mend are one line."""
    try:
        app()
    except Exception as error:
        from conformance.extras import missing
        from conformance.importing import fault_of_scenarios
        from pinproof.exit_statuses import status_of  # the errors of all packages

        if isinstance(error, PermissionError) and error.filename:
            _fail(f"{error.filename}: {error.strerror}", ExitStatus.USAGE)
        if isinstance(error, OSError) and error.errno in _CANNOT_BE_WRITTEN:
            place = f"{error.filename}: " if error.filename else ""
            _fail(f"{place}{error.strerror}", ExitStatus.COULD_NOT_TELL)
        if extra := missing(error):
            _fail(extra, ExitStatus.USAGE)
        status = status_of(error)
        scenarios = "" if status else fault_of_scenarios(error)
        if scenarios:
            _fail(scenarios, ExitStatus.USAGE)
        if status is None:
            raise
        _fail(error, status)


def _fail(error: Exception | str, status: ExitStatus) -> None:
    """What went wrong may quote a kubelet, a node or an archive, so it is cleaned."""
    from pinproof.output import note
    from reports.text import clean

    note(f"pinproof: {clean(str(error))}")
    sys.exit(int(status))
