"""The gradient of an activation and of the bias before it, for small batches."""

from __future__ import annotations

import math
from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.lines import THREADS, Lines, Team, power_of_two, quotient_up
from opwright_cuda.launch import Kernel, LaunchPlan
from opwright_cuda.source import own_source

MOST_ROWS: Final = 512
"""Maximum number of rows; for more rows, two launches that use the whole GPU are faster."""

_EACH: Final = 16  # maximum rows summed by a thread
_THREADS_OF_COLUMN: Final = 8  # minimum threads per column

_FUNCTORS: Final = {"relu": "ReluGrad", "sigmoid": "SigmoidGrad", "tanh": "TanhGrad"}


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute both gradients, with one tile of columns per block."""
    *outer, columns = ctx.inputs["out"][0].shape
    rows = math.prod(outer)
    if rows > MOST_ROWS:
        ctx.refuse(f"out must have at most {MOST_ROWS} rows, got {rows}")
    # Tiles have 32 columns or, for many rows, as few as 8, which is a memory sector in float32.
    of_column = max(power_of_two(quotient_up(rows, _EACH)), _THREADS_OF_COLUMN)
    width = min(power_of_two(columns), THREADS // of_column)
    lines = Lines(1, rows, columns)
    team = Team("TileTeam", lines, width, quotient_up(columns, width), THREADS)
    dtype = ctx.inputs["out"][0].dtype
    expression = f"derivative_and_sums<{_FUNCTORS[ctx.attrs['activation']]}, {CTYPES[dtype]}>"
    arguments = [
        *(plan.output(slot) for slot in ("x_grad", "bias_grad")),
        *(plan.input(slot) for slot in ("out", "out_grad")),
    ]
    team.launch(plan, own_source("bias_activation_grad.cu"), expression, arguments)


BIAS_ACTIVATION_GRAD: Final = Kernel(_fill_in)
