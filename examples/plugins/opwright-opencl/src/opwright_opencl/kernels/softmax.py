"""Softmax and its gradient, with one work-group for each line."""

from __future__ import annotations

import numpy as np

from opwright.kernel import PrepareContext
from opwright_opencl.shapes import lines_along
from opwright_opencl.work import Kernel, Local, Work, first_output, group_for


def _along_axis(name: str, *slots: str) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        lines = lines_along(first_output(ctx).shape, ctx.attrs["axis"])
        if not lines.length:
            return
        items = group_for(lines.length, work.device.largest_group)
        sizes = map(np.uint64, (lines.length, lines.inner))
        arguments = (*map(work.slot, slots), *sizes, Local(items))
        work.launch(name, (lines.n_lines,), (items,), *arguments)

    return Kernel(write)


SOFTMAX = _along_axis("softmax", "x", "out")
SOFTMAX_GRAD = _along_axis("softmax_grad", "out", "out_grad", "x_grad")
