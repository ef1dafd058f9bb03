"""While a kernel waits for another process, Python threads can run, and Ctrl-C interrupts it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import opwright as ow

TABLE = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("relu", device="cpu", dtypes=["float32"], kernel="opwright_acme/libacme.so")
"""

X = np.ones(1, np.float32)


@pytest.fixture
def set_gate(compiler, acme) -> Iterator[Callable[[int], None]]:
    library = compiler.build("waiting.cc", "-std=c++17")
    acme.use(library, TABLE)
    gate = ctypes.CDLL(str(acme.site / "opwright_acme" / "libacme.so")).set_gate
    gate(0)
    yield gate
    gate(1)


def waiting_network() -> Callable[..., list[np.ndarray]]:
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[1], dtype="float32")
    out = block.create_var("out")
    block.append_op("relu", inputs={"x": x}, outputs={"out": out})
    return ow.Network(block).compile(feed=[x], fetch=[out])


def test_another_python_thread_can_run_while_the_kernel_waits(set_gate) -> None:
    run = waiting_network()
    opener = threading.Timer(0.05, set_gate, [1])
    opener.start()
    with ow.current_context().pin("relu", "acme"):
        (out,) = run(x=X)
    opener.join()
    np.testing.assert_array_equal(out, X)


INTERRUPTED = """
import signal
import threading
import numpy as np
import opwright as ow

block = ow.Program().global_block()
x = block.create_var("x", shape=[1], dtype="float32")
out = block.create_var("out")
block.append_op("relu", inputs={"x": x}, outputs={"out": out})
with ow.current_context().pin("relu", "acme"):
    run = ow.Network(block).compile(feed=[x], fetch=[out])
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    try:
        run(x=np.ones(1, np.float32))
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_interrupts_the_wait(compiler, acme) -> None:
    acme.install(compiler.build("waiting.cc", "-std=c++17"), TABLE)
    assert acme.python(INTERRUPTED) == "interrupted\n"
