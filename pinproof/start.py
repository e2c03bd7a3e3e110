"""How the program starts: first it makes sure that the packages are its own."""

from __future__ import annotations

import sys

from pinproof.names import clash


def main() -> None:
    """The console script. If it would import another project's package, it prints one line and ends
    with exit status 2, wrong usage."""
    if said := clash():
        sys.stderr.write(f"pinproof: {said}\n")
        sys.exit(2)
    from pinproof.cli import main as command

    command()
