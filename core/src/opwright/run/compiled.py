"""What stands behind a compiled network: from feeds to the plan that takes them.

The callable itself is the runtime's; it comes here only when no plan at hand fits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from opwright import _runtime
from opwright.describe.kit import load_tool
from opwright.describe.meta import Meta
from opwright.device.feeds import FeedSpec, check_feed_names, meta_of, ready_feed
from opwright.device.opening import open_device
from opwright.errors import FeedError
from opwright.lowering import Given, LoweredPlan, LowerRequest, lower
from opwright.plugins.threads import count_for_plan
from opwright.run.bindings import scope_metas
from opwright.run.plan_cache import PlanCache


class PreparedRun(NamedTuple):
    """A plan, and what a run of it is given.

    Attributes
    ----------
    lowered : LoweredPlan
        Its plan and where that runs.
    feeds : tuple of array
        In the order of the plan's feeds.
    scope : Scope
        Where the persistable variables are.
    written : frozenset of str
        Every name that the operators write.
    fetch_device : bool
        Whether fetches stay on the device.
    """

    lowered: LoweredPlan
    feeds: tuple[Any, ...]
    scope: _runtime.Scope
    written: frozenset[str]
    fetch_device: bool = False


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
        self._target = template.target
        self._device = open_device(self._target.device, self._target.context)
        self._key = (
            generation,
            template.fetches,
            template.target,
        )

    def callable(self) -> _runtime.CompiledNetwork:
        """Return the callable that users get."""
        compiled = _runtime.CompiledNetwork(self._scope, self._names, self, self._device)
        compiled.fetch_device = self._template.fetches.on_device
        self._target.context.watch(compiled)
        return compiled

    def plan_for(
        self,
        compiled: _runtime.CompiledNetwork,
        feeds: Mapping[str, Any] | None = None,
        scope: _runtime.Scope | None = None,
    ) -> PreparedRun:
        """Return the plan of ``compiled.plan_for(feeds, scope)``; see `Network.plan_for`."""
        lowered, arrays = self.lower(_checked_feeds(feeds))
        by_name = dict(zip(self._names, arrays, strict=True))
        ordered = tuple(by_name[name] for name in lowered.plan.feed_names)
        written = frozenset(name for op in self._template.code.ops for name in op.output_names())
        own = self._scope if scope is None else scope
        return PreparedRun(lowered, ordered, own, written, compiled.fetch_device)

    def profile(
        self,
        compiled: _runtime.CompiledNetwork,
        feeds: Mapping[str, Any] | None = None,
        n: int | None = None,
        *,
        scope: _runtime.Scope | None = None,
    ) -> Any:
        """Return the profile of ``compiled.profile(feeds, n)``; see `Network.profile`."""
        return load_tool("profile")(compiled, feeds, n, scope=scope)

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
        device, context = self._device, self._target.context
        arrays = [ready_feed(feeds[spec.name], spec, device, context) for spec in self._feeds]
        named = dict(zip(self._names, arrays, strict=True))
        given = {name: meta_of(array) for name, array in named.items()}
        plan = self._plan(
            given, frozenset(n for n, a in named.items() if isinstance(a, _runtime.Tensor))
        )
        self._lowered(plan)
        return plan, tuple(arrays)

    def _plan(self, given: dict[str, Meta], device_feeds: frozenset[str]) -> LoweredPlan:
        kept = self._template.persistables
        metas = scope_metas(self._scope, sorted(kept.lasting), self._device)
        n_threads = count_for_plan(self._target.deterministic)
        key = (
            self._key,
            tuple(given.values()),
            device_feeds,
            tuple(metas.items()),
            self._target.context.plan_key(n_threads),
        )
        plan = self._cache.find(key)
        if plan is None:
            request = replace(
                self._template,
                target=replace(self._target, n_threads=n_threads),
                given=Given(given, on_device=device_feeds),
                persistables=replace(kept, metas=metas),
            )
            plan = self._cache.add(key, lower(request))
        return plan


def _checked_feeds(feeds: Any) -> dict[str, Any]:
    if feeds is None:
        return {}
    if not isinstance(feeds, Mapping):
        raise FeedError(
            f"profile: feeds must be a mapping from names to arrays, got {type(feeds).__name__}; "
            'write profile({"x": array})'
        )
    for name in feeds:
        if not isinstance(name, str):
            raise FeedError(f"profile: feeds must be named by strings, got the name {name!r}")
    return dict(feeds)
