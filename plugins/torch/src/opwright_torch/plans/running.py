"""Runs a captured graph for given sizes: forward alone, in one plan with gradients, or in two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.fx import Node

import opwright as ow
from opwright_torch.dtypes import torch_dtype
from opwright_torch.plans.building import Draft, Job, draft, strides_of, write_state
from opwright_torch.plans.kept import Kept

Results = Sequence[torch.Tensor]
Options = Mapping[str, Any]

_FREED: Final = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
_keeps_graph: Final = torch._C._autograd._get_current_graph_task_keep_graph


def pick(indices: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what picks these items of a sequence."""
    if len(indices) > 1:
        return itemgetter(*indices)
    only = slice(indices[0], indices[0] + 1) if indices else slice(0)
    return lambda items: items[only]


class Forward:
    """Computes the results of a graph, and writes what it mutates of the tensors that are kept.

    ``forward(args)`` takes the inputs of the graph and returns its results.
    """

    def __init__(self, job: Job, sizes: Mapping[Any, int], kept: Kept, options: Options) -> None:
        self.job, self.kept, self._options = job, kept, options
        self.draft: Draft = draft(job, sizes)
        self.n_results = len(self.draft.results)
        self._pick_fed, self._pick_kept = pick(job.fed), pick(job.kept)
        places = {index: place for place, index in enumerate(job.kept)}
        state = [m for m in job.captured.mutations if m.input in places]
        self._written = [places[m.input] for m in state]
        self._pairs = [(self.draft.name(m.input), self.draft.results[m.position]) for m in state]
        self._strides = strides_of(job, sizes)
        kept.add(self.draft.translated.constants)
        self._prepare()

    def _prepare(self) -> None:
        self.compiled = self._compile(self.draft.results)

    def _compile(self, fetch: Sequence[str]) -> Any:
        block = self.draft.program.global_block()
        write_state(block, self._pairs)
        return ow.Network(block).compile(
            self.draft.feeds,
            fetch,
            scope=self.kept.scope,
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )

    def __call__(self, args: Sequence[Any]) -> Results:
        """Return the results."""
        return self.run(self.compiled, args)[0]

    def run(
        self, compiled: Any, args: Sequence[Any], step: torch.Tensor | None = None
    ) -> tuple[list[Any], list[int], Any]:
        """Return what `compiled` returns, the versions of what is kept, and the step.

        The step of random operators is drawn from PyTorch's generator, unless it is given.
        """
        kept = self._pick_kept(args)
        versions = self.kept.notice(kept)
        if self.draft.is_random:
            if step is None:
                step = torch.empty(1, dtype=torch.int64).random_(1 << 31)
            values = compiled(*self._pick_fed(args), step)
        else:
            values = compiled(*self._pick_fed(args))
        if self._written:
            self.kept.wrote(self._written, kept)
        for i, shape, stride in self._strides:
            values[i] = torch.empty_strided(shape, stride, dtype=values[i].dtype).copy_(values[i])
        return values, versions, step

    @property
    def bytes(self) -> int:
        """What the plans hold, and the memory that they work in."""
        return sum(map(_bytes_of, self.callables()))

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [self.compiled]

    def find_node(self, error: BaseException) -> Node | None:
        """Return the node of the graph whose operator an error names."""
        nodes = self.draft.translated.nodes
        return next((nodes[n] for n in getattr(error, "outputs", ()) if n in nodes), None)


def _bytes_of(compiled: Any) -> int:
    last = compiled.plans.last
    if last is None:
        return 0
    plan = last.plan
    return int(plan.held_bytes + plan.arena_bytes * max(1, plan.instances))


