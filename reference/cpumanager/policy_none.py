"""The policy ``none``: no container has CPUs of its own.

Source: ``policy_none.go``, 1.18 to 1.37.
"""

from __future__ import annotations

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_mem import State
from reference.errors import ConfigurationError
from reference.golang.strconv import map_text
from reference.pods.pod import Container, Pod
from reference.releases import AnyRelease, has
from reference.steps import KubeletConfig
from reference.topologymanager.hint import Hint


class NonePolicy:
    """``nonePolicy``: no container has CPUs of its own, and nothing is pinned."""

    name = "none"
    can_refuse_holders = False

    def start(self, state: State) -> None:
        """``Start``: any state is good."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """No preference."""
        return None

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """No preference."""
        return None

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """Nothing to give."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """Nothing to give."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """Nothing to take back."""


def new_none_policy(config: KubeletConfig, release: AnyRelease) -> NonePolicy:
    """``NewNonePolicy``. Raises :class:`ConfigurationError` where it is given options."""
    if not config.policy_options or not has(release, Behaviour.POLICY_OPTIONS):
        return NonePolicy()
    raise ConfigurationError(
        "new none policy error: None policy: received unsupported "
        f"options={map_text(config.policy_options)}"
    )
