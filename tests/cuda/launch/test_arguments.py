"""Launch arguments must have the sizes of the kernel parameters; errors report both sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwright.errors import KernelError
from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.source import Source, own_source

TEXT = """
#include "kernel.h"
struct Pair { float first; double second; };
struct Nothing {};
__global__ void take(float* out, int64_t n, Pair pair, int32_t last, Nothing nothing) {
  out[0] = static_cast<float>(n) + pair.first + static_cast<float>(pair.second) + last;
}
"""
PAIR = Struct(np.float32(0.25), np.float64(2.0))
RIGHT: list[Argument] = [None, np.int64(7), PAIR, np.int32(3), Struct()]


def launch(arguments: list[Argument]) -> Any:
    """Return the record of a launch whose first argument is the output."""
    ctx = PrepareContext("take", {}, {"out": [Meta((1,), "float32")]}, {}, device="cuda")
    plan = LaunchPlan(ctx)
    source = Source("take.cu", TEXT, own_source("elementwise.cu").headers)
    plan.launch(source, "take", 1, 32, [plan.output("out"), *arguments[1:]])
    return plan.finish()


@pytest.mark.cuda_kernels
def test_packed_arguments_have_the_sizes_of_the_parameters() -> None:
    assert launch(RIGHT).kernel == "cuda.launch"


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("place", "wrong", "sizes"),
    [
        (1, np.int32(7), (8, 4, 16, 4, 1)),
        (2, Struct(np.float32(0.25), np.float32(2.0)), (8, 8, 8, 4, 1)),
        (3, np.int64(3), (8, 8, 16, 8, 1)),
        (4, None, (8, 8, 16, 4, 8)),
    ],
)
def test_a_wrong_argument_is_reported_with_the_sizes(
    place: int, wrong: Argument, sizes: tuple[int, ...]
) -> None:
    arguments = [*RIGHT[:place], wrong, *RIGHT[place + 1 :]]
    with pytest.raises(KernelError) as caught:
        launch(arguments)
    assert str(caught.value) == (
        f"take: the parameters of take in take.cu have (8, 8, 16, 4, 1) bytes, got arguments of "
        f"{sizes}; pass arguments with the types of the parameters, in their order"
    )


@pytest.mark.cuda_kernels
def test_a_missing_argument_is_reported_with_the_sizes() -> None:
    with pytest.raises(KernelError, match=r"got arguments of \(8, 8, 16, 4\)"):
        launch(RIGHT[:-1])
