"""Shared parts of the two ways to differentiate a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.autograd.function import once_differentiable

import opwright as ow
from opwright_torch.plans.building import Draft, Job
from opwright_torch.plans.forward import Results

FREED: Final = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
keeps_graph: Final = torch._C._autograd._get_current_graph_task_keep_graph


def direct_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return ``apply`` without its search for functorch wrappers.

    Transforms trace the model itself, so no wrapper reaches a compiled graph.
    """
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply


def run_once(
    differentiate: Callable[..., tuple[Any, ...]], ctx: Any, tangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Compute gradients, which raise an error if they are differentiated again."""
    if torch.is_grad_enabled():  # create_graph=True
        differentiate = once_differentiable(differentiate)
    return differentiate(ctx, *tangents)


def mark_results(ctx: Any, results: Results, job: Job) -> None:
    """Mark those results of a Function that have no gradient."""
    if len(job.differentiable) < len(results):
        fixed = [value for i, value in enumerate(results) if i not in job.differentiable]
        ctx.mark_non_differentiable(*fixed)


def append_gradients(
    job: Job, draft: Draft, targets: Sequence[ow.Variable], grads: Mapping[Any, Any] | None = None
) -> tuple[list[str], list[int | None]]:
    """Append the backward; return the gradients to fetch, and each trained input's index in them.

    The index is None if no target depends on the input.
    """
    within = reached(draft, targets)
    parameters = [name for name in map(draft.name, job.trained) if name in within]
    if not parameters:  # as if all targets were constants
        return [], [None] * len(job.trained)
    pairs = ow.append_backward(targets, parameters, grads=grads)
    found = {variable.name: grad.name for variable, grad in pairs}
    names = [found.get(draft.name(index)) for index in job.trained]
    wanted = [name for name in names if name is not None]
    places = iter(range(len(wanted)))
    return wanted, [None if name is None else next(places) for name in names]


def reached(draft: Draft, targets: Sequence[ow.Variable]) -> set[str]:
    """Return the variables from which a gradient can flow to a target."""
    trained = draft.translated.trained
    names = set(trained.intersection(target.name for target in targets))
    for op in reversed(draft.program.global_block().ops):
        if not names.isdisjoint(op.output_names()):
            names.update(trained.intersection(op.input_names()))
    return names
