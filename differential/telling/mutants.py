"""Kubelets of 1.36.4 with one behaviour switched in their Go source, each identified.

    python -m differential.telling.mutants [--only 'held-*']

builds one kubelet that holds all of ``mutants.toml``, each behind a switch, and asks it with each
switch on what it is. Exit status 0: each is found to be 1.36.4 with just that behaviour switched.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from conformance.identifying.identify import identify
from conformance.identifying.telling import switched
from conformance.subjects import open_subject
from conformance.verdict import ExitStatus
from differential.command import is_asked, parser_of, tell
from differential.mutants.witness import MUTANT
from differential.named_faults.faults import known_faults
from differential.named_faults.programs import RELEASE, programs
from reference.behaviours import Behaviour
from reference.releases import Release

MUTANTS: Final = Path(__file__).with_name("mutants.toml")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="*", help="the behaviours that are tried, with * and ?")
    parser.add_argument("-n", type=int, default=2, dest="workers", help="how many processes")
    chosen = parser.parse_args()
    path = programs(tell, MUTANTS).kubelet(tell)
    titles = [one.name for one in known_faults(MUTANTS) if is_asked(one.name, [chosen.only])]
    found = [_is_found(title, path, chosen.workers) for title in titles]
    return ExitStatus.CONFORMANT if found and all(found) else ExitStatus.NOT_CONFORMANT


def _is_found(title: str, path: Path, workers: int) -> bool:
    """Whether a kubelet with this behaviour switched is found to be just that."""
    os.environ[MUTANT] = title
    name, began = f"kubelet:{path}", time.monotonic()
    with closing(open_subject(name)) as subject:
        found = identify(name, subject, workers=workers, say=lambda _: None)
    right = Release.parse(switched(str(RELEASE), Behaviour.named(title)))
    just_that = Release.parse(found.fits) == right and not found.unexplained and not found.lost
    seconds = time.monotonic() - began
    print(f"{title:24} {'found' if just_that else 'WRONG'}: {found.fits}, {seconds:.0f} s")
    for odd in found.unexplained:
        tell(f"  {odd.history}: after step {odd.step + 1}: {odd.differences}")
    return just_that


if __name__ == "__main__":
    sys.exit(main())
