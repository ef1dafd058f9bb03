"""Memory kept between calls is bounded, reported by `opwright.memory`, and released on request."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np

import opwright as ow

HEAD = """
import numpy as np, opwright as ow
def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
def row(label):
    return [row for row in ow.memory().plans if row.owner == label]
"""


def run_child(code: str) -> None:
    """Run code in a separate process, which holds no memory of other tests."""
    text = HEAD + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def products(n: int, size: int = 512):
    """Compile a network of ``n`` matrix products with separate weights; return it and its scope."""
    program, scope = ow.Program(), ow.Scope()
    block = program.global_block()
    x = block.create_var("x", [-1, size])
    for i in range(n):
        weight = block.create_parameter(f"w{i}", [size, size], "float32")
        scope.var(f"w{i}").set(np.eye(size, dtype=np.float32))
        x = ow.ops.relu(ow.ops.matmul(x, weight))
    return ow.Network(block).compile(["x"], [x], scope=scope), scope


def test_calling_an_operator_with_new_shapes_retains_little_memory() -> None:
    run_child("""
        for n in range(1, 200):
            ow.ops.matmul(np.ones((n, 64), "f"), np.ones((64, n), "f"))
        before = resident_mb()
        for n in range(200, 2000):
            ow.ops.matmul(np.ones((7, n), "f"), np.ones((n, 7), "f"))
        assert resident_mb() - before < 120, (before, resident_mb())
        (plans,) = row("matmul")
        assert plans.plan_bytes <= 48 << 20
    """)


def test_a_network_keeps_only_the_memory_of_its_last_shape() -> None:
    run_child("""
        x = ow.Program().global_block().create_var("x", [-1, 1000])
        out = ow.ops.sort(ow.ops.exp(ow.ops.sort(x, axis=-1)), axis=-1)
        call = ow.Network(x.block).compile(["x"], [out])
        for n in range(5000, 5040):  # 20 MB for each value
            call(np.zeros((n, 1000), "f"))
        (plans,) = row("network of 3 operators")
        assert plans.n_plans == 40
        assert plans.idle_bytes < 100e6, plans
        assert resident_mb() < 600
        ow.release_memory()
        assert not row("network of 3 operators")
        assert resident_mb() < 200, resident_mb()
        assert call(np.zeros((2, 1000), "f"))[0].shape == (2, 1000)
    """)


def test_shapes_and_threads_share_packed_parameters() -> None:
    ow.release_memory()
    before = ow.memory().packed_bytes
    call, _ = products(4)
    call(np.ones((64, 512), "f"))
    one = ow.memory().packed_bytes - before
    for n in (65, 66, 67):
        call(np.ones((n, 512), "f"))
    threads = [threading.Thread(target=call, args=[np.ones((64, 512), "f")]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # There are at most two packed copies of each parameter, since matrix products use two
    # algorithms.
    assert ow.memory().packed_bytes - before <= 2 * max(one, 4 * 512 * 512 * 4)


def test_a_changed_parameter_is_repacked_for_every_shape() -> None:
    call, scope = products(2)
    xs = [np.full((n, 512), 1, "f") for n in (1, 8, 64)]
    for factor in (1, 2, 3):
        scope.var("w1").set(np.eye(512, dtype=np.float32) * factor)
        for x in xs:
            np.testing.assert_array_equal(call(x)[0], factor * x)
    scope.erase("w1")
    scope.var("w1").set(np.eye(512, dtype=np.float32) * 5)
    for x in xs:
        np.testing.assert_array_equal(call(x)[0], 5 * x)


def test_the_report_is_a_table() -> None:
    ow.ops.relu(np.ones(3, "f"))
    text = str(ow.memory())
    assert "kept by" in text.splitlines()[0]
    assert any(line.endswith("  relu") for line in text.splitlines())
    assert text.splitlines()[-1].endswith("in all")
