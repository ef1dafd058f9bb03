"""Runs a captured graph for given sizes, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import torch
from torch.fx import Node

import opwright as ow
from opwright.errors import SettingError
from opwright.plugin import hint
from opwright.runtime import Watch
from opwright_torch.dtypes import torch_dtype
from opwright_torch.openmp import share_threads
from opwright_torch.plans.building import Draft, Job, write_state
from opwright_torch.plans.kept import STEPS, Kept

Pick = Callable[[Sequence[Any]], Sequence[Any]]
Results = Sequence[torch.Tensor]
Options = Mapping[str, Any]

OPTIONS: Final = ("passes", "fallback", "options", "deterministic", "lock")
"""The supported arguments of `opwright.Network.compile`."""


def check_options(who: str, options: Options | None) -> dict[str, Any]:
    """Return arguments for `Network.compile`; SettingError for an argument not in `OPTIONS`."""
    given = dict(options or {})
    for name in given:
        if name not in OPTIONS:
            raise SettingError(
                f"{who}: options must be among {', '.join(OPTIONS)}, got {name!r}"
                f"{hint(name, OPTIONS)}; pass options of plugins as "
                "options={'options': {'cpu.recompute': 0.1}}"
            )
    return given


def pick(indices: Sequence[int]) -> Pick:
    """Return a function that selects the items at these positions of a sequence."""
    if len(indices) > 1:
        return itemgetter(*indices)
    only = slice(indices[0], indices[0] + 1) if indices else slice(0)
    return lambda items: items[only]


class Forward:
    """Computes the results of a graph and updates the buffers that it mutates.

    ``forward(args)`` maps the inputs of the graph to its results. Before a call, ``fits`` checks
    whether parameters, buffers and sizes are unchanged; ``adopt`` accepts new versions of the
    tensors.
    """

    kind = "inference"

    def __init__(self, job: Job, sizes: Sequence[int], kept: Kept, options: Options) -> None:
        share_threads()
        self.job, self.kept, self._options = job, kept, options
        symbols = dict(zip((symbol for _, symbol in job.symbols), sizes, strict=True))
        self.draft: Draft = job.draft(job, symbols)
        self.n_results = len(self.draft.results)
        self.sizes = sizes
        self._pick_sizes = pick([i for i, _ in job.symbols])
        self._pick_fed, self.pick_kept = pick(job.fed), pick(job.kept)
        self._pick_written = pick(job.written)
        self._watch: Watch | None = None
        self._written_ids: tuple[int, ...] = ()
        self.scope = kept.scope_with(self.draft.translated.constants)
        self._prepare()

    def _prepare(self) -> None:
        self.compiled = self._compile(self.draft.results)

    def _compile(self, fetch: Sequence[str], varying: Sequence[str] = ()) -> Any:
        block = self.draft.program.global_block()
        write_state(block, self.draft.state)
        return ow.Network(block).compile(
            self.draft.feeds,
            fetch,
            scope=self.scope,
            varying=[*self._list_trained(), *varying],
            fetch_as=torch.Tensor,
            detach=True,
            **self._options,
        )

    def _list_trained(self) -> list[str]:
        """Return the trained parameters that an operator reads; a graph may read only sizes."""
        blocks = self.draft.program.blocks
        read = {name for block in blocks for op in block.ops for name in op.input_names()}
        trained = (self.draft.name(i) for i in self.job.kept if i in self.job.trained)
        return [name for name in trained if name in read]

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Return whether the kept tensors and the sizes are unchanged."""
        return (
            self._watch is not None
            and self._watch.is_same(args)
            and self.kept.steps == STEPS.count
            and (
                not self.job.written
                or tuple(map(id, self._pick_written(args))) == self._written_ids
            )
            and self._pick_sizes(args) == self.sizes
        )

    def adopt(self, args: tuple[Any, ...]) -> None:
        """Accept new versions of the kept tensors."""
        self.kept.notice(self.pick_kept(args))
        self._watch = self.kept.watch(args, self.job.kept)
        self._written_ids = tuple(map(id, self._pick_written(args)))

    def __call__(self, args: tuple[Any, ...]) -> Results:
        """Return the results."""
        return self.run(self.compiled, args)[0]

    def run(self, compiled: Any, args: tuple[Any, ...]) -> tuple[list[Any], torch.Tensor | None]:
        """Return the results of `compiled`, and the step.

        The step is drawn from PyTorch's generator; it is None without random operators.
        """
        step = None
        if self.draft.is_random:
            step = torch.empty(1, dtype=torch.int64).random_(1 << 31)
            values = compiled(*self._pick_fed(args), step)
        else:
            values = compiled(*self._pick_fed(args))
        if self.job.written:
            torch.autograd.graph.increment_version(self._pick_written(args))
        for i, shape, stride in self.draft.strides:
            values[i] = torch.empty_strided(shape, stride, dtype=values[i].dtype).copy_(values[i])
        return values, step

    def samples(self) -> Iterator[tuple[Any, dict[str, torch.Tensor]]]:
        """Yield each compiled network with synthetic feeds; written variables are restored."""
        block = self.draft.program.global_block()
        names = dict.fromkeys(name for op in block.ops for name in op.output_names())
        written = [name for name in names if block.var(name).persistable]
        variables = [v for v in map(self.scope.find_var, written) if v is not None]
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
        """The number of bytes that the plans allocate, including their workspace."""
        return sum(map(_bytes_of, self.callables()))

    def callables(self) -> list[Any]:
        """Return the compiled networks that have run."""
        return [self.compiled]

    def find_node(self, error: BaseException) -> Node | None:
        """Return the node for the operator that an error names."""
        nodes = self.draft.translated.nodes
        return next((nodes[n] for n in getattr(error, "outputs", ()) if n in nodes), None)


def _sample(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return random floats, or zeros for other dtypes, since zeros are valid indices."""
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
