"""The dead-man timer under a real systemd that reads its units anew.

Package upgrades do that, and so does a scenario."""

from __future__ import annotations

from typing import Final

import pytest

from hil.transport import NodeAddress, connected
from tests.support.deaths import killed, look, undone

NAME: Final = "test-reload"

pytestmark = pytest.mark.needs("booted node")


@pytest.mark.parametrize(
    "hand",
    [
        pytest.param("systemctl daemon-reload", id="reload"),
        pytest.param("systemctl daemon-reexec && systemctl daemon-reload", id="restart"),
    ],
)
def test_a_node_restores_itself_after_its_service_manager_has_read_its_units_anew(
    hand: str, inventory: str, address: NodeAddress
) -> None:
    """The runner is killed right after; nobody else does anything to the node."""
    before = look(address)

    def reloaded() -> bool:
        with connected(address) as shell:
            return shell.run(hand, deadline=120).status == 0

    killed(inventory, "steps", 2.0, reached=reloaded)
    assert undone(address, before).differences == ()
