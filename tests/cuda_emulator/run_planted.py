"""Runs one kernel of planted.cu in a separate process, as a sanitizer requires.

``run_planted.py DRIVER KERNELS ENTRY`` prints the emulator's report and the kernel's results.
It needs only ctypes, so a sanitizer checks little other code.
"""

import ctypes
import json
import sys

N = 64


class Shape(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
    )


def allocate(numbers: list[float]) -> ctypes.c_void_p:
    """Return memory that contains exactly these floats, so the sanitizer detects overruns."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    memory = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(4 * len(numbers))))
    ctypes.memmove(memory, (ctypes.c_float * len(numbers))(*numbers), 4 * len(numbers))
    return memory


def main(driver_path: str, kernels_path: str, entry: str) -> None:
    driver, kernels = ctypes.CDLL(driver_path), ctypes.CDLL(kernels_path)
    driver.emulator_run.restype = ctypes.c_char_p
    driver.emulator_runtime.restype = ctypes.c_void_p
    kernels.ow_attach(ctypes.c_void_p(driver.emulator_runtime()))
    out, given = allocate([0.0] * N), allocate([float(i + 1) for i in range(N)])
    n = ctypes.c_int(N)
    arguments = (out, given, n)
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(argument) for argument in arguments))
    shape = Shape((1, 1, 1), (N, 1, 1), 4 * N)
    wrong = driver.emulator_run(
        ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(kernels, entry))),
        ctypes.byref(shape), pointers, ctypes.c_uint64(0), ctypes.c_uint64(1),
    )  # fmt: skip
    computed = list((ctypes.c_float * N).from_address(out.value or 0))
    print(json.dumps({"wrong": wrong.decode(), "out": computed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
