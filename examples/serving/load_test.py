"""Tests under load that reloading the model and replacing the process does not lose requests.

``python load_test.py --requests 100000 --reloads 20`` trains a small model, opens a socket that the
server processes inherit, and sends requests on connections that are kept alive. It sends SIGHUP
repeatedly, and halfway through starts a second process and sends SIGTERM to the first. Each request
is sent once. If the response is missing, or has a status other than 200 or wrong values, the
request counts as lost. The exit code is 1 if a request was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
import opwright_nn as nn

HERE = Path(__file__).resolve().parent


class Load:
    """The requests of a run, and their results."""

    def __init__(self, folder: Path, port: int, n_requests: int) -> None:
        self.port = port
        self.left = n_requests
        self.done = 0
        self.outcomes: Counter[str] = Counter()
        self.times_s: list[float] = []
        self.versions: set[int] = set()
        rng = np.random.default_rng(0)
        loaded = ow.load(folder)
        self.cases = []
        for rows in rng.integers(1, 4, 64):
            x = rng.random((rows, 8), np.float32)
            body = json.dumps({"x": x.tolist()}).encode()
            head = (
                f"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            self.cases.append((head.encode() + body, loaded(x)[0]))

    async def client(self) -> None:
        """Send requests one after the other over a connection, and reopen it if it is closed."""
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while self.left:
            self.left -= 1
            request, expected = self.cases[self.left % len(self.cases)]
            begin = time.perf_counter()
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", self.port)
                outcome, closes = await self._send(*connection, request, expected)
            except (OSError, asyncio.IncompleteReadError) as error:
                outcome, closes = type(error).__name__, True
            self.times_s.append(time.perf_counter() - begin)
            self.outcomes[outcome] += 1
            self.done += 1
            if closes and connection is not None:
                connection[1].close()
                connection = None

    async def _send(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: bytes,
        expected: npt.NDArray[Any],
    ) -> tuple[str, bool]:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status, *lines = head.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        content = json.loads(await reader.readexactly(int(headers["content-length"])))
        closes = headers.get("connection") == "close"
        if status.split()[1] != "200":
            return status, closes
        self.versions.add(content["version"])
        (got,) = content["results"].values()
        return "answered" if np.allclose(got, expected, atol=1e-5) else "wrong numbers", closes


def export_model(folder: Path) -> None:
    """Train a model briefly, and export it."""
    model = nn.Model()
    scores = model.fc_layer(model.fc_layer("x", 64, activation="relu"), 4, activation="softmax")
    model.initialize_parameters(x=np.zeros((1, 8), np.float32))
    model.export(folder, scores)


def start_server(folder: Path, listener: socket.socket) -> subprocess.Popen[bytes]:
    """Start a server on a socket, and return when it is ready."""
    number = listener.fileno()
    words = [str(HERE / "serve.py"), str(folder), "--fd", str(number), "--threads", "1"]
    server = subprocess.Popen([sys.executable, *words], pass_fds=[number], stdout=subprocess.PIPE)
    if server.stdout is None or not server.stdout.readline():
        raise RuntimeError(f"the server must start, got exit code {server.wait()}")
    return server


async def run(folder: Path, arguments: argparse.Namespace) -> Load:
    """Return the load after all requests, and stop the server."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    load = Load(folder, listener.getsockname()[1], arguments.requests)
    server = start_server(folder, listener)
    clients = [asyncio.create_task(load.client()) for _ in range(arguments.clients)]
    replaced = False
    for number in range(1, arguments.reloads + 1):
        await wait_for(load, number * arguments.requests // (arguments.reloads + 1))
        server.send_signal(signal.SIGHUP)
        if not replaced and number * 2 >= arguments.reloads:
            replaced = True
            successor = await asyncio.to_thread(start_server, folder, listener)
            server.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(server.wait)
            print(f"the first server ended with {code} after {load.done} requests")
            server = successor
    await asyncio.gather(*clients)
    server.send_signal(signal.SIGTERM)
    print(f"the second server ended with {await asyncio.to_thread(server.wait)}")
    listener.close()
    return load


async def wait_for(load: Load, count: int) -> None:
    """Wait until `count` requests are done."""
    while load.done < count and load.left:
        await asyncio.sleep(0.005)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--clients", type=int, default=32)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        export_model(Path(folder))
        begin = time.perf_counter()
        load = asyncio.run(run(Path(folder), arguments))
    seconds = time.perf_counter() - begin
    lost = load.done - load.outcomes["answered"]
    low, high = np.percentile(load.times_s, [50, 99]) * 1e3
    print(f"{load.done} requests, {load.done / seconds:.0f} a second: {dict(load.outcomes)}")
    print(f"median {low:.1f} ms, 99 % {high:.1f} ms; versions {min(load.versions)}", end="")
    print(f" to {max(load.versions)}; lost {lost}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
