"""``pinproof restore``: what a dead run left on a node, undone."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from hil.access import connected
from hil.safety import NotRestored, forget_node, restore_node
from hil.safety.agent import restoring
from hil.shell import NodeError
from pinproof.busy import busy
from pinproof.probe import AcceptNew, Key, KnownHosts, Nodes, Sudo, addressed
from topologies.errors import one_line


def restore(
    node: Nodes,
    force: Annotated[
        bool, typer.Option(help="Though a run holds the node: it is dead, or is to be.")
    ] = False,
    accept: Annotated[
        bool, typer.Option(help="Take the node as it is: what cannot be restored stays.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would be run on the node.")] = False,
    accept_new_host_key: AcceptNew = False,
    known_hosts: KnownHosts = None,
    key: Key = None,
    sudo: Sudo = False,
) -> None:
    """Finish what a dead run left: undo its changes from the journal on the node, and compare.

    May be called again and again. Exit status 5 where something differs from how it was before,
    with one line for each difference.
    """
    console = Console(stderr=True, highlight=False, emoji=False)
    addresses = addressed(
        node, accept_new=accept_new_host_key, known_hosts=known_hosts, key=key, sudo=sudo
    )
    failed: NodeError | None = None
    with busy("restore") as say:
        for address in addresses:
            if dry_run:
                typer.echo(f"# on {address.name}, as root\n{restoring('', force=force)}")
                continue
            say(address.name)
            try:
                with connected(address) as shell:
                    undone = restore_node(shell, force=force)
                typer.echo(f"{address.name}: {'restored' if undone else 'nothing to restore'}")
            except NotRestored as error:
                for line in error.differences:
                    console.print(f"{address.name}: {one_line(line)}", markup=False, soft_wrap=True)
                if accept:
                    with connected(address) as shell:
                        forget_node(shell)
                    typer.echo(f"{address.name}: taken as it is")
                else:
                    failed = error
            except NodeError as error:
                console.print(f"pinproof: {one_line(str(error))}", markup=False, soft_wrap=True)
                failed = error if not isinstance(failed, NotRestored) else failed
    if failed is not None:
        raise failed
