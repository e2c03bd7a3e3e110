"""What a fork makes of a pod's labels. No release looks at them."""

from __future__ import annotations

from typing import Final

from reference.behaviours import Behaviour
from reference.pods.pod import Pod
from reference.releases import AnyRelease, has

#: How StarlingX marks a pod of the platform.
PLATFORM: Final = ("app.starlingx.io/component", "platform")


def runs_on_reserved(pod: Pod, *, release: AnyRelease) -> bool:
    """Whether the static policy runs the pod's containers on the reserved CPUs, and gives them no
    exclusive ones."""
    return PLATFORM in pod.labels and has(release, Behaviour.PLATFORM_PODS_ON_RESERVED)
