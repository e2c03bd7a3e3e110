"""What runs inside a sandbox, as its first process, and what forks that.

What belongs here: what has to be done from inside. What never does: an import of the project or
of anything outside the standard library: it is run by itself (``python -I -S``), because a start
takes a hundredth of a second that way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The sandbox's own folder: machines, manifests, sockets, temporary files.
AREA: Final = "/pinproof"
STATE_DIR: Final = "/var/lib/kubelet"
CGROUPS: Final = "/sys/fs/cgroup"
#: Where the cgroups that are none are kept. A kubelet that has them sees this folder in the place
#: of the host's.
OWN_CGROUPS: Final = f"{AREA}/cgroup"
#: The CPU manager's state file, and where every version of it is kept, by its number.
STATE_FILE: Final = f"{STATE_DIR}/cpu_manager_state"
VERSIONS: Final = f"{AREA}/versions"

#: How the word begins that asks for room for a file, at the path that follows.
FILE: Final = "file="

#: What ``python -I -S -c`` has to run, before the arguments of ``server.main``. The packages around
#: this one are put in place empty: executing them would import all that the runner needs.
COMMAND: Final = f"""\
import sys
from types import ModuleType
folder, name = {str(Path(__file__).resolve().parent.parent)!r}, {__name__.rpartition(".")[0]!r}
while name:
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [folder]
    folder, name = folder.rpartition("/")[0], name.rpartition(".")[0]
from {__name__}.server import main
sys.exit(main(sys.argv[1:]))
"""
