"""Finds or lowers the plan of a compiled network for its feeds.

The callable itself belongs to the runtime, which calls this only if it has no plan for the feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
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
    """A plan, and the arguments of a run."""

    lowered: LoweredPlan
    feeds: tuple[Any, ...]  # in the order of the plan's feeds
    scope: _runtime.Scope  # of the persistable variables
    written: frozenset[str]  # every name that the operators write
    fetch_device: bool = False  # whether fetches stay on the device


class CompiledSource:
    """Finds the plans for the calls of one compiled network.

    `template` has no metas of feeds and persistables yet; `cache` is shared by all callables of the
    network, and `generation` is the state of the network that was compiled; `note_plan` is called
    with every plan that is found.
    """

    def __init__(
        self,
        template: LowerRequest,
        feeds: Sequence[FeedSpec],
        scope: _runtime.Scope,
        cache: PlanCache,
        generation: Hashable,
        note_plan: Callable[[LoweredPlan], None],
    ) -> None:
        self._template = template
        self._feeds = tuple(feeds)
        self._names = tuple(spec.name for spec in feeds)
        self._scope = scope
        self._cache = cache
        self._note_plan = note_plan
        self._target = template.target
        self._device = open_device(self._target.device, self._target.context)
        self._key = (generation, template.fetches, template.target)

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
        """Return the plan of `lower`, for the runtime."""
        plan, arrays = self.lower(feeds)
        return plan.plan, arrays

    def lower(self, feeds: dict[str, Any]) -> tuple[LoweredPlan, tuple[Any, ...]]:
        """Return the plan for these feeds and the current scope, and the feeds as arrays.

        Those on the network's device are `Tensor` objects. FeedError for a missing or unknown feed,
        or one of a wrong shape.
        """
        check_feed_names(feeds, self._names)
        device, context = self._device, self._target.context
        arrays = [ready_feed(feeds[spec.name], spec, device, context) for spec in self._feeds]
        pairs = list(zip(self._names, arrays, strict=True))
        on_device = frozenset(name for name, array in pairs if isinstance(array, _runtime.Tensor))
        plan = self._find_plan({name: meta_of(array) for name, array in pairs}, on_device)
        self._note_plan(plan)
        return plan, tuple(arrays)

    def _find_plan(self, given: dict[str, Meta], device_feeds: frozenset[str]) -> LoweredPlan:
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
            request = self._template._replace(
                target=self._target.with_threads(n_threads),
                given=Given(given, on_device=device_feeds),
                persistables=kept._replace(metas=metas),
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
