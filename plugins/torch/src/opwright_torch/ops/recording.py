"""Autograd Functions for recorded calls; their backward runs opwright gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import Function

from opwright.op import Meta
from opwright_torch.dtypes import dtype_name
from opwright_torch.ops.calls import Call, Vjp, What, freeze
from opwright_torch.ops.gradients import run, separate


class Layout(NamedTuple):
    """How the tensors of a call are laid out, and which tensors are saved for its gradient."""

    context: Any  # used for the forward pass and the gradient
    run: Callable[..., Any]  # returns the results, then other saved outputs
    type: str
    counts: tuple[int, ...]
    returned: tuple[str, ...]
    is_one: bool  # whether `run` returns a bare result
    end: int | None  # number of results, if other outputs follow
    reads: tuple[int, ...]  # arguments whose elements the gradient reads
    shapes: tuple[int, ...]  # arguments used only for their shape
    kept: tuple[str, ...]  # outputs that the gradient reads
    kept_places: tuple[int, ...]
    inner: bool  # whether a kept output is float and not returned, so it has no graph
    stops: tuple[int, ...]  # float results without a gradient
    unflatten: Callable[..., Any] | None  # None if each input is one tensor
    is_light: bool  # whether only shapes are saved; dtype and device come from the result


class Recorded(Function):
    """A call of an operator: ``apply(layout, attributes, *tensors)``."""

    @staticmethod
    def forward(ctx: Any, layout: Layout, attrs: tuple[Any, ...], *values: Any) -> Any:
        """Run the operator and save the inputs of its gradient."""
        ctx.call = layout, attrs
        if layout.is_light:  # a fast path, since PyTorch's own operators take less than 2 µs
            ctx.shapes = [value.shape for value in values]
            return layout.run(*values, *attrs)
        given = values if layout.unflatten is None else layout.unflatten(values)
        results = layout.run(*given, *attrs)
        if layout.reads or layout.kept:
            kept = [values[i] for i in layout.reads]
            listed = (results,) if layout.is_one else results
            kept += [listed[i] for i in layout.kept_places]
            ctx.save_for_backward(*kept)
        if layout.shapes:  # saving a tensor only for its shape would keep its memory allocated
            unread = [values[i] for i in layout.shapes]
            ctx.metas = [(v.shape, v.dtype, v.device) for v in unread]
        if layout.is_one:
            return results
        ctx.set_materialize_grads(False)
        if layout.stops:
            ctx.mark_non_differentiable(*[results[i] for i in layout.stops])
        return results[: layout.end]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        """Run the gradient; record it if second gradients are requested."""
        layout: Layout
        layout, attrs = ctx.call
        is_recorded = torch.is_grad_enabled()
        n_args = len(layout.reads) + len(layout.shapes)
        values: list[Any] = [None] * n_args
        saved = ctx.saved_tensors
        for i, value in zip(layout.reads, saved, strict=False):
            values[i] = value
        stand_in = _stand_in if is_recorded else _meta
        metas = getattr(ctx, "metas", ())
        if layout.is_light and grads[0] is not None:
            metas = [(shape, grads[0].dtype, grads[0].device) for shape in ctx.shapes]
        for i, meta in zip(layout.shapes, metas, strict=True):
            values[i] = stand_in(*meta)
        kept = layout.kept
        if is_recorded and layout.inner:  # the output is recomputed from all arguments
            kept = ()
        else:
            values += saved[len(layout.reads) :]
        call = Call(layout.type, layout.counts, freeze(attrs), layout.returned)
        needed = ctx.needs_input_grad[2:]
        return (None, None, *_gradients(layout.context, call, kept, values, needed, grads))


def _meta(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Meta:
    return Meta(shape, dtype_name(dtype))


def _stand_in(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty((), dtype=dtype, device=device).expand(shape)


class RecordedGradients(Function):
    """Differentiable gradients: ``apply(context, vjp, *tensors)``."""

    @staticmethod
    def forward(ctx: Any, context: Any, what: Vjp, *values: torch.Tensor) -> Any:
        """Run the gradients and save all arguments."""
        ctx.call = context, what
        ctx.save_for_backward(*values)
        ctx.set_materialize_grads(False)
        return tuple(separate(run(context, what, values), values))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        """Run the gradient of the gradients."""
        needed = ctx.needs_input_grad[2:]
        context, what = ctx.call
        found = _gradients(context, what, (), ctx.saved_tensors, needed, grads)
        return (None, None, *found)


def _gradients(
    context: Any,
    what: What,
    kept: tuple[str, ...],
    values: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """Return the gradient of each argument that requires one, given the result gradients."""
    by_argument: list[torch.Tensor | None] = [None] * len(needed)
    wanted = tuple(i for i, is_needed in enumerate(needed) if is_needed)
    given = tuple(i for i, grad in enumerate(grads) if grad is not None)
    if not given or not wanted:
        return by_argument
    vjp = Vjp(what, len(needed), kept, given, wanted)
    arguments = [*values, *[grads[i] for i in given]]
    if torch.is_grad_enabled():
        results: Sequence[Any] = RecordedGradients.apply(context, vjp, *arguments)
    else:
        results = run(context, vjp, arguments)
    for i, result in zip(wanted, results, strict=True):
        by_argument[i] = result
    return by_argument
