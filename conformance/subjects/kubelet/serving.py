"""gRPC servers on unix sockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc


def serve(
    threads: ThreadPoolExecutor, handlers: list[grpc.GenericRpcHandler[Any, Any]], *sockets: Path
) -> grpc.Server:
    """A started server on these sockets. Raises ``OSError`` if it cannot listen.

    It is started in a thread of its own, where no interrupt comes: one that is started by half
    waits for its requests as it is freed, for ever, and nothing of Python runs meanwhile.
    """

    def started() -> grpc.Server:
        server = grpc.server(threads, handlers=handlers)
        for socket in sockets:
            try:
                server.add_insecure_port(f"unix:{socket}")
            except RuntimeError as error:
                raise OSError(f"cannot listen on {socket}: {error}") from error
        server.start()
        return server

    with ThreadPoolExecutor(1) as starter:
        return starter.submit(started).result()
