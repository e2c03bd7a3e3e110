"""Ways to a node: over SSH, or this host itself; and the inventory that names nodes.

    for address in nodes("lab.toml"):        # or nodes("ssh://root@node7"), nodes("local:")
        with connected(address) as shell:    # or connect(address), and shell.close()
            shell.run("uname -r").text

    each(nodes("lab.toml"), probe)           # a function on all of them at once

Every way is a :class:`hil.shell.Shell`: one round trip for each script, bounded in time
and size, nothing left running. :func:`hil.transport.testinfra.host_of` makes a testinfra host of
one.
"""

from hil.transport.inventory import NodeAddress, connect, connected, each, nodes

__all__ = ["NodeAddress", "connect", "connected", "each", "nodes"]
