"""Calls a network in two steps, a forward pass and the part that depends on later feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.describe.meta import Meta, shapes_match
from opwright.errors import AttributeTypeError, FeedError
from opwright.lowering import Given, LoweredPlan, LowerRequest, lower_halves
from opwright.messages.arguments import suggest_arguments
from opwright.program import Program, Variable
from opwright.records import NamedTuple
from opwright.registry import HOST_DEVICE
from opwright.run.arguments import (
    check_delivery,
    choose_scope,
    choose_target,
    feed_spec,
    list_items,
    make_template,
)
from opwright.run.compiled import CompiledSource
from opwright.run.feeds import FeedSpec

if TYPE_CHECKING:
    import os

    from opwright.lowering.lock import Lock

VariableOrName = Variable | str

Backward = partial[list[Any]]


class CutNetwork(NamedTuple):
    """A network in two halves; a call returns the fetches of the first half, and `backward`.

    To keep the values between the halves, call `first` directly. `first` returns its `n_early`
    fetches, then the other values that the second half reads, and finally a pair: the second half,
    and the sources of its first arguments. Each source is a feed name or the position of a result.
    """

    first: _runtime.CompiledNetwork
    n_early: int

    def __call__(self, *values: Any, **feeds: Any) -> tuple[list[Any], Backward]:
        """Run the first half; return its fetches, and a callable for the second half."""
        results = self.first(*values, **feeds)
        second, sources = results.pop()
        is_dict = len(values) == 1 and isinstance(values[0], dict)
        feeds.update(values[0] if is_dict else zip(self.first.feed_names, values, strict=False))
        handed = [feeds[s] if s.__class__ is str else results[s] for s in sources]
        return results[: self.n_early], partial(second, *handed)


@suggest_arguments
def cut(
    program: Program,
    feed: Sequence[VariableOrName] = (),
    fetch: Sequence[VariableOrName] = (),
    late_feed: Sequence[VariableOrName] | Mapping[VariableOrName, VariableOrName] = (),
    late_fetch: Sequence[VariableOrName] = (),
    device: str = HOST_DEVICE,
    scope: _runtime.Scope | None = None,
    passes: Sequence[str] | None = None,
    fallback: str | None = None,
    options: Mapping[str, Any] | None = None,
    deterministic: bool | None = None,
    lock: Lock | str | os.PathLike[str] | None = None,
    *,
    varying: Sequence[VariableOrName] = (),
    fetch_as: Callable[[Any], Any] | None = None,
    detach: bool = False,
) -> CutNetwork:
    """Return a callable ``f(**feeds) -> (list, backward)`` that runs a program in two steps.

    The call runs the operators that do not need late feeds, which is a forward pass with all state
    changes. ``backward(**late_feeds) -> list`` runs the rest. Both steps run the kernels of one
    plan. ``backward`` keeps the forward values that it reads, in as few bytes as possible: it omits
    parameters, values read only for their shape, and values that are cheap to recompute.
    ``backward`` may be called several times, even after other calls of ``f``.

    Parameters
    ----------
    program : Program
        Its global block is run, in its current state.
    feed, fetch : sequence of Variable or str
        The feeds and fetches of the forward pass, as for `Network.compile`. ``backward`` may read
        the arrays of feeds and results and the parameters again, so do not change them before that.
    late_feed : sequence of Variable or str, or mapping
        The feeds of ``backward``, at least one. A mapping gives for each late feed the forward
        variable that has its shape, as for a gradient; otherwise its shape must be known.
    late_fetch : sequence of Variable or str
        The results of ``backward``, in order.
    device, scope, passes, fallback, options, deterministic, lock, varying, fetch_as, detach
        As for `Network.compile`. On a device other than the host, results stay on the device, and
        late feeds must be on the device if the feeds are.

    Raises
    ------
    FeedError
        If a feed or fetch is not a variable, if there is no late feed, or if its shape is unknown.
        The call raises this error if a result of the forward pass depends on a late feed.
    ProgramError
        As for `Network.compile`; the call raises this error if a shape depends on values.
    OpwrightError
        As for `Network.compile`.
    """
    if not isinstance(program, Program):
        raise AttributeTypeError(f"cut: program must be a Program, got {program!r}")
    scope = choose_scope("cut", scope)
    block = program.global_block()
    items = list_items(late_feed, "late_feed")
    likes = late_feed.values() if isinstance(late_feed, Mapping) else items
    read = partial(feed_spec, block, block.ops)
    feeds = [read(item) for item in list_items(feed, "feed")]
    late = [(read(item), read(like)) for item, like in zip(items, likes, strict=True)]
    metas = _check_late(late)
    early, results = list_items(fetch, "fetch"), list_items(late_fetch, "late_fetch")
    target = choose_target(device, fallback, passes, options, deterministic, lock)
    check_delivery(fetch_as, detach)
    fed = [*feeds, *(spec for spec, _ in late)]
    stays = not target.device.is_host
    template = make_template(block, block.ops, fed, [*early, *results], target, stays, varying)
    template = template._replace(
        given=Given(metas, late={spec.name: like.name for spec, like in late}),
        fetches=template.fetches._replace(n_early=len(early)),
    )
    delivery = detach, fetch_as
    make_plan = partial(_lower_halves, template, scope, [spec for spec, _ in late], delivery)
    source = CompiledSource(template, feeds, scope, make_plan)
    label = f"first half of {len(block.ops)} operators"
    return CutNetwork(source.callable(label, *delivery), len(early))


def _check_late(late: Sequence[tuple[FeedSpec, FeedSpec]]) -> dict[str, Meta]:
    """Return the metas of late feeds if they are known; FeedError if a shape is unknown."""
    if not late:
        raise FeedError(
            "cut: late_feed must name a variable, got none; name the gradient that is fed, which "
            "append_backward takes as grads={target: gradient}"
        )
    metas = {}
    for spec, like in late:
        fits = spec.shape is None or like.shape is None or shapes_match(spec.shape, like.shape)
        if spec.dtype != like.dtype or not fits:
            raise FeedError(
                f"cut: late feed {spec.name!r} must be {like.dtype} {like.shape} as {like.name!r}, "
                f"got {spec.dtype} {spec.shape}"
            )
        if spec == like:
            if spec.shape is None or -1 in spec.shape:
                raise FeedError(
                    f"cut: the shape of late feed {spec.name!r} must be known, got {spec.shape}; "
                    f"name a variable that has it: late_feed={{{spec.name!r}: variable}}"
                )
            metas[spec.name] = Meta(spec.shape, str(spec.dtype))
    return metas


def _lower_halves(
    template: LowerRequest,
    scope: _runtime.Scope,
    late: Sequence[FeedSpec],
    delivery: tuple[bool, Callable[[Any], Any] | None],
    request: LowerRequest,
) -> LoweredPlan:
    """Return the plan of the first half; its runs also return the callable of the second half."""
    own, given = template.given, request.given
    on_device = given.on_device.union(own.late if given.on_device else ())
    metas = {**given.metas, **own.metas}
    request = request._replace(given=own._replace(metas=metas, on_device=on_device))
    (first, second), (_, handed, shapes) = lower_halves(request)
    specs = [FeedSpec(name, None, None) for name in handed]
    specs += [spec._replace(shape=shapes.get(spec.name, spec.shape)) for spec in late]
    source = CompiledSource(template, specs, scope, lambda _: second, len(handed))
    label = f"second half of {len(request.ops)} operators"
    second_half = source.callable(label, *delivery)
    return first._replace(handed=(second_half, tuple(handed.values())))
