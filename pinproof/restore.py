"""``pinproof restore``: what a dead run left on a node, undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from hil.inspection import gather
from hil.safety import NodeBusy, NotRestored, forget_node, left_by_a_run, restore_node
from hil.safety.agent import restoring
from hil.session.booting import boot_as_before
from hil.shell import NodeError, Shell, outlast_kubelet
from hil.transport import NodeAddress, connected, each
from pinproof.output import note
from pinproof.parameters import with_options
from pinproof.probe import Login
from pinproof.progress import busy
from topologies.errors import one_line


@with_options
def restore(
    *,
    force: Annotated[
        bool,
        typer.Option(
            help="Restore even if a run holds the node's lease. Use this if that run is dead."
        ),
    ] = False,
    accept: Annotated[
        bool, typer.Option(help="Accept the node as it is: what cannot be restored stays.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would be run on the node.")] = False,
    login: Login,
) -> None:
    """Undo the changes of a killed run, from the journal on the node, and compare the node with its
    state before the run.

    May be called again and again. Exit status 5: the node differs from its state before the run,
    with one line for each difference.
    """
    addresses = login.addresses()
    if dry_run:
        for address in addresses:
            typer.echo(f"# on {address.name}, as root\n{restoring('', force=force)}")
        return
    with busy("restore") as say:
        say(", ".join(one.name for one in addresses))
        results = each(
            addresses, lambda address: _restored(address, force=force, accept=accept, say=say)
        )
    failed = [one for one in results if isinstance(one, NodeError)]
    for one in results:
        if not isinstance(one, NodeError):
            typer.echo(one)
    _print_evidence(failed)
    worst = [one for one in failed if isinstance(one, NotRestored)] or failed
    if worst:
        raise worst[0]


def _restored(
    address: NodeAddress, *, force: bool, accept: bool, say: Callable[[str], None]
) -> str:
    try:
        booted = boot_as_before(
            address, force=force, say=lambda stage: say(f"{address.name}: {stage}")
        )
        outcome = _undone(address, force=force or bool(booted), accept=accept)
    except NodeBusy as error:
        raise NodeBusy(
            f"{error}: after that the node restores itself; --force restores it now, "
            "if that run is dead"
        ) from error
    return f"{address.name}: {f'booted as {booted}; ' if booted else ''}{outcome}"


def _undone(address: NodeAddress, *, force: bool, accept: bool) -> str:
    with connected(address) as shell:
        left = left_by_a_run(shell)
        if left:
            outlast_kubelet(shell)
        for line in left:
            if line.startswith(("the dead-man timer", "not restored")):
                note(f"{address.name}: {line}")
        removed: list[str] = []
        try:
            try:
                undone = restore_node(shell, force=force)
            except NotRestored:
                # Pods of the dead run that are left in the cluster may be what differs.
                removed = _swept(address, shell)
                if not removed:
                    raise
                undone = restore_node(shell, force=force)
        except NotRestored as error:
            if not accept:
                raise
            forget_node(shell)
            return f"accepted as it is: {one_line('; '.join(error.differences))}"
        removed += _swept(address, shell)
    outcome = "restored" if undone else "nothing to restore"
    return f"{outcome}; removed from its cluster: {', '.join(removed)}" if removed else outcome


def _swept(address: NodeAddress, shell: Shell) -> list[str]:
    """Remove what a dead run left in the node's cluster; the names of the removed namespaces."""
    if address.kubeconfig is None:
        return []
    from hil.pods.apiserver.opening import swept  # its client library is an extra

    return swept(address, gather(shell, paths=address.kubelet))


def _print_evidence(failed: Sequence[NodeError]) -> None:
    """The evidence of several nodes' errors; the caller prints the last line."""
    for error in failed:
        lines = error.differences if isinstance(error, NotRestored) else ()
        for line in [*lines, str(error)] if len(failed) > 1 else lines:
            note(one_line(line))
