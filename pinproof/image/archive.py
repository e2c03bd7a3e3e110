"""An OCI archive of one layer: the same bytes for the same layer.

Source: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any, Final

from hil.lab.recipe import tar

_MEDIA: Final = "application/vnd.oci.image"
#: gzip's usual level: a higher one takes twice as long for one percent.
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Archive:
    """An image. ``content``: the file; ``digest``: the image's, as a registry would have it;
    ``unpacked``: the size of the layer in bytes."""

    content: bytes
    digest: str
    unpacked: int


def archive(layer: bytes, config: dict[str, Any], *, name: str, architecture: str) -> Archive:
    """The archive of an image called ``name``. ``layer`` is a tar; ``config`` is as the image
    specification has ``config``. ``ctr images import`` and podman take the name from it."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=_LEVEL, mtime=0) as to:
        to.write(layer)
    blobs = [packed.getvalue()]
    blobs.append(
        _json(
            {
                "created": "1970-01-01T00:00:00Z",
                "architecture": architecture,
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        )
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _described(blobs[1], "config.v1+json"),
        "layers": [_described(blobs[0], "layer.v1.tar+gzip")],
    }
    blobs.append(_json(manifest))
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.index.v1+json",
        "manifests": [
            {
                **_described(blobs[2], "manifest.v1+json"),
                "platform": {"architecture": architecture, "os": "linux"},
                "annotations": {
                    "io.containerd.image.name": name,
                    "org.opencontainers.image.ref.name": name,
                },
            }
        ],
    }
    files = {f"blobs/sha256/{_digest(one)[7:]}": (one, 0o644) for one in blobs}
    files["index.json"] = _json(index), 0o644
    files["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"}), 0o644
    return Archive(tar(files, {}), _digest(blobs[2]), len(layer))


def _described(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
