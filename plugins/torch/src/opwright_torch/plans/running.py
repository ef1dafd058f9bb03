"""Runs a captured graph for given sizes: forward alone, in one plan with gradients, or in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.fx import Node

import opwright as ow
from opwright.runtime import Watch
from opwright_torch.dtypes import torch_dtype
from opwright_torch.plans.building import Draft, Job, draft, strides_of, write_state
from opwright_torch.plans.kept import STEPS, Kept

Pick = Callable[[Sequence[Any]], Sequence[Any]]
Results = Sequence[torch.Tensor]
Options = Mapping[str, Any]

_FREED: Final = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
_keeps_graph: Final = torch._C._autograd._get_current_graph_task_keep_graph


def pick(indices: Sequence[int]) -> Pick:
    """Return what picks these items of a sequence."""
    if len(indices) > 1:
        return itemgetter(*indices)
    only = slice(indices[0], indices[0] + 1) if indices else slice(0)
    return lambda items: items[only]


class Forward:
    """Computes the results of a graph, and writes what it mutates of the tensors that are kept.

    ``forward(args)`` takes the inputs of the graph and returns its results. Before that ``fits``
    says whether inputs are those that it was made for, and ``adopt`` makes it fit those of other
    versions.
    """

    kind = "inference"

    def __init__(self, job: Job, sizes: Sequence[int], kept: Kept, options: Options) -> None:
        self.job, self.kept, self._options = job, kept, options
        symbols = dict(zip((symbol for _, symbol in job.symbols), sizes, strict=True))
        self.draft: Draft = draft(job, symbols)
        self.n_results = len(self.draft.results)
        self.sizes = sizes
        self._pick_sizes = pick([i for i, _ in job.symbols])
        self._pick_fed, self.pick_kept = pick(job.fed), pick(job.kept)
        state = [m for m in job.captured.mutations if m.input in job.written]
        self._pick_written = pick([m.input for m in state])
        self._pairs = [(self.draft.name(m.input), self.draft.results[m.position]) for m in state]
        self._strides = strides_of(job, symbols)
        self._watch: Watch | None = None
        self._written_ids: tuple[int, ...] = ()
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
            varying=[self.draft.name(i) for i in self.job.kept if i in self.job.trained],
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether the tensors that are kept are the same, unchanged, and the sizes too."""
        return (
            self._watch is not None
            and self._watch.is_same(args)
            and self.kept.steps == STEPS.count
            and (not self._pairs or tuple(map(id, self._pick_written(args))) == self._written_ids)
            and self._pick_sizes(args) == self.sizes
        )

    def adopt(self, args: tuple[Any, ...]) -> None:
        """Take over new versions of the tensors that are kept."""
        self.kept.notice(self.pick_kept(args))
        self._watch = self.kept.watch(args, self.job.kept)
        self._written_ids = tuple(map(id, self._pick_written(args)))

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results."""
        return self.run(self.compiled, args)[0]

    def run(
        self, compiled: Any, args: tuple[Any, ...], step: torch.Tensor | None = None
    ) -> tuple[list[Any], torch.Tensor | None]:
        """Return what `compiled` returns, and the step.

        The step of random operators is drawn from PyTorch's generator, unless it is given.
        """
        if self.draft.is_random:
            if step is None:
                step = torch.empty(1, dtype=torch.int64).random_(1 << 31)
            values = compiled(*self._pick_fed(args), step)
        else:
            values = compiled(*self._pick_fed(args))
        if self._pairs:
            torch.autograd.graph.increment_version(self._pick_written(args))
        for i, shape, stride in self._strides:
            values[i] = torch.empty_strided(shape, stride, dtype=values[i].dtype).copy_(values[i])
        return values, step

    def samples(self) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        """Yield each compiled network with made-up feeds; what it writes is restored at the end."""
        variables = [self.kept.scope.var(name) for name, _ in self._pairs]
        before = [variable.numpy() for variable in variables]
        try:
            yield from self._samples([_sample(*meta) for meta in self._feed_metas()])
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.set(value)

    def _samples(self, feeds: Sequence[Any]) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        yield self.compiled, dict(zip(self.draft.feeds, feeds))

    def _feed_metas(self) -> list[tuple[Any, torch.dtype]]:
        variables = map(self.draft.program.global_block().var, self.draft.feeds)
        return [(variable.shape, torch_dtype(variable.dtype)) for variable in variables]

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


def _sample(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return random floats, or zeros of another dtype, which are valid indices."""
    generator = torch.Generator().manual_seed(0)
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    return torch.rand(shape, generator=generator).to(dtype)


def _bytes_of(compiled: Any) -> int:
    last = compiled.plans.last
    if last is None:
        return 0
    plan = last.plan
    return int(plan.held_bytes + plan.arena_bytes * max(1, plan.instances))


