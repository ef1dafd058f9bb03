"""Functions shared by the two ways to differentiate a graph."""

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
    """Return an ``apply`` that does not search for functorch wrappers.

    Transforms trace the model itself, so no wrapper reaches a compiled graph.
    """
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply


def run_once(
    differentiate: Callable[..., tuple[Any, ...]], ctx: Any, tangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Compute gradients that raise an error if they are differentiated again."""
    if torch.is_grad_enabled():  # create_graph=True
        differentiate = once_differentiable(differentiate)
    return differentiate(ctx, *tangents)


def mark_results(ctx: Any, results: Results, job: Job) -> None:
    """Mark the results of a Function that are not differentiable."""
    if len(job.differentiable) < len(results):
        fixed = [value for i, value in enumerate(results) if i not in job.differentiable]
        ctx.mark_non_differentiable(*fixed)


def append_gradients(
    job: Job, draft: Draft, targets: Sequence[ow.Variable], grads: Mapping[Any, Any] | None = None
) -> tuple[list[str], list[int | None]]:
    """Append the backward pass; return the gradients to fetch, and the index of each trained input.

    An index refers to the fetched gradients; it is None if no target depends on the input.
    """
    within = reached(draft, targets)
    parameters = [name for name in map(draft.name, job.trained) if name in within]
    if not parameters:  # no target depends on a trained input
        return [], [None] * len(job.trained)
    pairs = ow.append_backward(targets, parameters, grads=grads)
    found = {variable.name: grad.name for variable, grad in pairs}
    names = [found.get(draft.name(index)) for index in job.trained]
    wanted = [name for name in names if name is not None]
    places = iter(range(len(wanted)))
    return wanted, [None if name is None else next(places) for name in names]


def reached(draft: Draft, targets: Sequence[ow.Variable]) -> set[str]:
    """Return the variables through which a target can be differentiated."""
    trained = draft.translated.trained
    names = set(trained.intersection(target.name for target in targets))
    for op in reversed(draft.program.global_block().ops):
        if not names.isdisjoint(op.output_names()):
            names.update(trained.intersection(op.input_names()))
    return names
