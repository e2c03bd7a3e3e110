"""Make ``cri_pb2.py`` and ``cri_pb2.pyi`` anew from ``cri.proto``, or another proto file's.

``python -m conformance.subjects.kubelet.cri.regenerate [FOLDER [PROTO]]``; needs grpcio-tools,
which is no dependency of the project. The floor of ``protobuf`` in ``pyproject.toml`` has to be the
version that the made file names in its header.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

_CRI: Final = Path(__file__).with_name("cri.proto")


def regenerate(into: Path, proto: Path = _CRI) -> None:
    """Write both files to ``into``; raises ``CalledProcessError`` if protoc refuses."""
    here = proto.parent.resolve()
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{here}", f"--python_out={into}", f"--pyi_out={into}", proto.name),
        ],
        check=True,
        cwd=here,
    )


if __name__ == "__main__":
    given = [Path(word).resolve() for word in sys.argv[1:]]
    regenerate(*given or [_CRI.parent])
