"""Each planted kernel mistake is reported by the intended check."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from opwright_cuda.source import Source, shared_headers
from opwright_cuda_emulator import HostCompiler
from sanitized_kernels import FLAGS, run_python

HERE = Path(__file__).parent
TEXT = (HERE / "planted.cu").read_text()
KERNELS = [
    line.split("(")[0].split()[-1] for line in TEXT.splitlines() if line.startswith("__global__")
]
ORDERS = ("ascending", "descending", "random")


def line_of(text: str) -> str:
    """Return the position of a planted.cu line, in the format that compilers print."""
    (number,) = (i for i, line in enumerate(TEXT.splitlines(), start=1) if text in line)
    return f"planted.cu:{number}"


class Planted:
    """The kernels of planted.cu, compiled for each sanitizer at first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = Source("planted.cu", TEXT, shared_headers())

    def run(self, kernel: str, sanitizer: str = "none", order: str = "ascending") -> Any:
        """Run a kernel in a process, and return the finished process."""
        compiler = HostCompiler(self.folder, FLAGS[sanitizer])
        library, names = compiler.build(self.source, KERNELS)
        arguments = (HERE / "run_planted.py", compiler.build_driver(), library)
        entry = names[KERNELS.index(kernel)]
        environ = {"OPWRIGHT_EMULATOR_ORDER": order}
        return run_python(compiler, sanitizer, [*arguments, entry], environ)

    def result(self, kernel: str, sanitizer: str = "none", order: str = "ascending") -> Any:
        """Return the result of a kernel and the report of the emulator."""
        finished = self.run(kernel, sanitizer, order)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)


@pytest.fixture(scope="module")
def planted(emulator_folder: Path) -> Planted:
    return Planted(emulator_folder)


def has_nan(result: Any) -> bool:
    return any(math.isnan(x) for x in result["out"])


@pytest.mark.parametrize(
    ("sanitizer", "order"),
    [
        *(("none", order) for order in ORDERS),
        ("address", "random"),
        ("thread", "random"),
    ],
)
def test_no_error_is_reported_for_a_correct_kernel(
    planted: Planted, sanitizer: str, order: str
) -> None:
    result = planted.result("sound", sanitizer, order)
    assert result == {"wrong": "", "out": [64 * 65 / 2] * 64}


@pytest.mark.parametrize(
    ("kernel", "finding"),
    [
        ("missing_barrier", {"ascending", "random"}),
        ("missing_barrier_backwards", {"descending", "random"}),
        ("missing_second_barrier", {"ascending", "descending", "random"}),
        ("exchange_for_barrier", {"ascending", "descending", "random"}),
    ],
)
def test_a_missing_barrier_makes_results_depend_on_the_thread_order(
    planted: Planted, kernel: str, finding: set[str]
) -> None:
    right = {
        "missing_barrier": [*range(2, 65), 0],
        "missing_barrier_backwards": [0, *range(1, 64)],
        "missing_second_barrier": [*range(2, 65), 1],
        "exchange_for_barrier": [*(2 * i + 3 for i in range(63)), 65],
    }[kernel]
    results = {order: planted.result(kernel, order=order) for order in ORDERS}
    assert {order for order in ORDERS if results[order]["out"] != right} == finding


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kernel", "line", "report"),
    [
        ("barrier_in_branch", "if (t < 40)", "40 of 64 threads wait at {} (__syncthreads)"),
        (
            "early_return",
            "__syncthreads();  // never",
            "63 of 64 threads wait at {} (__syncthreads)",
        ),
        ("missing_lane", "if (t != 5)", "31 of 64 threads wait at {} (a warp's exchange)"),
    ],
)
def test_threads_that_wait_for_an_exited_thread_are_reported(
    planted: Planted, kernel: str, line: str, report: str, order: str
) -> None:
    wrong = planted.result(kernel, order=order)["wrong"]
    where = line_of(line).replace("planted.cu:", "line ")
    assert wrong.startswith(f"{kernel}, block (0, 0, 0): {report.format(where)}")
    assert wrong.endswith("have left")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kernel", "threads"),
    [
        ("misaligned_vector", range(15)),
        ("misaligned_shared", range(16)),
        ("misaligned_number", range(31)),
        ("misaligned_atomic", range(64)),
    ],
)
def test_a_misaligned_access_is_reported(
    planted: Planted, kernel: str, threads: range, order: str
) -> None:
    wrong = planted.result(kernel, order=order)["wrong"]
    found = re.match(rf"{kernel}, block \(0, 0, 0\): thread \((\d+), 0, 0\) (.*)", wrong)
    assert found is not None, wrong
    assert int(found[1]) in threads
    assert "at an address that is misaligned for the type" in found[2]


def test_no_error_is_reported_for_aligned_vectors_in_shared_memory(planted: Planted) -> None:
    result = planted.result("aligned_vectors")
    assert result == {"wrong": "", "out": [*map(float, range(1, 65))]}


@pytest.mark.parametrize("kernel", ["uninitialized_shared", "absent_lane"])
def test_unwritten_elements_are_nan(planted: Planted, kernel: str) -> None:
    assert all(has_nan(planted.result(kernel, order=order)) for order in ORDERS)


@pytest.mark.parametrize(
    ("kernel", "finding", "line"),
    [
        ("shared_overrun", "heap-buffer-overflow", "out[t] = row[t + n - 63];"),
        ("dynamic_overrun", "heap-buffer-overflow", "row[t + n - 63] = in[t];"),
        ("global_overrun", "heap-buffer-overflow", "out[t] = in[t + n - 63];"),
        ("local_overrun", "stack-buffer-overflow", "end[t / 64] = in[t];"),
        ("misaligned_vector", "misaligned address", "(in + 1)[t];"),
        ("index_overflow", "signed integer overflow", "const int row = t * (1 << 26);"),
    ],
)
def test_address_and_undefined_behavior_sanitizers_report_the_line(
    planted: Planted, kernel: str, finding: str, line: str
) -> None:
    finished = planted.run(kernel, "address")
    assert finished.returncode != 0
    assert finding in finished.stderr
    assert line_of(line) in finished.stderr


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        ("missing_barrier", "out[t] = t + 1 < n"),
        ("missing_barrier_backwards", "out[t] = t > 0"),
        ("missing_second_barrier", "row[t] = 2.0f * x;"),
        ("exchange_for_barrier", "out[t] = x + row"),
        ("unordered_writes", "out[0] = in[t]"),
    ],
)
def test_thread_sanitizer_reports_the_line_of_a_race(
    planted: Planted, kernel: str, line: str
) -> None:
    finished = planted.run(kernel, "thread", "random")
    assert "WARNING: ThreadSanitizer: data race" in finished.stderr
    assert line_of(line) in finished.stderr
    assert finished.returncode == 66
