"""Starts processes that run one step together, times the step round by round, and stops them.

``ranks.py ENGINE STEP SOCKET`` runs one of the processes. The process prepares the step, then reads
a number of calls from each line of the socket, and makes these calls. Waiting does not use
processor time. Rank 0 times the calls.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

OURS, GLOO = "opwright", "torch"
PREPARE_TIMEOUT_S, ROUND_TIMEOUT_S = 120.0, 100.0
# As in implementation.py, a repeat is long enough to make the cost of the clock negligible, and
# short enough for many repeats.
REPEAT_NS = 2_000_000
LAUNCH = "import sys; from opwright_mpi.launcher import main; sys.exit(main())"
ALONE = {"OPWRIGHT_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Ranks:
    """Single-threaded processes that an engine has connected and that have prepared a step.

    Parameters
    ----------
    engine : str
        ``"opwright"`` or ``"torch"``.
    step : str
        The name of a step of the engine in ``networks.distributed``.
    n : int
        Number of processes.
    environment : dict of str to str
        Additional environment variables of these processes.
    """

    def __init__(
        self, engine: str, step: str, n: int, environment: dict[str, str] | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = f"{self._folder.name}/socket"
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - lives as long
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(n)
        listener.settimeout(PREPARE_TIMEOUT_S)
        self._processes = self._start(engine, [__file__, engine, step, path], n, environment or {})
        streams = [self._accept(listener) for _ in range(n)]
        listener.close()
        hellos = [(json.loads(self._read(stream)), stream) for stream in streams]
        hellos.sort(key=lambda hello: hello[0]["rank"])
        self._streams = [stream for _, stream in hellos]
        self.values: list[float] = [value for hello, _ in hellos for value in hello["values"]]
        self._number = 1
        atexit.register(self._close)

    def _start(
        self, engine: str, command: list[str], n: int, environment: dict[str, str]
    ) -> list[subprocess.Popen[bytes]]:
        everywhere = {**os.environ, **ALONE, **environment}
        launch = {"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": self._log}
        if engine == OURS:
            ours = [sys.executable, "-c", LAUNCH, "run", "-n", str(n), *command]
            return [subprocess.Popen(ours, env=everywhere, **launch)]
        meeting = {"RANKS_FILE": f"{self._folder.name}/meeting", "RANKS_SIZE": str(n)}
        meeting["GLOO_SOCKET_IFNAME"] = "lo"
        return [
            subprocess.Popen(
                [sys.executable, *command],
                env={**everywhere, **meeting, "RANKS_RANK": str(rank)},
                **launch,
            )
            for rank in range(n)
        ]

    def _accept(self, listener: socket.socket) -> Any:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            raise RuntimeError(f"a rank did not connect: {self._last_words()}") from None
        connection.settimeout(ROUND_TIMEOUT_S)
        return connection.makefile("rw")

    def _read(self, stream: Any) -> str:
        line = stream.readline()
        if not line:
            raise RuntimeError(f"a rank exited: {self._last_words()}")
        return str(line)

    def _last_words(self) -> str:
        self._log.seek(0)
        return (self._log.read().strip().splitlines() or ["it said nothing"])[-1]

    def time_round(self, seconds: float) -> list[float]:
        """Return the mean duration of a call on rank 0, in ns, for each of many repeats."""
        while True:  # the first round also determines the number of calls per repeat
            (call_ns,) = self._ask(1)
            number = max(1, round(REPEAT_NS / call_ns))
            if number <= 2 * self._number:
                break
            self._number = number if number < 4 * self._number else 4 * self._number
        repeats = max(5, round(seconds * 1e9 / (call_ns * self._number)))
        return self._ask(repeats)

    def _ask(self, repeats: int) -> list[float]:
        command = json.dumps({"number": self._number, "repeats": repeats})
        for stream in self._streams:
            stream.write(command + "\n")
            stream.flush()
        times: list[float] = json.loads(self._read(self._streams[0]))
        return times

    def _close(self) -> None:
        """Stop the processes, which exit when their socket is closed."""
        for stream in self._streams:
            stream.close()
        for process in self._processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()
        self._folder.cleanup()


def serve(step: Callable[[], Any], stream: Any, is_first: bool) -> None:
    """Read requests from lines, and make the number of calls that each line requests."""
    for line in stream:
        command = json.loads(line)
        times = []
        for _ in range(command["repeats"]):
            began = time.perf_counter_ns()
            for _ in range(command["number"]):
                step()
            times.append((time.perf_counter_ns() - began) / command["number"])
        if is_first:
            stream.write(json.dumps(times) + "\n")
            stream.flush()


def main() -> None:
    """Run one of the processes."""
    from networks import distributed

    engine, name, path = sys.argv[1:]
    rank = distributed.connect(engine)
    step, values = distributed.STEPS[engine][name]()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    stream = connection.makefile("rw")
    stream.write(json.dumps({"rank": rank, "values": values}) + "\n")
    stream.flush()
    serve(step, stream, rank == 0)


if __name__ == "__main__":
    main()
