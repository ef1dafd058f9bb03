"""Lowers the plan of a compiled network for its feeds.

The callable belongs to the runtime, which calls this code only if it lacks a plan for the feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opwright import _runtime
from opwright.context.context import current_context
from opwright.context.threads import count_for_plan
from opwright.describe.dtypes import canonical_dtype, dtype_to_numpy
from opwright.describe.meta import Meta
from opwright.device.intake import read_feed
from opwright.device.opening import open_device
from opwright.errors import FeedError
from opwright.lowering import LoweredPlan, LowerRequest, lower
from opwright.records import NamedTuple
from opwright.run.arguments import scope_metas
from opwright.run.feeds import FeedSpec, check_array, check_feed_names, shown_shape


class PreparedRun(NamedTuple):
    """A plan, and the arguments to run it with."""

    lowered: LoweredPlan
    feeds: tuple[Any, ...]  # in the order of the plan's feeds
    scope: _runtime.Scope  # of the persistable variables
    written: frozenset[str]  # every name that the operators write
    fetch_device: bool = False  # whether fetches stay on the device


class CompiledSource:
    """Lowers the plans of one compiled network; the runtime finds cached plans.

    `template` does not yet contain the metas of feeds and persistables. `make_plan` returns the
    plan of a request. The first `n_bound` feeds are not named in calls.
    """

    def __init__(
        self,
        template: LowerRequest,
        feeds: Sequence[FeedSpec],
        scope: _runtime.Scope,
        make_plan: Callable[[LowerRequest], LoweredPlan] = lower,
        n_bound: int = 0,
    ) -> None:
        self.template = template
        self.make_plan = make_plan
        self.feeds = tuple(feeds)
        self._names = tuple(spec.name for spec in feeds)
        self._scope = scope
        self._n_bound = n_bound
        self._target = template.target
        self._device = open_device(self._target.device, self._target.context)
        self._kept: tuple[int, dict[str, Meta]] = (0, {})  # the scope's structure version and metas

    def callable(
        self, label: str, detach: bool = False, fetch_as: Callable[[Any], Any] | None = None
    ) -> _runtime.CompiledNetwork:
        """Return the callable for users; `label` names it in `opwright.memory`."""
        epoch = self._target.context.epoch
        compiled = _runtime.CompiledNetwork(
            self._scope, self._names, self, self._device, epoch, label
        )
        compiled.fetch_device = self.template.fetches.on_device
        compiled.detach, compiled.fetch_as = detach, fetch_as
        if self.template.given.written:
            compiled.writes = tuple(self.template.given.written)
        return compiled

    def refuse_names(self, n_positional: int, names: tuple[str, ...]) -> None:
        """Raise FeedError if the argument names of a call differ from the feed names."""
        check_feed_names(names, self._names[self._n_bound :], n_positional - self._n_bound)

    def read_feed(self, i: int, value: Any) -> Any:
        """Convert a value of feed `i` that the runtime itself cannot read."""
        spec = self.feeds[i]
        if spec.name in self.template.given.shape_only and isinstance(value, (Meta, np.ndarray)):
            return _make_unread(value, spec)
        return read_feed(value, spec.label, spec.dtype, self._device, self._target.context)

    def __call__(self, arrays: tuple[Any, ...]) -> LoweredPlan:
        """Return the plan for converted feeds, in the order of `feeds`, and for the current scope.

        Raises FeedError for a feed of a wrong dtype or shape.
        """
        return self.make_plan(self.request(arrays))

    def request(self, arrays: tuple[Any, ...]) -> LowerRequest:
        """Return the request for converted feeds, in order, and for the metas of the scope."""
        pairs = list(zip(self.feeds, arrays, strict=True))
        given = {spec.name: check_array(array, spec) for spec, array in pairs}
        tensors = (spec.name for spec, array in pairs if isinstance(array, _runtime.Tensor))
        kept = self.template.persistables
        structure = self._scope.structure_version  # read first, as concurrent changes increment it
        if self._kept[0] != structure:
            self._kept = structure, scope_metas(self._scope, kept.lasting, self._device)
        n_threads = count_for_plan(self._target.deterministic)
        return self.template._replace(
            target=self._target.with_threads(n_threads),
            given=self.template.given._replace(metas=given, on_device=frozenset(tensors)),
            persistables=kept._replace(metas=self._kept[1]),
        )

    def plan_for(
        self,
        compiled: _runtime.CompiledNetwork,
        feeds: Mapping[str, Any] | None = None,
        scope: _runtime.Scope | None = None,
    ) -> PreparedRun:
        """Return the plan of ``compiled.plan_for(feeds, scope)``; see `Network.plan_for`."""
        lowered, ordered = compiled.find_plan(_checked_feeds(feeds))
        if compiled.writes:  # runs write to copies
            named = zip(lowered.plan.feed_names, ordered, strict=True)
            ordered = tuple(_copy(a) if name in compiled.writes else a for name, a in named)
        written = frozenset(name for op in self.template.ops for name in op.output_names())
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
        profile = current_context().annexes.get("kit", "profile").load()
        return profile(compiled, feeds, n, scope=scope)


def _make_unread(value: Meta | np.ndarray[Any, Any], spec: FeedSpec) -> np.ndarray[Any, Any]:
    """Return an array of a shape and dtype without touching its memory."""
    try:
        return np.empty(value.shape, dtype_to_numpy(canonical_dtype(value.dtype)))
    except (ValueError, MemoryError) as error:
        raise FeedError(
            f"{spec.label}: must have a shape that NumPy can allocate, got "
            f"{shown_shape(value.shape)}; give smaller, non-negative sizes"
        ) from error


def _copy(feed: Any) -> Any:
    if isinstance(feed, _runtime.Tensor):
        return _runtime.Tensor.from_numpy(feed.numpy(), feed.opened_device)
    return feed.copy()


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
