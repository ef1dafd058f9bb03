"""What stands behind a compiled network: from feeds to the plan that takes them.

The callable itself is the runtime's; it comes here only when no plan at hand fits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.bindings import scope_metas
from opwright.devices import get_device
from opwright.feeds import FeedSpec, check_feed_names, meta_of, ready_array
from opwright.lowering import LoweredPlan, LowerRequest, lower
from opwright.meta import Meta
from opwright.plan_cache import PlanCache
from opwright.threads import get_num_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        self._device = get_device(template.device, template.context)
        self._key = (
            generation,
            tuple(template.fetches),
            template.device,
            template.fallback,
            template.passes,
            template.fetch_device,
        )

    def callable(self) -> _runtime.CompiledNetwork:
        """Return the callable that users get."""
        compiled = _runtime.CompiledNetwork(self._scope, self._names, self.resolve)
        compiled.fetch_device = self._template.fetch_device
        self._template.context.watch(compiled)
        return compiled

    def resolve(self, feeds: dict[str, Any]) -> tuple[_runtime.Plan, tuple[NDArray[Any], ...]]:
        """Return the plan for these feeds and the scope as it is, and the feeds made ready.

        Raises
        ------
        FeedError
            For a missing, unknown or misshapen feed.
        """
        check_feed_names(feeds, self._names)
        arrays = tuple([ready_array(feeds[spec.name], spec) for spec in self._feeds])
        given = {name: meta_of(array) for name, array in zip(self._names, arrays, strict=True)}
        plan = self._plan(given)
        self._lowered(plan)
        return plan.plan, arrays

    def _plan(self, given: dict[str, Meta]) -> LoweredPlan:
        template = self._template
        metas = scope_metas(self._scope, sorted(template.lasting), self._device)
        n_threads = get_num_threads()
        key = (
            self._key,
            tuple(given.values()),
            tuple(metas.items()),
            template.context.plan_key(n_threads),
        )
        plan = self._cache.find(key)
        if plan is None:
            request = replace(template, given=given, persistables=metas, n_threads=n_threads)
            plan = self._cache.add(key, lower(request))
        return plan
