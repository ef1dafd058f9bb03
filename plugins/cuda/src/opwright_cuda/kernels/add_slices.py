"""Deterministic sums of slices by index, as in the gradient of every lookup.

Float sums depend on the order, so slices are not added by atomic operations. Instead, the slices of
each index are first listed by a counting sort and then added in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import Refuse
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, compute_bytes, compute_type
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, LaunchPlan, Pointer, Struct, bytes_of, count_of
from opwright_cuda.launch.indexing import NARROW
from opwright_cuda.source import own_source

LISTED: Final = 1024
"""``kListed`` of add_slices.cu."""

MOST_LOOKS: Final = 4096
"""Maximum number of searched blocks of indices; if there are more, listing the slices is faster."""

_MOST_COLUMN_BLOCKS: Final = 65_535

NO_REPORT: Final[list[Argument]] = [None, np.int32(0)]
"""The fault arguments of a kernel that ignores indices out of range."""


@dataclass(frozen=True)
class LookUp:
    """A table of shape [outer, count, row], and the range of its indices.

    Attributes
    ----------
    outer, count, row : int
        Its dimensions.
    least : int
        The minimum index: ``-count`` if negative indices are allowed.
    zero_at : int
        The index whose slice is 0; -1 for none.
    """

    outer: int
    count: int
    row: int
    least: int
    zero_at: int

    def text(self, op_type: str) -> str:
        """Return the fault text for an index out of range."""
        return f"{op_type}: index must be in [{self.least}, {self.count}), got {{value}}"


@dataclass(frozen=True)
class Slices:
    """The slices [outer, n, row] that are summed, and their indices.

    Attributes
    ----------
    pointer : Pointer
        The slices.
    index : Pointer
        The indices.
    index_meta : Meta
        The meta of the indices.
    """

    pointer: Pointer
    index: Pointer
    index_meta: Meta


def launch_add_slices(
    plan: LaunchPlan,
    out: Pointer,
    out_meta: Meta,
    slices: Slices,
    look_up: LookUp,
    text: str | None,
    sum_type: str | None = None,
) -> None:
    """Add ``out[:, p] = sum of slices[:, i] with index[i] == p``.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    out, out_meta : Pointer, Meta
        The output, fully overwritten: [outer, count, row].
    slices : Slices
        The input, of the dtype of `out`.
    look_up : LookUp
        The dimensions; nothing is added to the slice of ``zero_at``.
    text : str or None
        The fault text of an index out of range; if None, such a slice is ignored.
    sum_type : str, optional
        The C++ type of the sums, by default the compute type of the dtype.

    Raises
    ------
    Refuse
        For 2**31 indices or more.
    """
    n = count_of(slices.index_meta)
    if max(n, look_up.count) >= NARROW:
        raise Refuse(f"at most {NARROW - 1} positions are supported, got {max(n, look_up.count)}")
    if count_of(out_meta) == 0:
        return
    report: list[Argument] = NO_REPORT
    if text is not None:
        report = [plan.fault(), plan.fault_text(text)]
    if look_up.count * -(-n // LISTED) <= MOST_LOOKS:
        listed, n_blocks = Struct(None, None, None, None, None), look_up.count
    else:
        plan.fill(out, bytes_of(out_meta))
        listed = launch_listing(plan, slices.index, slices.index_meta, look_up, report)
        n_blocks = min(n, look_up.count)
    dtype = out_meta.dtype
    types = (CTYPES[dtype], sum_type or compute_type(dtype), CTYPES[dtype])
    _launch_sums(plan, out, types, slices, look_up, _Listing(n_blocks, listed, report))


def launch_add_listed(
    plan: LaunchPlan, dtype: str, slices: Slices, look_up: LookUp
) -> tuple[Pointer, Struct]:
    """Add sums of slices, but only for indices that occur.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    dtype : str
        The dtype of the slices.
    slices : Slices
        The input; slices with indices out of range are ignored.
    look_up : LookUp
        The dimensions; ``outer`` is 1.

    Returns
    -------
    Pointer
        The sums in the compute type, in the order of the listed indices.
    Struct
        ``Listed`` of listed.h.
    """
    n_blocks = min(count_of(slices.index_meta), look_up.count)
    sums = plan.workspace(n_blocks * look_up.row * compute_bytes(dtype))
    listed = launch_listing(plan, slices.index, slices.index_meta, look_up, NO_REPORT)
    types = (CTYPES[dtype], compute_type(dtype), compute_type(dtype))
    _launch_sums(plan, sums, types, slices, look_up, _Listing(n_blocks, listed, NO_REPORT), True)
    return sums, listed


class _Listing(NamedTuple):
    """The lists that add_slices.cu works on.

    Attributes
    ----------
    n_blocks : int
        Indices that may have slices.
    listed : Struct
        ``Listed`` of listed.h.
    report : list
        The fault record, and the text for an index out of range.
    """

    n_blocks: int
    listed: Struct
    report: list[Argument]


def _launch_sums(
    plan: LaunchPlan,
    out: Pointer,
    types: tuple[str, str, str],
    slices: Slices,
    look_up: LookUp,
    listing: _Listing,
    is_compact: bool = False,
) -> None:
    """Add the launch of the kernel for the types of the slices, the sums and `out`."""
    of_slices, of_sums, of_out = types
    n_columns = look_up.outer * look_up.row
    columns = min(THREADS, 1 << (n_columns - 1).bit_length())
    grid = (listing.n_blocks, min(-(-n_columns // columns), _MOST_COLUMN_BLOCKS))
    arguments: list[Argument] = [out, slices.pointer, slices.index]
    sizes = (count_of(slices.index_meta), look_up.outer, look_up.row)
    arguments += [*(np.int64(i) for i in sizes), np.int32(columns), _bounds(look_up)]
    arguments += [listing.listed, np.bool_(is_compact), *listing.report]
    index_type = CTYPES[slices.index_meta.dtype]
    expression = f"add_slices<{of_slices}, {index_type}, {of_sums}, {of_out}>"
    plan.launch(own_source("add_slices.cu"), expression, grid, THREADS, arguments)


def launch_listing(
    plan: LaunchPlan, index: Pointer, index_meta: Meta, look_up: LookUp, report: list[Argument]
) -> Struct:
    """Add the launches that list the slices of each index.

    Parameters
    ----------
    plan : LaunchPlan
        The plan to extend.
    index, index_meta : Pointer, Meta
        The indices.
    look_up : LookUp
        The range of indices.
    report : list
        The fault record, and the text for an index out of range.

    Returns
    -------
    Struct
        ``Listed`` of add_slices.cu.
    """
    n, count = count_of(index_meta), look_up.count
    counted = plan.workspace(4 * (count + 2))
    used, counts = counted, counted + 8
    ends, places = plan.workspace(4 * count), plan.workspace(4 * n)
    present = plan.workspace(4 * min(n, count))
    source = own_source("add_slices.cu")
    index_type, bounds = CTYPES[index_meta.dtype], _bounds(look_up)
    over_slices, over_positions = blocks_for(n, plan), blocks_for(count, plan)
    plan.fill(counted, 4 * (count + 2))
    arguments: list[Argument] = [counts, index, np.int64(n), bounds, *report]
    plan.launch(source, f"count_slices<{index_type}>", over_slices, THREADS, arguments)
    arguments = [counts, ends, present, used, np.int64(count)]
    plan.launch(source, "give_room", over_positions, THREADS, arguments)
    arguments = [ends, places, index, np.int64(n), bounds]
    plan.launch(source, f"list_slices<{index_type}>", over_slices, THREADS, arguments)
    return Struct(counts, ends, places, present, used)


def _bounds(look_up: LookUp) -> Struct:
    """Return ``Range`` of add_slices.cu."""
    return Struct(*(np.int64(i) for i in (look_up.least, look_up.count, look_up.zero_at)))