class OnePlan(Forward):
    """Computes the gradients of a scalar result together with it; backward only scales them."""

    kind = "one plan"

    _two: TwoPlans | None = None

    def _prepare(self) -> None:
        loss = self.draft.program.global_block().var(self.draft.results[self.job.loss])
        wanted, self.grad_places = _wanted(self.job, self.draft, loss)
        self.compiled = self._compile([*self.draft.results, *wanted])
        self._pick_trained = pick(self.job.trained)

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results, which record."""
        results: Results = _apply_one(self, args, *self._pick_trained(args))
        return results

    def run_two(self, args: tuple[Any, ...], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients of other results as well, by running the forward anew."""
        if self._two is None:
            captured = self.job.captured._replace(mutations=())
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
    pick_feeds: Pick  # inputs of the graph that are saved
    pick_results: Pick  # results that are saved
    pick_arguments: Pick  # of saved inputs, saved results and the rest, in the order of `second`


class TwoPlans(Forward):
    """Computes results in one plan and gradients in another, which reads what the first saves."""

    kind = "two plans"

    def _prepare(self) -> None:
        draft, job = self.draft, self.job
        block = draft.program.global_block()
        n_forward = len(block.ops)
        targets = [block.var(draft.results[i]) for i in job.differentiable]
        tangents = {target: _create_tangent(block, target) for target in targets}
        wanted, self.grad_places = _wanted(job, draft, targets, tangents)
        read = {name for op in block.ops[n_forward:] for name in _names_read(op)}
        self._is_read = [draft.name(index) in read for index in job.kept]
        write_state(block, self._pairs)
        self.cut = ow.cut(
            draft.program,
            draft.feeds,
            draft.results,
            {tangent: target for target, tangent in tangents.items()},
            wanted,
            scope=self.kept.scope,
            varying=[self.draft.name(i) for i in self.job.kept if i in self.job.trained],
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )
        self._pick_trained = pick(job.trained)
        self._like = [(t.shape, torch_dtype(t.dtype)) for t in targets]
        self._handings: dict[int, Handing] = {}

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results, which record."""
        results: Results = _apply_two(self, args, *self._pick_trained(args))
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
            picks = pick(feeds), pick(results), pick(order)
            found = self._handings[id(sources)] = Handing(second, sources, *picks)
        return found

    def differentiate(self, args: tuple[Any, ...], step: Any, tangents: Sequence[Any]) -> list[Any]:
        """Return the gradients of the trained inputs, by running both plans."""
        values, step = self.run(self.cut.first, args, step)
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

    def check(self, tensors: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
        """Raise PyTorch's error if what the backward reads was changed since the forward."""
        self.kept.check(tensors, versions, self._is_read)

    def spread(self, grads: Sequence[Any]) -> list[Any]:
        """Return a gradient for each trained input, None where the results do not depend on it."""
        return [None if place is None else grads[place] for place in self.grad_places]

    def _samples(self, feeds: Sequence[Any]) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        yield self.cut.first, dict(zip(self.draft.feeds, feeds))
        values = self.cut.first(*feeds)
        second, sources = values.pop()
        names = dict(zip(self.draft.feeds, feeds))
        handed = [names[s] if isinstance(s, str) else values[s] for s in sources]
        yield second, dict(zip(second.feed_names, [*handed, *self.fill([None] * self.n_results)]))

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [self.cut.first, *(handing.second for handing in self._handings.values())]


class _TwoSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: TwoPlans, args: tuple[Any, ...], *_: Any) -> Results:
        values, step = plan.run(plan.cut.first, args)
        handing = plan.handing(*values.pop())
        n = plan.n_results
        results = values[:n]
        ctx.save_for_backward(*handing.pick_feeds(args), *handing.pick_results(results))
        rest = values[n:]
        if step is not None:
            rest.append(step)
        ctx.rest, ctx.plan, ctx.handing = rest, plan, handing
        ctx.read = plan.pick_kept(args), plan.kept.versions
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
        plan.check(*ctx.read)
        if not _keeps_graph():
            ctx.rest = None
        handed = ctx.handing.pick_arguments(given)
        del rest, given
        grads = ctx.handing.second(*handed, *plan.fill(tangents))
        return (None, None, *plan.spread(grads))


def _mark(ctx: Any, results: Results, job: Job) -> None:
    """Say which results of a Function have no gradient."""
    if len(job.differentiable) < len(results):
        fixed = [value for i, value in enumerate(results) if i not in job.differentiable]
        ctx.mark_non_differentiable(*fixed)


def _names_read(op: ow.Operator) -> Iterator[str]:
    """Yield the inputs whose elements an operator reads."""
    for slot in ow.op_proto(op.type).inputs:
        if not slot.shape_only:
            yield from op.inputs.get(slot.name, ())


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


# Without the search of the arguments for wrappers of functorch, whose transforms trace the model
# itself and never call what is compiled.
_apply_one: Final = super(torch.autograd.Function, _OneStep).apply
_apply_two: Final = super(torch.autograd.Function, _TwoSteps).apply
