"""Serves a model: ``python serve.py exported --port 8000``; SIGHUP reloads it, SIGTERM drains."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
from collections.abc import Coroutine
from typing import Any

import uvicorn
from app import Service
from batching import Limits

import opwright as ow
from opwright.errors import OpwrightError

log = logging.getLogger("serving")


class Server(uvicorn.Server):
    """Stops accepting connections, closes each connection after its response, and then exits.

    uvicorn alone closes idle connections immediately, which would lose a request in transit. Here
    each response has ``connection: close``, after which clients do not send further requests.
    """

    def __init__(self, config: uvicorn.Config, service: Service, drain_s: float) -> None:
        super().__init__(config)
        self._service = service
        self._drain_s = drain_s
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, handle signals, and print a line once the server is ready."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: self._begin(self._service.reload()))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        print("serving", flush=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self) -> None:
        if self._service.is_draining:  # the second signal does not wait
            self.should_exit = self.force_exit = True
            return
        self._service.is_draining = True
        for server in self.servers:
            server.close()  # other processes can accept connections to the same socket
        self._begin(self._drain())

    async def _drain(self) -> None:
        log.info("draining %d connections", len(self.server_state.connections))
        deadline = asyncio.get_running_loop().time() + self._drain_s
        while self.server_state.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        self.should_exit = True


def main() -> None:
    arguments = read_arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    if arguments.threads:
        ow.set_num_threads(arguments.threads)
    limits = Limits(
        arguments.max_batch,
        arguments.max_wait_ms / 1e3,
        arguments.max_queue,
        arguments.timeout_s,
        arguments.max_body_bytes,
    )
    try:
        service = Service(arguments.model, limits)
    except (OpwrightError, ValueError, RuntimeError) as error:
        raise SystemExit(f"serve: the model cannot be loaded: {error}") from error
    config = uvicorn.Config(
        service.app(),
        host=arguments.host,
        port=arguments.port,
        fd=arguments.fd,
        log_level="warning",
        timeout_keep_alive=arguments.keep_alive_s,
        limit_concurrency=arguments.max_connections,
    )
    Server(config, service, arguments.drain_s).run()


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add, defaults = parser.add_argument, Limits()
    add("model", help="a folder of model.export, or a bundle")
    add("--host", default="127.0.0.1", help="(default: only this machine)")
    add("--port", type=int, default=8000)
    add("--fd", type=int, help="a listening socket that the process inherits")
    add("--threads", type=int, help="threads of a call (default: one for each processor)")
    add("--max-batch", type=int, default=defaults.max_batch, help="rows per call")
    add("--max-wait-ms", type=float, default=defaults.max_wait_s * 1e3, help="to fill a batch")
    add("--max-queue", type=int, default=defaults.max_queue, help="waiting requests")
    add("--timeout-s", type=float, default=defaults.timeout_s, help="of a request")
    add("--max-body-bytes", type=int, default=defaults.max_body_bytes)
    add("--max-connections", type=int, default=4096)
    add("--keep-alive-s", type=int, default=60, help="after which an idle connection is closed")
    add("--drain-s", type=float, default=10.0, help="how long a SIGTERM waits for connections")
    return parser.parse_args()


if __name__ == "__main__":
    main()
