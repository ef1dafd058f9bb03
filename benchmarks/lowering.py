"""How long it takes to lower a network: shapes, selection, memory, steps; `prepare` apart."""

from __future__ import annotations

import statistics
import time

import numpy as np

import opwright as ow

SIZES = {1_000: 20.0, 4_000: None, 20_000: 400.0}
REPEATS = 5


def build_chain(length: int) -> tuple[ow.Program, ow.Variable]:
    """Return a program of `length` operators, alternately add and sigmoid, on 8 floats."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = h = block.create_var("x", shape=[8])
        for index in range(length):
            out = block.create_var(shape=[8])
            if index % 2:
                block.append_op("sigmoid", {"x": h}, {"out": out})
            else:
                block.append_op("add", {"x": h, "y": x}, {"out": out})
            h = out
    return main, h


def measure(length: int) -> tuple[float, float]:
    """Return (lowering, prepare) in ms."""
    main, out = build_chain(length)
    feed = np.ones(8, np.float32)
    lowered, prepared = [], []
    for _ in range(REPEATS):
        network = ow.Network(main.global_block())
        call = network.compile(feed=["x"], fetch=[out], scope=ow.Scope())
        began = time.perf_counter()
        call(x=feed)
        between = time.perf_counter()
        call(x=feed)
        run_s = time.perf_counter() - between
        prepare_s = network.placement().prepare_s
        lowered.append((between - began - run_s - prepare_s) * 1e3)
        prepared.append(prepare_s * 1e3)
    return statistics.median(lowered), statistics.median(prepared)


def main() -> None:
    """Print the table."""
    measure(10)
    for length, goal in SIZES.items():
        lowered, prepared = measure(length)
        wanted = f"   (goal {goal:.0f})" if goal else ""
        print(f"{length:7,} operators   {lowered:8.1f} ms{wanted}, prepare {prepared:.1f} ms")


if __name__ == "__main__":
    main()
