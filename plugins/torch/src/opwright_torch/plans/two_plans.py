"""Training in two plans: a forward plan, and a backward plan that reads saved values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch

import opwright as ow
from opwright_torch.plans.building import write_state
from opwright_torch.plans.forward import Forward, Pick, Results, pick
from opwright_torch.plans.gradients import (
    FREED,
    append_gradients,
    direct_apply,
    keeps_graph,
    mark_results,
    run_once,
)

Like = tuple[torch.Size, torch.dtype]

MAX_HANDINGS: Final = 64
"""Maximum number of cached argument mappings, for plans of different sizes."""


class Handing(NamedTuple):
    """What the backward plan takes from the forward plan: argument sources and result metas."""

    second: Any
    sources: tuple[Any, ...]  # the name of a feed, or the position of a result
    pick_feeds: Pick  # selects the saved graph inputs
    pick_results: Pick  # selects the saved results
    pick_arguments: (
        Pick  # selects the arguments of `second` from saved inputs, saved results and the rest
    )
    likes: list[Like]  # of the differentiable results


class TwoPlans(Forward):
    """Computes results in one plan, and gradients in a second plan that reads saved values."""

    kind = "two plans"

    def _prepare(self) -> None:
        draft, job = self.draft, self.job
        block = draft.program.global_block()
        n_forward = len(block.ops)
        targets = [block.var(draft.results[i]) for i in job.differentiable]
        tangents = {target: _create_tangent(block, target) for target in targets}
        wanted, self.grad_places = append_gradients(job, draft, targets, tangents)
        read = {name for op in block.ops[n_forward:] for name in _names_read(op)}
        self._is_read = [draft.name(index) in read for index in job.kept]
        write_state(block, self.draft.state)
        self.cut = ow.cut(
            draft.program,
            draft.feeds,
            draft.results,
            {tangent: target for target, tangent in tangents.items()},
            wanted,
            scope=self.scope,
            varying=self._list_trained(),
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )
        self._apply = direct_apply(_TwoSteps)
        self._pick_trained = pick(job.trained)
        self._handings: dict[int, Handing] = {}

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results, recorded for autograd."""
        results: Results = self._apply(self, args, *self._pick_trained(args))
        return results

    def handing(self, second: Any, sources: tuple[Any, ...], values: Sequence[Any]) -> Handing:
        """Return the argument sources of the second plan; the first plan returned `values`."""
        found = self._handings.get(id(sources))
        if found is None:
            names = dict(zip(self.draft.feeds, self.job.fed))
            feeds = tuple(names[s] for s in sources if s in names)
            results = tuple(s for s in sources if isinstance(s, int) and s < self.n_results)
            rest = [s for s in sources if s not in names and s not in results]
            saved = [*(s for s in sources if s in names), *results, *rest]
            order = tuple(map(saved.index, sources))
            picks = self._pick_saved(feeds), pick(results), pick(order)
            if len(self._handings) >= MAX_HANDINGS:
                self._handings.clear()
            found = Handing(second, sources, *picks, self._likes(values))
            self._handings[id(sources)] = found
        return found

    def _pick_saved(self, feeds: tuple[int, ...]) -> Pick:
        """Return a function that selects feeds, with copies of those that the graph overwrites."""
        mutations = () if self.job.captured is None else self.job.captured.mutations
        copied = {m.input for m in mutations}.intersection(feeds)
        if not copied:
            return pick(feeds)
        return lambda args: tuple(args[i].clone() if i in copied else args[i] for i in feeds)

    def differentiate(self, args: tuple[Any, ...], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients of the trained inputs by running both plans."""
        feeds = self._pick_fed(args)
        results, backward = self.cut(*feeds, step) if self.draft.is_random else self.cut(*feeds)
        return self.spread(backward(*self.fill(tangents, self._likes(results))))

    def _likes(self, results: Sequence[torch.Tensor]) -> list[Like]:
        return [(results[i].shape, results[i].dtype) for i in self.job.differentiable]

    def fill(self, given: Sequence[Any], likes: Sequence[Like]) -> list[torch.Tensor]:
        """Return the gradients of all differentiable results, with zeros for absent gradients."""
        pairs = zip((given[i] for i in self.job.differentiable), likes)
        return [
            torch.zeros(shape, dtype=dtype) if tangent is None else tangent.contiguous()
            for tangent, (shape, dtype) in pairs
        ]

    def check(self, tensors: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
        """Raise PyTorch's error if a value saved for the backward pass was modified afterwards."""
        self.kept.check(tensors, versions, self._is_read)

    def spread(self, grads: Sequence[Any]) -> list[Any]:
        """Return a gradient for each trained input, or None if the results do not depend on it."""
        return [None if place is None else grads[place] for place in self.grad_places]

    def _samples(self, feeds: Sequence[Any]) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        yield self.cut.first, dict(zip(self.draft.feeds, feeds))
        results, backward = self.cut(*feeds)
        second: Any = backward.func
        given = [*backward.args, *self.fill([None] * self.n_results, self._likes(results))]
        yield second, dict(zip(second.feed_names, given))

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [self.cut.first, *(handing.second for handing in self._handings.values())]


class _TwoSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: TwoPlans, args: tuple[Any, ...], *_: Any) -> Results:
        values, step = plan.run(plan.cut.first, args)
        second, sources = values.pop()
        handing = plan.handing(second, sources, values)
        n = plan.n_results
        results = values[:n]
        ctx.save_for_backward(*handing.pick_feeds(args), *handing.pick_results(results))
        rest = values[n:]
        if step is not None:
            rest.append(step)
        ctx.rest, ctx.plan, ctx.handing = rest, plan, handing
        ctx.read = plan.pick_kept(args), plan.kept.versions
        ctx.set_materialize_grads(False)
        mark_results(ctx, results, plan.job)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        return run_once(_differentiate, ctx, tangents)


def _differentiate(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
    """Return the gradients of the forward arguments."""
    plan, rest = ctx.plan, ctx.rest
    if rest is None:
        raise RuntimeError(FREED)
    given = (*ctx.saved_tensors, *rest)
    plan.check(*ctx.read)
    if not keeps_graph():
        ctx.rest = None
    handed = ctx.handing.pick_arguments(given)
    del rest, given
    grads = ctx.handing.second(*handed, *plan.fill(tangents, ctx.handing.likes))
    return (None, None, *plan.spread(grads))


def _names_read(op: ow.Operator) -> Iterator[str]:
    """Yield the inputs whose elements an operator reads."""
    for slot in ow.op_proto(op.type).inputs:
        if not slot.shape_only:
            yield from op.inputs.get(slot.name, ())


def _create_tangent(block: ow.Block, target: ow.Variable) -> ow.Variable:
    """Return the feed variable for the gradient of a result."""
    return block.create_var(
        block.program.free_name(f"{target.name}_tangent"),
        target.shape,
        target.dtype,
        is_data=True,
        stop_gradient=True,
    )
