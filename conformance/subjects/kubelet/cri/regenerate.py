"""Make ``cri_pb2.py`` and ``cri_pb2.pyi`` from ``cri.proto``, or those of another proto file.

``python -m conformance.subjects.kubelet.cri.regenerate [FOLDER [PROTO]]``; needs grpcio-tools,
which is not a dependency of the project. The least version of ``protobuf`` in ``pyproject.toml``
must be the one in the header of the generated file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

_CRI: Final = Path(__file__).with_name("cri.proto")


def regenerate(into: Path, proto: Path = _CRI) -> None:
    """Write both files to ``into``; raises ``CalledProcessError`` if protoc refuses."""
    folder = proto.parent.resolve()
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{folder}", f"--python_out={into}", f"--pyi_out={into}", proto.name),
        ],
        check=True,
        cwd=folder,
    )


if __name__ == "__main__":
    given = [Path(word).resolve() for word in sys.argv[1:]]
    regenerate(*given or [_CRI.parent])
