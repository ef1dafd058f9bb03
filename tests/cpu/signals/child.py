"""Runs a case while all threads receive signals; counts handlers that run on a wrong stack."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

import opwright as ow

N_HANDLED = 1000


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def turned_product() -> Callable[[], object]:
    x, y = ones(300, 96), ones(300, 96)
    return lambda: ow.ops.matmul(x, y, transpose_x=True)


def plain_product() -> Callable[[], object]:
    x, y = ones(64, 256), ones(256, 64)
    return lambda: ow.ops.matmul(x, y)


def convolution_gradient() -> Callable[[], object]:
    """Return a convolution gradient for which oneDNN uses OpenMP threads that already exist."""
    places = ctypes.CDLL(sys.argv[1])
    ctypes.CDLL("libgomp.so.1").GOMP_parallel(places.n_handled, None, 2, 0)
    attrs = {"strides": (2, 1), "dilations": (1, 2), "paddings": (2, 2, 0, 0)}
    x, weight = ones(2, 96, 24, 24), ones(240, 96, 3, 4)
    out_grad = np.ones_like(ow.ops.conv2d(x, weight, **attrs))
    return lambda: ow.ops.conv2d_grad(
        x=x, weight=weight, out_grad=out_grad, returns=["weight_grad"], **attrs
    )


CASES = [turned_product, plain_product, convolution_gradient]


def main() -> None:
    places = ctypes.CDLL(sys.argv[1])
    case = next(case for case in CASES if case.__name__ == sys.argv[2])
    ow.set_num_threads(2)
    pins = {"matmul": "onednn", "conv2d_grad": "onednn"}
    with ow.context_guard(ow.current_context().with_pins(pins)):
        call = case()
        call()
        places.start()
        while places.n_handled() < N_HANDLED:
            call()
    print(places.n_elsewhere())


if __name__ == "__main__":
    main()
