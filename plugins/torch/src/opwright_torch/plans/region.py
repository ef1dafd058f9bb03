"""Replaces a graph in `torch.compile`, and selects the plan for given sizes and tensors."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

import opwright as ow
from opwright.errors import OpwrightError
from opwright_torch.capture import Captured
from opwright_torch.plans.building import Job
from opwright_torch.plans.forward import Forward, pick
from opwright_torch.plans.kept import Kept
from opwright_torch.plans.one_plan import OnePlan
from opwright_torch.plans.two_plans import TwoPlans

_LOGGER: Final = logging.getLogger("opwright_torch")

MAX_BYTES: Final = 256 << 20
"""Maximum bytes allocated by the plans of one graph, excluding the last used plan."""

MAX_OWNERS: Final = 64
"""Maximum number of parameter sets per graph; identical layers share a graph."""


class Region:
    """One graph of a compiled model, callable with the inputs of the graph.

    Parameters
    ----------
    captured : Captured
        The graph.
    job : Job
        The roles of its inputs: kept, fed or differentiated.
    options : mapping
        For `Network.compile`.
    kind : callable, optional
        Creates plans instead of `Forward`, `OnePlan` and `TwoPlans`.
    parent : Scope, optional
        A scope with additional variables for such plans.
    """

    def __init__(
        self,
        captured: Captured,
        job: Job,
        options: Mapping[str, Any],
        kind: Callable[..., Forward] | None = None,
        parent: ow.Scope | None = None,
    ) -> None:
        self.captured, self.job, self._options = captured, job, options
        self._kind, self._parent = kind, parent
        self._symbols = [symbol for _, symbol in job.symbols]
        self._pick_sizes = pick([index for index, _ in job.symbols])
        self._pick_kept = pick(job.kept)
        self._owners: OrderedDict[tuple[int, ...], Kept] = OrderedDict()
        self._plans: OrderedDict[Any, Forward] = OrderedDict()
        self._last: Forward | None = None
        self._has_logged = False
        self._fed_mutations = [m for m in captured.mutations if m.input not in job.kept]
        self._is_plain = not self._fed_mutations and all(
            output.source == "computed" and output.position == i and output.view is None
            for i, output in enumerate(captured.outputs)
        )

    def __call__(self, *args: Any) -> Sequence[Any]:
        """Return the outputs of the graph."""
        plan = self._last
        if plan is None or not plan.fits(args):
            plan = self._find(args)
        try:
            results = plan(args)
        except OpwrightError as error:
            self._explain(error, plan)
            raise
        return results if self._is_plain else self._deliver(results, args)

    @property
    def plans(self) -> list[Forward]:
        """The plans in order of last use, with the most recently used plan last."""
        return list(self._plans.values())

    def owned(self) -> set[int]:
        """Return the identities of all kept tensors of this graph."""
        return {identity for kept in self._owners.values() for identity in kept.ids}

    def _deliver(self, results: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Write the new values of mutated inputs, and return the outputs of the graph."""
        flat = dict(zip(self.job.returned, results))
        for mutation in self._fed_mutations:
            with torch.set_grad_enabled(mutation.requires_grad and torch.is_grad_enabled()):
                args[mutation.input].copy_(flat[mutation.position])
        sizes = dict(zip(self._symbols, self._pick_sizes(args)))
        return [output.make(flat, args, sizes) for output in self.captured.outputs]

    def _find(self, args: tuple[Any, ...]) -> Forward:
        kept, sizes = self._owner(args), self._pick_sizes(args)
        key = (id(kept), *sizes)
        plan = self._plans.pop(key, None)
        if plan is None:
            plan = self._make(kept, sizes)
        self._plans[key] = self._last = plan
        plan.adopt(args)
        while len(self._plans) > 1 and sum(p.bytes for p in self._plans.values()) > MAX_BYTES:
            self._plans.popitem(last=False)
        return plan

    def _make(self, kept: Kept, sizes: Sequence[int]) -> Forward:
        job = self.job
        kind = self._kind or Forward
        if self._kind is None and job.trained and job.differentiable:
            kind = OnePlan if job.loss >= 0 else TwoPlans
        plan = kind(job, sizes, kept, self._options)
        declined = plan.draft.translated.declined
        if declined and not self._has_logged:
            self._has_logged = True
            _LOGGER.warning(
                "PyTorch computes %d operators of a compiled model inside the plan (%s); "
                "opwright_torch.report(compiled) shows the reasons",
                len(declined),
                ", ".join(sorted({str(call.node.target) for call in declined})),
            )
        return plan

    def _owner(self, args: Sequence[Any]) -> Kept:
        tensors = self._pick_kept(args)
        key = tuple(map(id, tensors))
        kept = self._owners.pop(key, None)
        if kept is None:
            names = [self.job.inputs[index].name for index in self.job.kept]
            scope = None if self._parent is None else ow.Scope(self._parent)
            written = [i for i, index in enumerate(self.job.kept) if index in self.job.written]
            kept = Kept(names, tensors, written, lambda: self._forget(key), scope)
        self._owners[key] = kept
        if len(self._owners) > MAX_OWNERS:
            self._forget(next(iter(self._owners)))
        return kept

    def _forget(self, key: tuple[int, ...]) -> None:
        """Drop the plans that use deleted tensors."""
        kept = self._owners.pop(key, None)
        for found in [k for k in self._plans if k[0] == id(kept)]:
            del self._plans[found]
        if self._last is not None and self._last.kept is kept:
            self._last = None

    def _explain(self, error: OpwrightError, plan: Forward) -> None:
        """Add the source line of the model to a kernel error."""
        node = plan.find_node(error)
        trace = None if node is None else node.meta.get("stack_trace")
        if trace:
            error.add_note(f"in the model:\n{trace.rstrip()}")


class Uncaptured:
    """A graph that PyTorch runs because it cannot be captured."""

    def __init__(self, module: torch.fx.GraphModule, reason: str) -> None:
        self.reason = reason
        self._module = module
        _LOGGER.warning("PyTorch runs a graph of a compiled model: %s", reason)

    def __call__(self, *args: Any) -> Any:
        """Return the outputs of the graph."""
        return self._module.forward(*args)
