"""Make ``cri_pb2.py`` and ``cri_pb2.pyi`` anew from ``cri.proto``.

``python -m conformance.subjects.kubelet.cri.regenerate [FOLDER]``; needs grpcio-tools, which is no
dependency of the project. The floor of ``protobuf`` in ``pyproject.toml`` has to be the version
that the made file names in its header.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def regenerate(into: Path) -> None:
    """Write both files to ``into``; raises ``CalledProcessError`` if protoc refuses."""
    here = Path(__file__).parent
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{here}", f"--python_out={into}", f"--pyi_out={into}", "cri.proto"),
        ],
        check=True,
        cwd=here,
    )


if __name__ == "__main__":
    regenerate(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent)
