"""What runs inside a sandbox, as its first process.

What belongs here: what has to be done from inside. What never does: an import of the project or
of anything outside the standard library: the package is loaded by its folder (``python -I -S``),
because a start takes a hundredth of a second that way. Its modules import each other relatively.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The sandbox's own folder: machines, manifests, sockets, temporary files.
AREA: Final = "/pinproof"
STATE_DIR: Final = "/var/lib/kubelet"
CGROUPS: Final = "/sys/fs/cgroup"

#: What ``python -I -S -c`` has to run, before the arguments of :func:`init.main`. The folder comes
#: last on the path, so nothing beside this package hides a module of the standard library.
COMMAND: Final = (
    f"import sys; sys.path.append({str(Path(__file__).resolve().parent.parent)!r}); "
    "from inside.init import main; sys.exit(main(sys.argv[1:]))"
)
