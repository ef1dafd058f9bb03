"""The launches of the CUDA kernels, imported only if opwright-cuda provides a GPU."""

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda import Kernel, LaunchPlan, Source

SOURCE = Source.of_package("opwright_cosine", "cu/cosine.cu")
CTYPES = {"float32": "float", "float64": "double"}
THREADS = 128


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Launch a block for each row."""
    a = ctx.inputs["a"][0]
    rows, columns = a.shape
    sizes = [np.int64(columns), np.float64(ctx.attrs["scale"])]
    arguments = [plan.output("out"), plan.input("a"), plan.input("b"), *sizes]
    plan.launch(SOURCE, f"cosine_rows<{CTYPES[a.dtype]}>", rows, THREADS, arguments)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Launch a block for each row; absent arguments are null pointers."""
    a = ctx.inputs["a"][0]
    rows, columns = a.shape
    grads = [plan.optional_output("a_grad"), plan.optional_output("b_grad")]
    inputs = [plan.input(slot) for slot in ("a", "b", "out_grad")]
    sizes = [np.int64(columns), np.float64(ctx.attrs["scale"])]
    expression = f"cosine_rows_grad<{CTYPES[a.dtype]}>"
    plan.launch(SOURCE, expression, rows, THREADS, [*grads, *inputs, *sizes])


COSINE = Kernel(_fill_in)
COSINE_GRAD = Kernel(_fill_in_grad)
