"""The command line: thin; every command calls what the packages provide and prints it.

Exit statuses are those of :class:`conformance.verdict.ExitStatus`. A command that makes something
prints its path as the last line on stdout, and everything else on stderr.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from conformance.subject import SubjectError, SubjectNotRestored, SubjectUsageError
from conformance.verdict import ExitStatus
from hil.safety.errors import NotRestored
from hil.shell import NodeError, NodeUsageError
from pinproof import (
    capture,
    catalogue,
    certify,
    draw,
    drivers,
    exchange,
    kubelets,
    lab,
    probe,
    releases,
    restore,
    run,
    simulate,
)
from reference.errors import ModelError
from reports.text import clean
from topologies import MachineError
from topologies.capturing import BadTarget, CaptureError

app = typer.Typer(
    name="pinproof",
    help="Prove that a Kubernetes node pins CPUs as it promises.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    "run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: pinproof run --subject kubelet:1.36 --machine 2s-4n-64c-smt2 --report out",
)(run.run)
app.command(
    "certify",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: pinproof certify ssh://root@node7 --max-risk kubelet-restart",
)(certify.certify)
app.command("probe", epilog="Example: pinproof probe ssh://root@node7")(probe.probe)
app.command("restore", epilog="Example: pinproof restore ssh://root@node7")(restore.restore)
app.command("explain", epilog="Example: pinproof explain machine/cpu-upgrade-incident")(
    catalogue.explain
)
app.command("machines", epilog="Example: pinproof machines '2s-*'")(catalogue.machines)
app.command("draw", epilog="Example: pinproof draw 2s-4n-64c-smt2 --svg machine.svg")(draw.draw)
app.command(
    "simulate", epilog="Example: pinproof simulate --machine 2s-4n-64c-smt2 --pods 4,2,1.5"
)(simulate.simulate)
app.command("import", epilog="Example: pinproof import node7.tar.gz -o node7.tar.xz")(
    exchange.import_
)
app.command("export", epilog="Example: pinproof export 2s-4n-64c-smt2 /tmp/machine")(
    exchange.export
)
app.command("releases", epilog="Example: pinproof releases 1.31 1.32")(releases.releases)
app.command("capture", epilog="Example: pinproof capture ssh://root@node7 -o node7.tar.xz")(
    capture.capture
)
app.add_typer(kubelets.app, name="kubelet")
app.add_typer(drivers.app, name="driver")
app.add_typer(lab.app, name="lab")


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"pinproof {version('pinproof')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Prove that a Kubernetes node pins CPUs as it promises."""


def main() -> None:
    """The console script: errors that a user can mend are one line."""
    try:
        app()
    except BadTarget as error:
        _fail(error, ExitStatus.USAGE)
    except CaptureError as error:
        _fail(error, ExitStatus.COULD_NOT_TELL)
    except (MachineError, ModelError, NodeUsageError, SubjectUsageError) as error:
        _fail(error, ExitStatus.USAGE)
    except (NotRestored, SubjectNotRestored) as error:
        _fail(error, ExitStatus.NOT_RESTORED)
    except (NodeError, SubjectError) as error:
        _fail(error, ExitStatus.COULD_NOT_TELL)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ExitStatus.CONFORMANT)


def _fail(error: Exception, status: ExitStatus) -> None:
    """What went wrong may quote a kubelet, a node or an archive, so it is cleaned."""
    Console(stderr=True, highlight=False, emoji=False).print(
        f"pinproof: {clean(str(error))}", markup=False, soft_wrap=True
    )
    sys.exit(int(status))