class OnePlan(Forward):
    """Computes the gradients of a scalar result together with it; backward only scales them."""

    def __init__(self, job: Job, sizes: Mapping[Any, int], kept: Kept, options: Options) -> None:
        self._recipe = sizes, options
        self._two: TwoPlans | None = None
        super().__init__(job, sizes, kept, options)
        self._pick_trained = pick(job.trained)

    def _prepare(self) -> None:
        loss = self.draft.program.global_block().var(self.draft.results[self.job.loss])
        wanted, self.grad_places = _wanted(self.job, self.draft, loss)
        self.compiled = self._compile([*self.draft.results, *wanted])

    def __call__(self, args: Sequence[Any]) -> Results:
        """Return the results, which record."""
        results: Results = _OneStep.apply(self, args, *self._pick_trained(args))
        return results

    def run_two(self, args: Sequence[Any], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients of other results as well, by running the forward anew."""
        if self._two is None:
            captured = self.job.captured._replace(mutations=())
            sizes, options = self._recipe
            self._two = TwoPlans(self.job._replace(captured=captured), sizes, self.kept, options)
        return self._two.differentiate(args, step, tangents)


class _OneStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: OnePlan, args: Sequence[Any], *_: Any) -> Results:
        values, _, step = plan.run(plan.compiled, args)
        n = plan.n_results
        ctx.plan, ctx.grads = plan, values[n:]
        job = plan.job
        if len(job.differentiable) > 1:
            ctx.anew = args, step
        del values[n:]
        ctx.set_materialize_grads(False)
        _mark(ctx, values, job)
        return tuple(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        plan, grads = ctx.plan, ctx.grads
        if grads is None:
            raise RuntimeError(_FREED)
        others = [t for i, t in enumerate(tangents) if t is not None and i != plan.job.loss]
        if others:
            return (None, None, *plan.run_two(*ctx.anew, tangents))
        keeps = _keeps_graph()
        if not keeps:
            ctx.grads = None
        tangent = tangents[plan.job.loss]
        if tangent is None:
            return (None,) * (2 + len(plan.grad_places))
        scale = tangent.item()
        if scale != 1.0:
            grads = torch._foreach_mul(grads, scale)
        elif keeps:
            grads = [grad.clone() for grad in grads]
        return (None, None, *(None if i is None else grads[i] for i in plan.grad_places))


class Handing(NamedTuple):
    """How the second plan's first arguments are found again in the backward."""

    second: Any
    sources: tuple[Any, ...]  # a feed's name, or the position of a result
    feeds: tuple[int, ...]  # inputs of the graph that are saved
    results: tuple[int, ...]  # results that are saved
    order: tuple[int, ...]  # of the arguments among saved inputs, saved results and the rest


class TwoPlans(Forward):
    """Computes results in one plan and gradients in another, which reads what the first saves."""

    def _prepare(self) -> None:
        draft, job = self.draft, self.job
        block = draft.program.global_block()
        n_forward = len(block.ops)
        targets = [block.var(draft.results[i]) for i in job.differentiable]
        tangents = {target: _create_tangent(block, target) for target in targets}
        wanted, self.grad_places = _wanted(job, draft, targets, tangents)
        read = {name for op in block.ops[n_forward:] for name in op.input_names()}
        self._pick_read = pick([i for i, k in enumerate(job.kept) if draft.name(k) in read])
        write_state(block, self._pairs)
        self.cut = ow.cut(
            draft.program,
            draft.feeds,
            draft.results,
            {tangent: target for target, tangent in tangents.items()},
            wanted,
            scope=self.kept.scope,
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )
        self._pick_trained = pick(job.trained)
        self._like = [(t.shape, torch_dtype(t.dtype)) for t in targets]
        self._handings: dict[int, Handing] = {}

    def __call__(self, args: Sequence[Any]) -> Results:
        """Return the results, which record."""
        results: Results = _TwoSteps.apply(self, args, *self._pick_trained(args))
        return results

    def handing(self, second: Any, sources: tuple[Any, ...]) -> Handing:
        """Return where the arguments of the second plan come from."""
        found = self._handings.get(id(sources))
        if found is None:
            names = dict(zip(self.draft.feeds, self.job.fed))
            feeds = tuple(names[s] for s in sources if s in names)
            results = tuple(s for s in sources if isinstance(s, int) and s < self.n_results)
            rest = [s for s in sources if s not in names and s not in results]
            saved = [*(s for s in sources if s in names), *results, *rest]
            order = tuple(map(saved.index, sources))
            found = self._handings[id(sources)] = Handing(second, sources, feeds, results, order)
        return found

    def differentiate(self, args: Sequence[Any], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients of the trained inputs, by running both plans."""
        values, _, _ = self.run(self.cut.first, args, step)
        second, sources = values.pop()
        names = dict(zip(self.draft.feeds, (*self._pick_fed(args), step)))
        handed = [names[s] if isinstance(s, str) else values[s] for s in sources]
        return self.spread(second(*handed, *self.fill(tangents)))

    def fill(self, given: Sequence[Any]) -> list[torch.Tensor]:
        """Return the tangents of all differentiable results, with zeros for those without."""
        pairs = zip((given[i] for i in self.job.differentiable), self._like)
        return [
            torch.zeros(shape, dtype=dtype) if tangent is None else tangent.contiguous()
            for tangent, (shape, dtype) in pairs
        ]

    def spread(self, grads: Sequence[Any]) -> list[Any]:
        """Return a gradient for each trained input, None where the results do not depend on it."""
        return [None if place is None else grads[place] for place in self.grad_places]

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [self.cut.first, *(handing.second for handing in self._handings.values())]

    def note_read(self, args: Sequence[Any], versions: Sequence[int]) -> Any:
        """Return the tensors that are kept and that the backward reads, and their versions."""
        return self._pick_read(self._pick_kept(args)), self._pick_read(versions)


class _TwoSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: TwoPlans, args: Sequence[Any], *_: Any) -> Results:
        values, versions, step = plan.run(plan.cut.first, args)
        handing = plan.handing(*values.pop())
        n = plan.n_results
        results = values[:n]
        ctx.save_for_backward(
            *(args[i] for i in handing.feeds), *(results[i] for i in handing.results)
        )
        rest = values[n:]
        if step is not None:
            rest.append(step)
        ctx.rest, ctx.plan, ctx.handing = rest, plan, handing
        ctx.read = plan.note_read(args, versions)
        ctx.set_materialize_grads(False)
        _mark(ctx, results, plan.job)
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        plan, rest = ctx.plan, ctx.rest
        if rest is None:
            raise RuntimeError(_FREED)
        given = (*ctx.saved_tensors, *rest)
        Kept.check(*ctx.read)
        if not _keeps_graph():
            ctx.rest = None
        handed = [given[i] for i in ctx.handing.order]
        del rest, given
        grads = ctx.handing.second(*handed, *plan.fill(tangents))
        return (None, None, *plan.spread(grads))


def _mark(ctx: Any, results: Results, job: Job) -> None:
    """Say which results of a Function have no gradient."""
    if len(job.differentiable) < len(results):
        fixed = (value for i, value in enumerate(results) if i not in job.differentiable)
        ctx.mark_non_differentiable(*fixed)


def _create_tangent(block: ow.Block, target: ow.Variable) -> ow.Variable:
    """Return the variable that the gradient of a result is fed to."""
    return block.create_var(
        block.program.free_name(f"{target.name}_tangent"),
        target.shape,
        target.dtype,
        is_data=True,
        stop_gradient=True,
    )


def _wanted(
    job: Job, draft: Draft, targets: Any, grads: Mapping[Any, Any] | None = None
) -> tuple[list[str], list[int | None]]:
    """Append the backward; return gradients to fetch, and for each trained input its place there.

    The place is None where no target depends on the input.
    """
    pairs = ow.append_backward(targets, grads=grads)
    found = {variable.name: grad.name for variable, grad in pairs}
    names = [found.get(draft.name(index)) for index in job.trained]
    wanted = [name for name in names if name is not None]
    places = iter(range(len(wanted)))
    return wanted, [None if name is None else next(places) for name in names]
