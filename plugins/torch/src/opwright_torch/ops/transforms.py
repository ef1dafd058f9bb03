"""Calls traced by ``torch.compile`` and ``torch.export``, or transformed by ``torch.func``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import Function, forward_ad

import opwright as ow
from opwright_torch.ops.calls import (
    Call,
    Vjp,
    What,
    freeze,
    recipe_of,
    with_places,
)

Execute = Callable[[What, Sequence[Any], Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]


def is_followed(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether derivatives with respect to some of the tensors are requested."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return True
    if forward_ad._current_level < 0:
        return False
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors)


def apply_call(
    execute: Execute, call: Call, tensors: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Return the results of a call that `torch.func` transforms."""
    what, sizes = take_sizes(call)
    results: tuple[torch.Tensor, ...] = Traced.apply(execute, what, sizes, *tensors)
    return results


def take_sizes(call: Call) -> tuple[Call, tuple[Any, ...]]:
    """Replace symbolic sizes in the attributes of a call by placeholders; return call and sizes."""
    sizes: list[Any] = []
    call = call._replace(attrs=with_places(freeze(call.attrs), sizes))
    return call, tuple(sizes)


def run_call(
    execute: Execute, call: Call, tensors: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Like `apply_call`, but through the dispatcher."""
    return execute(call._replace(attrs=freeze(call.attrs)), (), tensors)


class Traced(Function):
    """A call or its gradients; ``apply(execute, what, sizes, *tensors)`` returns a tuple.

    `execute` runs `what` through the dispatcher.
    """

    @staticmethod
    def forward(execute: Execute, what: What, sizes: Sequence[Any], *values: Any) -> Any:
        """Run the call."""
        return execute(what, sizes, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save all tensors and the results that the gradient reads."""
        ctx.execute, ctx.what, ctx.sizes, *values = inputs
        kept, ctx.kept = _find_kept(ctx.what, output)
        ctx.metas = [(t.shape, t.dtype, t.device) for t in output]
        ctx.save_for_backward(*values, *kept)
        ctx.save_for_forward(*values)
        ctx.n_args = len(values)
        ctx.set_materialize_grads(False)
        stopped = _find_stopped(ctx.what, output)
        if stopped:
            ctx.mark_non_differentiable(*stopped)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        """Return the gradients; these can be differentiated again."""
        needed = ctx.needs_input_grad[3:]
        wanted = tuple(i for i, is_needed in enumerate(needed) if is_needed)
        given = tuple(i for i, grad in enumerate(grads) if grad is not None)
        if not wanted or not given:
            return (None,) * (3 + len(needed))
        vjp = Vjp(ctx.what, ctx.n_args, ctx.kept, given, wanted)
        arguments = (*ctx.saved_tensors, *[grads[i] for i in given])
        results = dict(zip(wanted, Traced.apply(ctx.execute, vjp, ctx.sizes, *arguments)))
        return (None, None, None, *[results.get(i) for i in range(len(needed))])

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        """Return result tangents; vector-Jacobian products are linear in the vector."""
        values = ctx.saved_tensors[: ctx.n_args]
        moved = [(i, t) for i, t in enumerate(tangents[3:]) if t is not None]
        floats = [i for i, (_, dtype, _) in enumerate(ctx.metas) if dtype.is_floating_point]
        vectors = [_zeros(ctx.metas[i]) for i in floats]
        wanted = tuple(i for i, _ in moved)
        inner = Vjp(ctx.what, len(values), (), tuple(floats), wanted)
        n = len(values) + len(vectors)
        outer = Vjp(inner, n, (), tuple(range(len(moved))), tuple(range(len(values), n)))
        arguments = (*values, *vectors, *[t for _, t in moved])
        found = dict(zip(floats, ctx.execute(outer, ctx.sizes, arguments)))
        return tuple(found.get(i) for i in range(len(ctx.metas)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Run elementwise operators on the whole batch, and other operators per example."""
        execute, what, sizes, *values = args
        run = partial(Traced.apply, execute, what, sizes)
        return run_batch(run, what, values, in_dims[3:], info.batch_size)


def record_traced(execute: Execute, *args: Any) -> tuple[torch.Tensor, ...]:
    """Like ``Traced.apply``, but inside the dispatcher, which handles `torch.func` transforms."""
    with enable_single_level_autograd_function():
        below = partial(_execute_below, execute)
        results: tuple[torch.Tensor, ...] = super(Function, Traced).apply(below, *args)
    return results


def _execute_below(
    execute: Execute, what: What, sizes: Sequence[Any], values: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Execute a call so that outer transforms can also record it; a Function would prevent this."""
    with (
        torch._C._AutoDispatchBelowAutograd(),
        torch.enable_grad(),
        forward_ad._set_fwd_grad_enabled(True),
    ):
        return execute(what, sizes, values)


def run_batch(
    run: Callable[..., tuple[torch.Tensor, ...]],
    what: What,
    values: Sequence[torch.Tensor],
    dims: Sequence[int | None],
    n: int,
) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
    """Run a batch of `n` examples, with one batch dimension per value; return results and dims."""
    if _is_pointwise(what):
        results = run(*_align(values, dims))
        return results, (0,) * len(results)
    pairs = list(zip(values, dims, strict=True))
    rows = [run(*[v if d is None else v.select(d, i) for v, d in pairs]) for i in range(n)]
    results = tuple(torch.stack(column) for column in zip(*rows, strict=True))
    return results, (0,) * len(results)


def _zeros(meta: tuple[Any, ...]) -> torch.Tensor:
    shape, dtype, device = meta
    return torch.zeros(shape, dtype=dtype, device=device)


def _find_kept(what: What, results: Sequence[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the results that the gradient of a call reads, and their slots."""
    if not isinstance(what, Call):
        return [], ()
    recipe = recipe_of(ow.current_context().ops.get(what.type))
    if not set(recipe.outputs) <= set(what.returned):
        return [], ()  # these results are recomputed
    return [results[what.returned.index(name)] for name in recipe.outputs], recipe.outputs


def _find_stopped(what: What, results: Sequence[Any]) -> list[Any]:
    """Return the results without a gradient."""
    ints = [r for r in results if not r.is_floating_point()]
    if not isinstance(what, Call) or len(results) != len(what.returned):
        return ints
    recipe = recipe_of(ow.current_context().ops.get(what.type))
    floats = zip(what.returned, results, strict=True)
    return ints + [r for n, r in floats if n in recipe.stops and r.is_floating_point()]


def _is_pointwise(what: What) -> bool:
    """Return whether all axes of the operator inputs broadcast."""
    annexes = ow.current_context().annexes.entries("batches")
    tables = (annex.load() for annex in annexes if annex.subject.startswith("broadcast."))
    return isinstance(what, Call) and any(table.get(what.type) == 0 for table in tables)


def _align(values: Sequence[torch.Tensor], dims: Sequence[int | None]) -> list[torch.Tensor]:
    """Move the batch axis to the front and insert axes so that the tensors broadcast."""
    rank = max(v.ndim - (d is not None) for v, d in zip(values, dims, strict=True))
    aligned = []
    for value, dim in zip(values, dims, strict=True):
        if dim is None:
            aligned.append(value)
        else:
            moved = value.movedim(dim, 0)
            ones = (1,) * (rank + 1 - moved.ndim)
            aligned.append(moved.reshape(moved.shape[:1] + ones + moved.shape[1:]))
    return aligned
