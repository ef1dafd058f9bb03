"""What the processes of test_driver.py share: the emulated GPU, and one operator on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import opwright as ow


def emulated() -> Any:
    """Return the emulated driver."""
    from opwright_cuda_emulator import start

    return start()


def run(op: str, device: str = "cuda", **feeds: Any) -> Any:
    """Return what an operator computes."""
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, array.dtype.name)
    (out,) = block.append_op(op, {name: name for name in feeds}, {}).output("out")
    return ow.Network(block).compile(feed=list(feeds), fetch=[out], device=device)(**feeds)[0]


def problem(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the error of a call."""
    try:
        function(*args, **kwargs)
    except ow.errors.OpwrightError as error:
        print(f"{type(error).__name__}: {error}")
    else:
        sys.exit("no error")


ONES = np.ones(4, np.float32)


def works(device: str = "cuda") -> None:
    """Check that the GPU computes."""
    np.testing.assert_allclose(run("sigmoid", device, x=ONES), 1 / (1 + np.exp(-1.0)), rtol=1e-6)
    print("works")
