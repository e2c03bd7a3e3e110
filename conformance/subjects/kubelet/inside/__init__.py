"""The first process of a sandbox, and the process that forks it.

What belongs here: what has to be done from inside. What never does: an import from outside this
package and the standard library. It is run alone (``python -I -S``), so that it starts in a
hundredth of a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The sandbox's own folder: machines, manifests, sockets, temporary files.
AREA: Final = "/pinproof"
STATE_DIR: Final = "/var/lib/kubelet"
CGROUPS: Final = "/sys/fs/cgroup"
#: The folder of the imitated cgroups. A kubelet that has them sees this folder in place of the
#: host's.
OWN_CGROUPS: Final = f"{AREA}/cgroup"
#: The CPU manager's state file, and the folder of its versions, which are named by number.
STATE_FILE: Final = f"{STATE_DIR}/cpu_manager_state"
VERSIONS: Final = f"{AREA}/versions"

#: The start of the word that makes a file's folder writable; the file's path follows.
FILE: Final = "file="

#: The code for ``python -I -S -c``; the arguments of ``server.main`` follow. It makes empty parent
#: packages: executing the real ones would import all that the runner needs.
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
