"""Measures the runtime overhead of a step, a call, a Python kernel and an eager operator.

Prints medians and minima in nanoseconds next to the design goals. It needs g++ to compile the
kernels in tests/native/kernels.cc.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import opwright as ow
from opwright import _runtime as rt
from opwright.op import dtype_to_code

ROOT = Path(__file__).parents[1]
F32 = dtype_to_code("float32")
META = ((8,), F32)
REPEATS = 15


def compile_kernels(folder: str) -> ctypes.CDLL:
    library = Path(folder) / "kernels.so"
    source = ROOT / "tests" / "native" / "kernels.cc"
    include = ROOT / "core" / "include"
    command = [
        "g++",
        "-std=c++17",
        "-O3",
        "-shared",
        "-fPIC",
        f"-I{include}",
        source,
        "-o",
        library,
    ]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.find_kernel.restype = ctypes.c_void_p
    return loaded


class Maker:
    """Builds plans on vectors of 8 floats."""

    def __init__(self) -> None:
        self.builder = rt.PlanBuilder(rt.host_device(), "overhead")
        self.builder.arena_bytes = 128
        self.n_ops = 0

    def outside(self, role: int, name: str) -> int:
        """Add a value in the caller's memory."""
        return self.builder.value(F32, (8,), rt.EXTERNAL, self.builder.external(role, name))

    def feed(self, name: str) -> int:
        """Add a feed."""
        return self.outside(rt.FEED, name)

    def out(self) -> int:
        """Add a fetched value."""
        value = self.outside(rt.FETCH, "out")
        self.builder.fetch(value)
        return value

    def temp(self, number: int) -> int:
        """Add a value in the arena."""
        return self.builder.value(F32, (8,), rt.ARENA, 64 * number)

    def step(self, kernel: rt.Prepared, *args: int) -> None:
        """Add a kernel; the last argument is its output."""
        self.builder.kernel(kernel, args, range(len(args) + 1), len(args) - 1, self.n_ops)
        self.n_ops += 1

    def compiled(self, *feeds: str) -> rt.CompiledNetwork:
        """Return a callable for the plan."""
        plan = self.builder.build(None)
        return rt.CompiledNetwork(rt.Scope(), feeds, lambda arrays: plan)


def chain(kernel: rt.Prepared, n_steps: int) -> rt.CompiledNetwork:
    make = Maker()
    x, temps = make.feed("x"), (make.temp(0), make.temp(1))
    make.step(kernel, x, x, temps[0])
    for i in range(n_steps - 1):
        make.step(kernel, temps[i % 2], x, temps[(i + 1) % 2])
    return make.compiled("x")


def single(kernel: rt.Prepared) -> rt.CompiledNetwork:
    make = Maker()
    make.step(kernel, make.feed("x"), make.feed("y"), make.out())
    return make.compiled("x", "y")


def measure(call: Callable[[], Any], number: int) -> tuple[float, float]:
    """Return the median and minimum time of one call in ns."""
    call()
    times = [t / number * 1e9 for t in timeit.repeat(call, number=number, repeat=REPEATS)]
    return statistics.median(times), min(times)


def per_step(call: rt.CompiledNetwork, x: np.ndarray, n_steps: int) -> tuple[float, float]:
    median, least = measure(lambda: call(x=x), max(20, 200_000 // n_steps))
    return median / n_steps, least / n_steps


def python_add(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    np.add(x, y, out)


def nothing(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    pass


def difference(with_runtime: tuple[float, float], alone: tuple[float, float]) -> Any:
    return with_runtime[0] - alone[0], with_runtime[1] - alone[1]


def main() -> None:
    x = np.ones(8, "float32")
    y, out = x.copy(), x.copy()
    rows: list[tuple[str, tuple[float, float], str]] = []
    with tempfile.TemporaryDirectory() as folder:
        library = compile_kernels(folder)
        address = library.find_kernel(b"add")
        add = rt.prepare_native(address, [], [[META], [META]], [[META]], keep_alive=library)
        rows.append(("native add step, chain of 1,000", per_step(chain(add, 1000), x, 1000), "20"))
        call = single(add)
        rows.append(
            ("compiled call, one native add", measure(lambda: call(x=x, y=y), 50_000), "400")
        )
        for name, function in (
            ("an empty function", nothing),
            ("np.add in a function", python_add),
        ):
            prepared = rt.prepare_python(function, (0, 1, 2))
            steps = per_step(chain(prepared, 1000), x, 1000)
            alone = measure(lambda function=function: function(x, y, out), 50_000)  # type: ignore[misc]
            rows.append((f"Python step, {name}", steps, ""))
            rows.append(("  … over calling it", difference(steps, alone), "300"))
        eager = rt.EagerOperator(2, 0, lambda *args: None)
        make = Maker()
        make.step(add, make.feed("x"), make.feed("y"), make.out())
        plan = make.builder.build(None)
        eager.insert((x, y), plan)
        rows.append(("eager add, 8 floats", measure(lambda: eager(x, y), 50_000), ""))
        function = ow.ops.add
        behind = function.__wrapped__.__globals__["call"]  # the eager operator behind it
        behind.clear()
        behind.insert((x, y), plan)
        rows.append(("  … as a function", measure(lambda: function(x, y), 50_000), ""))
        rows.append(("  … as ow.ops.add", measure(lambda: ow.ops.add(x, y), 50_000), "500"))
        rows.append(("  … finding ow.ops.add", measure(lambda: ow.ops.add, 50_000), ""))
        rows.append(("  (np.add for comparison)", measure(lambda: np.add(x, y), 50_000), ""))
        rows.append(("  (an empty lambda: part of each)", measure(lambda: None, 50_000), ""))
    print(f"{'':36}{'median':>9}{'least':>9}{'goal':>7}   ns")
    for name, (median, least), goal in rows:
        print(f"{name:36}{median:9.1f}{least:9.1f}{goal:>7}")


if __name__ == "__main__":
    main()
