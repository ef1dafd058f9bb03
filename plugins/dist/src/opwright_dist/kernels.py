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
        group = current_world().group(ctx.attrs["group"])
        if group.size > 1:
            raise Refuse(
                f"group {group.name!r} has {group.size} processes, and this kernel serves one; "
                f"install an engine with kernels for {ctx.device}, opwright-mpi for cpu or "
                "opwright-nccl for cuda"
            )
        return _copy


def _copy(x: Any, *others: Any, **_: object) -> None:
    others[-1][...] = x
