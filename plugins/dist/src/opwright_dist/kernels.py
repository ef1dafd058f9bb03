"""The kernels of a group of one, on every device: each process has what all have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opwright.kernel import PrepareContext, Refuse
from opwright_dist.groups.world import current_world


class Alone:
    """Copies x to out where the group has one process; refuses where it has more."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes: their engine has kernels."""
        _check_alone(ctx)
        return _copy


class AloneShard:
    """Copies x, flat, where the group has one process; refuses where it has more."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes."""
        _check_alone(ctx)
        return lambda x, *others, **_: _shard(x, others[-1], 0)


class AloneUnshard:
    """Copies x where the group has one process; refuses where it has more."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes."""
        _check_alone(ctx)
        return _unshard


class Shard:
    """Copies the part of x that belongs to this process."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Find out where it begins."""
        rank = current_world().group(ctx.attrs["group"]).rank
        first = rank * ctx.outputs["out"][0].shape[0]
        return lambda x, out, **_: _shard(x, out, first)


def _check_alone(ctx: PrepareContext) -> None:
    group = current_world().group(ctx.attrs["group"])
    if group.size > 1:
        raise Refuse(
            f"group {group.name!r} has {group.size} processes, and this kernel serves one; "
            f"install an engine with kernels for {ctx.device}, opwright-mpi for cpu or "
            "opwright-nccl for cuda"
        )


def _copy(x: Any, *others: Any, **_: object) -> None:
    others[-1][...] = x


def _shard(x: Any, out: Any, first: int) -> None:
    own = x.reshape(-1)[first : first + len(out)]
    out[: len(own)] = own
    out[len(own) :] = 0


def _unshard(x: Any, like: Any, out: Any, **_: object) -> None:
    out[...] = x[: out.size].reshape(out.shape)
