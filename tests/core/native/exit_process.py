"""A script that exits while its threads are busy; tests run it and never import it.

Usage: ``python exit_process.py WORK END``, where WORK is what the threads do, and END is how the
process exits.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import opwright as ow

N_THREADS = 4
LONG = 128


def _network() -> tuple[ow.Network, ow.Scope]:
    """Return a chain of matrix products, long enough that its plan releases the GIL."""
    scope = ow.Scope()
    scope.var("w").set(np.eye(LONG, dtype=np.float32))
    steps = [ow.Operator("matmul", x=f"h{i}", y="w", out=f"h{i + 1}") for i in range(8)]
    return ow.Network(steps), scope


def _compile() -> Callable[[], object]:
    network, scope = _network()
    call = network.compile(["h0"], ["h8"], scope=scope)
    x = np.ones((LONG, LONG), np.float32)
    return lambda: call(h0=x)


def compiled() -> Callable[[], object]:
    """Call a compiled network."""
    return _compile()


def eager() -> Callable[[], object]:
    """Call operators on large and small arrays."""
    large, small = np.ones((256, 256), np.float32), np.ones(8, np.float32)
    return lambda: (ow.ops.matmul(large, large), ow.ops.add(small, small))


def python_kernels() -> Callable[[], object]:
    """Call a compiled network with Python kernels."""
    os.environ["OPWRIGHT_PLUGINS"] = "std"
    return _compile()


def running() -> Callable[[], object]:
    """Call Network.run, which writes all values to a scope."""
    network, scope = _network()
    scope.var("h0").set(np.ones((LONG, LONG), np.float32))
    return lambda: network.run(scope)


def lowering() -> Callable[[], object]:
    """Compile a network and call it once."""

    def compile_and_call() -> None:
        _compile()()

    return compile_and_call


def profiling() -> Callable[[], object]:
    """Profile a compiled network."""
    network, scope = _network()
    call = network.compile(["h0"], ["h8"], scope=scope)
    x = np.ones((LONG, LONG), np.float32)
    return lambda: call.profile({"h0": x}, 3)


def saving() -> Callable[[], object]:
    """Save and load a program."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [None, LONG], is_data=True)
    block.create_parameter("w", [LONG, LONG])
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "out"})
    scope = ow.Scope()
    scope.var("w").set(np.ones((LONG, LONG), np.float32))
    folders = tempfile.mkdtemp(dir=os.environ["EXIT_FOLDER"])

    def save_and_load() -> None:
        path = f"{folders}/{threading.get_ident()}"
        ow.save(path, program, scope, fetch=["out"])
        ow.load(path, ow.Scope())

    return save_and_load


def executor() -> Callable[[], object]:
    """Also submit calls to a thread pool, whose threads Python joins at exit."""
    work = _compile()
    pool = ThreadPoolExecutor(N_THREADS)
    for _ in range(40):
        pool.submit(work)
    return work


WORK = {
    work.__name__: work
    for work in (
        compiled,
        eager,
        python_kernels,
        running,
        lowering,
        profiling,
        saving,
        executor,
    )
}


def end_by_itself() -> None:
    """Exit by reaching the end of the script."""


def end_by_exit() -> None:
    """Exit with `sys.exit`."""
    sys.exit(0)


def end_by_error() -> None:
    """Exit with an uncaught exception."""
    raise RuntimeError("the end")


def end_by_interrupt() -> None:
    """Exit with Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)


END = {
    end.__name__.removeprefix("end_by_"): end
    for end in (end_by_itself, end_by_exit, end_by_error, end_by_interrupt)
}


def work_until_the_end(work: Callable[[], object], begun: threading.Semaphore) -> None:
    """Repeat the work forever; release `begun` after the first time."""
    work()
    begun.release()
    while True:
        work()


def main() -> None:
    """Start the threads, and exit while they are busy."""
    work = WORK[sys.argv[1]]()
    begun = threading.Semaphore(0)
    for _ in range(N_THREADS):
        threading.Thread(target=work_until_the_end, args=(work, begun), daemon=True).start()
    for _ in range(N_THREADS):
        begun.acquire()
    time.sleep(random.uniform(0, 0.05))
    END[sys.argv[2]]()


main()
