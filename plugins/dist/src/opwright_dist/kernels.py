"""Kernels that do not need an engine: groups of one on every device, and `RouteRows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opwright.kernel import PrepareContext, Refuse
from opwright_dist.groups.world import current_world

Array = npt.NDArray[Any]

_INT64_BITS: Final = 63


class Alone:
    """Copies x to out in a group of one; refuses larger groups."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes; such groups need the kernels of an engine."""
        _check_alone(ctx)
        return _copy


class AloneShard:
    """Copies x to the flat out in a group of one; refuses larger groups."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes."""
        _check_alone(ctx)
        return lambda x, *others, **_: _shard(x, others[-1], 0)


class AloneUnshard:
    """Copies x in a group of one; refuses larger groups."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Refuse a group of several processes."""
        _check_alone(ctx)
        return _unshard


class Shard:
    """Copies the part of x that belongs to this process."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Compute the offset at which the part starts."""
        rank = current_world().group(ctx.attrs["group"]).rank
        first = rank * ctx.outputs["out"][0].shape[0]
        return lambda x, out, **_: _shard(x, out, first)


def _check_alone(ctx: PrepareContext) -> None:
    group = current_world().group(ctx.attrs["group"])
    if group.size > 1:
        raise Refuse(
            f"this kernel supports groups of one process, got group {group.name!r} with "
            f"{group.size}; install an engine with kernels for {ctx.device}: opwright-mpi "
            "for cpu, opwright-nccl for cuda"
        )


def _copy(x: Any, *others: Any, **_: object) -> None:
    others[-1][...] = x


def _shard(x: Any, out: Any, first: int) -> None:
    own = x.reshape(-1)[first : first + len(out)]
    out[: len(own)] = own
    out[len(own) :] = 0


def _unshard(x: Any, like: Any, out: Any, **_: object) -> None:
    out[...] = x[: out.size].reshape(out.shape)


class RouteRows:
    """Sorts ids by the process that owns their row; see ``dist.route_rows``."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Return the kernel function for the number of processes and the attributes."""
        n_processes = current_world().group(ctx.attrs["group"]).size
        size, padding_index = ctx.attrs["size"], ctx.attrs["padding_index"]

        def run(ids: Array, rows: Array, places: Array, counts: Array) -> None:
            keys = _key_rows(ids, n_processes, size, padding_index)
            unique, inverse = _find_unique(keys, n_processes * size)
            n_rows = int(np.searchsorted(unique, n_processes * size))
            rows[:n_rows] = unique[:n_rows] % size + 1
            rows[n_rows:] = 0
            places[...] = inverse.reshape(places.shape)
            counts[...] = np.bincount(unique[:n_rows] // size, minlength=n_processes)

        return run


def _key_rows(ids: Array, n_processes: int, size: int, padding_index: int) -> Array:
    """Return keys that sort ids by process and row, with ids without a row last."""
    if ids.size and not 0 <= ids.min() <= ids.max() < size:
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise ValueError(f"dist.route_rows: ids must be in [0, {size}), got {wrong}")
    wide = ids.reshape(-1).astype(np.int64)
    keys: Array = wide % n_processes * size + wide // n_processes
    keys[wide == padding_index] = n_processes * size
    return keys


def _find_unique(keys: Array, highest: int) -> tuple[Array, Array]:
    """Compute `np.unique` with inverse indices in half of NumPy's time for thousands of keys.

    The index of each key is packed into its low bits, so one sort moves keys and indices.
    """
    bits = max(keys.size - 1, 1).bit_length()
    if highest.bit_length() + bits > _INT64_BITS:
        return np.unique(keys, return_inverse=True)
    packed = keys << bits
    packed |= np.arange(keys.size)
    packed.sort()
    ordered = packed >> bits
    packed &= (1 << bits) - 1
    is_new = np.ones(keys.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    inverse = np.empty(keys.size, np.int64)
    inverse[packed] = np.cumsum(is_new) - 1
    return ordered[is_new], inverse
