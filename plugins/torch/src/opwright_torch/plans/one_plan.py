"""Training in one plan that computes a loss together with its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opwright_torch.plans.forward import Forward, Results, pick
from opwright_torch.plans.gradients import (
    FREED,
    append_gradients,
    direct_apply,
    keeps_graph,
    mark_results,
    run_once,
)
from opwright_torch.plans.two_plans import TwoPlans


class OnePlan(Forward):
    """Computes a scalar result together with its gradients; backward only scales these."""

    kind = "one plan"

    _two: TwoPlans | None = None

    def _prepare(self) -> None:
        loss = self.draft.program.global_block().var(self.draft.results[self.job.loss])
        wanted, self.grad_places = append_gradients(self.job, self.draft, [loss])
        self.compiled = self._compile([*self.draft.results, *wanted])
        self._apply = direct_apply(_OneStep)
        self._pick_trained = pick(self.job.trained)

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results, recorded for autograd."""
        results: Results = self._apply(self, args, *self._pick_trained(args))
        return results

    def run_two(self, args: tuple[Any, ...], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients for tangents of all results, by rerunning the forward pass."""
        if self._two is None:
            captured: Any = self.job.captured
            captured = captured._replace(mutations=())
            job = self.job._replace(captured=captured, written=())
            self._two = TwoPlans(job, self.sizes, self.kept, self._options)
        return self._two.differentiate(args, step, tangents)


class _OneStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: OnePlan, args: tuple[Any, ...], *_: Any) -> Results:
        values, step = plan.run(plan.compiled, args)
        n = plan.n_results
        ctx.plan, ctx.grads = plan, values[n:]
        job = plan.job
        if len(job.differentiable) > 1:
            ctx.anew = args, step
        del values[n:]
        ctx.set_materialize_grads(False)
        mark_results(ctx, values, job)
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        return run_once(_differentiate, ctx, tangents)


def _differentiate(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
    """Return the gradients of the forward arguments."""
    plan, grads = ctx.plan, ctx.grads
    if grads is None:
        raise RuntimeError(FREED)
    others = [t for i, t in enumerate(tangents) if t is not None and i != plan.job.loss]
    if others:
        return (None, None, *plan.run_two(*ctx.anew, tangents))
    keeps = keeps_graph()
    if not keeps:
        ctx.grads = None
    tangent = tangents[plan.job.loss]
    if tangent is None:
        return (None,) * (2 + len(plan.grad_places))
    scale = tangent.item()
    if grads and scale != 1.0:
        grads = torch._foreach_mul(grads, scale)
    elif keeps:
        grads = [grad.clone() for grad in grads]
    return (None, None, *(None if i is None else grads[i] for i in plan.grad_places))
