"""How the program starts: first it makes sure that the packages are its own."""

from __future__ import annotations

import sys

from pinproof.names import clash
from pinproof.standard_streams import lost, take_over


def main() -> None:
    """The console script. If it would import another project's package, it prints one line and ends
    with exit status 2, wrong usage. Where the end of standard output could not be written, a
    command that has succeeded ends with 3."""
    output = take_over()
    if said := clash():
        sys.stderr.write(f"pinproof: {said}\n")
        sys.exit(2)
    from pinproof.cli import main as command

    try:
        command()
    except SystemExit as end:
        if (why := lost(output)) and not end.code:
            sys.stderr.write(f"pinproof: standard output: {why}\n")
            sys.exit(3)
        raise
