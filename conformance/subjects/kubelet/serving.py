"""gRPC servers on unix sockets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message


def serve(
    threads: ThreadPoolExecutor, handlers: list[grpc.GenericRpcHandler[Any, Any]], *sockets: Path
) -> grpc.Server:
    """A started server on these sockets. Raises ``OSError`` if it cannot listen.

    It is started in a thread, where no interrupt can come. A server whose start was interrupted
    waits forever for its requests when it is freed, and no Python code runs in that time.
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


def unary(
    request: type[Message], answer: Callable[[Any], Message]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The handler of a method that takes such a request, and has this answer."""
    return grpc.unary_unary_rpc_method_handler(
        lambda message, _: answer(message), request.FromString, serialized
    )


def serialized(message: Message) -> bytes:
    return message.SerializeToString()
