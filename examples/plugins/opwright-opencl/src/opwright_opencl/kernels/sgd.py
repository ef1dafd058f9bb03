"""In-place gradient descent."""

from __future__ import annotations

from opwright.kernel import PrepareContext
from opwright_opencl.work import Kernel, Work, count_of, first_output


def _sgd(ctx: PrepareContext, work: Work) -> None:
    param, rate = first_output(ctx), ctx.inputs["learning_rate"][0]
    if rate.dtype not in (param.dtype, "float32"):
        ctx.refuse(
            "the learning rate must have the dtype of the parameter or float32, got "
            f"{rate.dtype} and {param.dtype}"
        )
    name = "sgd" if rate.dtype == param.dtype else "sgd_by_float"
    slots = map(work.slot, ("param", "grad", "learning_rate", "param_out"))
    decay = work.number(ctx.attrs["weight_decay"])
    work.launch_each(name, count_of(param), *slots, decay)


SGD = Kernel(_sgd)
