"""Remove operators that do nothing for the given shapes, and apply
operators to fewer elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opwright.rewriting import Graph, LoweredOp, input_of


def remove_identities(graph: Graph) -> None:
    """Replace the output of an operator that copies its input by the input in all readers.

    If only the shape differs, the readers get a view of the same memory. The edit rejects the
    replacement if a fetch, the scope, or an operator that writes in place needs the copy.
    """
    found = [op for op in graph.ops if op.type in KEEPS_DATA and KEEPS_DATA[op.type](op)]
    if not found:
        return
    edit = graph.edit()
    for op in found:
        source, out = edit.current(op.inputs[0][0]), op.outputs[0][0]
        edit.bypass(op, source if source.meta == out.meta else graph.view(source, out.meta))
    edit.apply()


def _always(op: LoweredOp) -> bool:
    return True


def _has_equal_size(op: LoweredOp) -> bool:
    """Return whether no element is repeated or summed; axes of length 1 may be added or removed."""
    return op.inputs[0][0].buffer.size == op.outputs[0][0].buffer.size


def _keeps_dtype(op: LoweredOp) -> bool:
    return op.inputs[0][0].meta.dtype == op.outputs[0][0].meta.dtype


def _is_alone(op: LoweredOp) -> bool:
    return len(op.inputs[0]) == 1


def _is_unit_line(op: LoweredOp) -> bool:
    return bool(op.attrs["scale"] == 1.0 and op.attrs["bias"] == 0.0)


def _moves_no_data(op: LoweredOp) -> bool:
    """Return whether the axes longer than 1 keep their order."""
    shape = op.inputs[0][0].meta.shape
    axes = op.attrs["axes"] or range(len(shape))[::-1]
    long = [axis % len(shape) for axis in axes if shape[axis] != 1]
    return long == sorted(long)


KEEPS_DATA: Final[dict[str, Callable[[LoweredOp], bool]]] = {
    "assign": _always,
    "reshape": _always,
    "reshape_like": _always,
    "squeeze": _always,
    "unsqueeze": _always,
    "flatten": _always,
    "sum_like": _has_equal_size,
    "expand_like": _has_equal_size,
    "expand": _has_equal_size,
    "cast": _keeps_dtype,
    "cast_like": _keeps_dtype,
    "add_n": _is_alone,
    "scale": _is_unit_line,
    "transpose": _moves_no_data,
}
"""By operator type: whether its output is a copy of its first input."""


SHRINKABLE: Final = ("relu_grad", "sigmoid_grad", "tanh_grad")
"""Gradients of activations computed from the output, which are zero where their input is."""


def shrink_activation_grad(graph: Graph) -> None:
    """Swap the gradients of an activation and of the max pooling after it.

    Max pooling passes its gradient to the maximum, so the activation's derivative can be computed
    from the pooled values, of which there are fewer. If windows overlap, an element may be the
    maximum of several, and only relu's derivative, 0 or 1, can be applied to each without
    additional rounding.
    """
    derivatives = graph.of_type(*SHRINKABLE)
    if not derivatives:
        return
    edit = graph.edit()
    for derivative in derivatives:
        activated, grad = input_of(derivative, "out"), input_of(derivative, "out_grad")
        scatter = None if grad is None else grad.op
        if scatter is None or scatter.type != "max_pool2d_grad" or activated is None:
            continue
        index, pooled_grad = input_of(scatter, "index"), input_of(scatter, "out_grad")
        pool = None if index is None else index.op
        if pool is None or pool.type != "max_pool2d" or input_of(pool, "x") is not activated:
            continue
        if index is None or pooled_grad is None:
            continue
        if derivative.type != "relu_grad" and _overlaps(pool):
            continue
        pooled = pool.outputs[pool.definition.output_index["out"]][0]
        activation_grad = graph.value(f"{pooled_grad.name}/activation_grad", pooled_grad.meta)
        inputs = {"x": pooled, "out": pooled, "out_grad": pooled_grad}
        first = graph.make(derivative.type, inputs, {"x_grad": activation_grad}, like=derivative)
        inputs = {"x": activated, "index": index, "out_grad": activation_grad}
        x_grad = {"x_grad": derivative.outputs[0]}
        second = graph.make("max_pool2d_grad", inputs, x_grad, scatter.attrs, like=scatter)
        edit.fuse([scatter, derivative], [first, second])
    edit.apply()


def _overlaps(pool: LoweredOp) -> bool:
    """Return whether windows overlap."""
    kernel, dilations = pool.attrs["kernel"], pool.attrs["dilations"]
    windows = zip(kernel, pool.attrs["strides"] or kernel, dilations, strict=True)
    return any(stride <= (size - 1) * dilation for size, stride, dilation in windows)
