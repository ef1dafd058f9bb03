"""What the mechanism costs around the kernels: a call, a step, an operator on arrays."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable

import numpy as np

import opwright as ow

REPEATS = 9
CHAIN = 101
A = np.ones(8, np.float32)
B = np.full(8, 2.0, np.float32)
OUT = np.empty(8, np.float32)


def time_ns(function: Callable[[], object], number: int) -> float:
    """Return the median time of one call."""
    function()
    runs = timeit.repeat(function, number=number, repeat=REPEATS)
    return statistics.median(runs) / number * 1e9


def compile_chain(length: int) -> Callable[..., list[np.ndarray]]:
    """Return a compiled chain of `length` additions on 8 floats."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = h = main.global_block().create_var("x", shape=[8])
        for _ in range(length):
            h = ow.ops.add(h, x)
    return ow.Network(main.global_block()).compile(feed=["x"], fetch=[h], scope=ow.Scope())


def main() -> None:
    """Print the table."""
    one, chain = compile_chain(1), compile_chain(CHAIN)
    kernel = ow.explain("add", device="cpu", dtype="float32").chosen.load()
    add = ow.ops.add
    empty_ns = time_ns(lambda: None, 20_000)
    one_ns = time_ns(lambda: one(x=A), 20_000) - empty_ns
    chain_ns = time_ns(lambda: chain(x=A), 500) - empty_ns
    kernel_ns = time_ns(lambda: kernel(A, B, OUT), 20_000) - empty_ns
    step_ns = (chain_ns - one_ns) / (CHAIN - 1)
    rows = [
        ("the kernel of add, NumPy in a function", kernel_ns, ""),
        ("a step with it, over it", step_ns - kernel_ns, "goal 300"),
        ("a call of a compiled network, over its step", one_ns - step_ns, "goal 400"),
        (
            "opwright.ops.add on arrays",
            time_ns(lambda: ow.ops.add(A, B), 20_000) - empty_ns,
            "goal 500",
        ),
        (
            "  the function, taken out of the module",
            time_ns(lambda: add(A, B), 20_000) - empty_ns,
            "",
        ),
        ("numpy.add on arrays", time_ns(lambda: np.add(A, B), 20_000) - empty_ns, ""),
    ]
    for what, cost_ns, goal in rows:
        print(f"{what:46}{cost_ns:8.0f} ns   {goal}".rstrip())


if __name__ == "__main__":
    main()
