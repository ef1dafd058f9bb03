"""What stands behind a compiled network: from feeds to the plan that takes them.

The callable itself is the runtime's; it comes here only when no plan at hand fits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from opwright import _runtime
from opwright.bindings import scope_metas
from opwright.device_feeds import ready_feed
from opwright.devices import get_device
from opwright.feeds import FeedSpec, check_feed_names, meta_of
from opwright.lowering import LoweredPlan, LowerRequest, lower
from opwright.meta import Meta
from opwright.plan_cache import PlanCache
from opwright.threads import count_for_plan


class CompiledSource:
    """Resolves the calls of one compiled network; made by ``Network.compile``.

    Parameters
    ----------
    template : LowerRequest
        Everything but the metas of feeds and persistables.
    feeds : sequence of FeedSpec
    scope : Scope
    cache : PlanCache
        Plans of the network, shared by its compiled callables.
    generation : hashable
        Which state of the network was compiled.
    lowered : callable
        Told of every plan that is resolved.
    """

    def __init__(
        self,
        template: LowerRequest,
        feeds: Sequence[FeedSpec],
        scope: _runtime.Scope,
        cache: PlanCache,
        generation: Hashable,
        lowered: Callable[[LoweredPlan], None],
    ) -> None:
        self._template = template
        self._feeds = tuple(feeds)
        self._names = tuple(spec.name for spec in feeds)
        self._scope = scope
        self._cache = cache
        self._lowered = lowered
        self._device = get_device(template.device_name, template.context)
        self._key = (
            generation,
            tuple(template.fetches),
            template.device_name,
            template.fallback,
            template.passes,
            template.fetch_device,
            template.options,
            template.deterministic,
        )

    def callable(self) -> _runtime.CompiledNetwork:
        """Return the callable that users get."""
        compiled = _runtime.CompiledNetwork(self._scope, self._names, self, self._device)
        compiled.fetch_device = self._template.fetch_device
        self._template.context.watch(compiled)
        return compiled

    @property
    def scope(self) -> _runtime.Scope:
        """Where the persistable variables are."""
        return self._scope

    @property
    def device(self) -> _runtime.Device:
        """What the network was compiled for."""
        return self._device

    def written_names(self) -> set[str]:
        """Return every name that the operators write."""
        return {name for op in self._template.ops for name in op.output_names()}

    def __call__(self, feeds: dict[str, Any]) -> tuple[_runtime.Plan, tuple[Any, ...]]:
        """Return the plan of `lower` as the runtime calls for it."""
        plan, arrays = self.lower(feeds)
        return plan.plan, arrays

    def lower(self, feeds: dict[str, Any]) -> tuple[LoweredPlan, tuple[Any, ...]]:
        """Return the plan for these feeds and the scope as it is, and the feeds made ready.

        Those that lie on the network's device are `Tensor` objects.

        Raises
        ------
        FeedError
            For a missing, unknown or misshapen feed.
        """
        check_feed_names(feeds, self._names)
        device, context = self._device, self._template.context
        arrays = [ready_feed(feeds[spec.name], spec, device, context) for spec in self._feeds]
        named = dict(zip(self._names, arrays, strict=True))
        given = {name: meta_of(array) for name, array in named.items()}
        plan = self._plan(
            given, frozenset(n for n, a in named.items() if isinstance(a, _runtime.Tensor))
        )
        self._lowered(plan)
        return plan, tuple(arrays)

    def _plan(self, given: dict[str, Meta], device_feeds: frozenset[str]) -> LoweredPlan:
        template = self._template
        metas = scope_metas(self._scope, sorted(template.lasting), self._device)
        n_threads = count_for_plan(template.deterministic)
        key = (
            self._key,
            tuple(given.values()),
            device_feeds,
            tuple(metas.items()),
            template.context.plan_key(n_threads),
        )
        plan = self._cache.find(key)
        if plan is None:
            request = replace(
                template,
                given=given,
                device_feeds=device_feeds,
                persistables=metas,
                n_threads=n_threads,
            )
            plan = self._cache.add(key, lower(request))
        return plan
