"""Lines of an array (its elements along one axis), and the teams of threads that process them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.dtypes import CTYPES, ITEM_BYTES, compute_bytes, compute_type
from opwright_cuda.launch import Argument, LaunchPlan, Pointer, Struct
from opwright_cuda.source import Source

VECTOR_BYTES: Final = 16
"""Bytes read or written by one thread as a vector."""
THREADS: Final = 256
"""Threads of a block, except for long lines; ``kTileThreads`` of lines.h."""
WARP: Final = 32
ENOUGH_BLOCKS: Final = 1024
"""Number of blocks that keep any GPU busy, fixed so that sums do not depend on the GPU."""
FEW_ELEMENTS: Final = 2**19
"""Number of elements that fill the resident threads of a GPU with two elements per thread."""
MANY_LINES: Final = 2**15
"""Number of lines that fill any GPU several times with one warp per line."""
MOST_KEPT_BYTES: Final = 128
"""Maximum bytes of elements that a thread keeps in registers."""


class Lines(NamedTuple):
    """An array as [outer, length, inner], with lines along the middle axis."""

    outer: int
    length: int
    inner: int

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return self.outer * self.inner


def lines_along(shape: Sequence[int], axis: int) -> Lines:
    """Return the lines of a shape along one of its axes; a negative axis counts from the end.

    A scalar is one line of one element.
    """
    if not shape:
        return Lines(1, 1, 1)
    axis %= len(shape)
    return Lines(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


class Team(NamedTuple):
    """The assignment of lines to threads.

    Attributes
    ----------
    ctype : str
        The team of lines.h.
    lines : Lines
        The lines to process.
    width : int
        Lanes of a line, or lines of a tile.
    grid, block : int
        Blocks, and threads of each.
    parts, chunk : int
        Teams per line, and elements per team.
    """

    ctype: str
    lines: Lines
    width: int
    grid: int
    block: int
    parts: int = 1
    chunk: int = 0

    def arguments(self) -> list[Argument]:
        """Return ``Lines`` of lines.h and the width."""
        chunk = self.chunk or max(self.lines.length, 1)
        return [Struct(*map(np.int64, (*self.lines, self.parts, chunk))), np.int32(self.width)]

    def launch(
        self, plan: LaunchPlan, source: Source, expression: str, arguments: Sequence[Argument]
    ) -> None:
        """Add the launch of a kernel that takes `arguments`, then the lines and the width."""
        given = [*arguments, *self.arguments()]
        plan.launch(source, expression, self.grid, self.block, given)

    def launch_typed(
        self,
        plan: LaunchPlan,
        source: Source,
        kernel: str,
        dtype: str,
        arguments: Sequence[Argument],
        *parameters: str,
    ) -> None:
        """Add the launch of `kernel` with the team, a dtype and more as template parameters."""
        listed = ", ".join((self.ctype, CTYPES[dtype], *parameters))
        self.launch(plan, source, f"{kernel}<{listed}>", arguments)


def power_of_two(n: int) -> int:
    """Return the smallest power of 2 that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def _floor_power_of_two(n: int) -> int:
    """Return the largest power of 2 that is at most `n`, or 1."""
    return 1 << max(n, 1).bit_length() - 1


def quotient_up(x: int, y: int) -> int:
    """Return x / y, rounded up."""
    return -(-x // y)


def lanes_of(lines: Lines, lanes: int, ctype: str = "LaneTeam") -> Team:
    """Return teams of `lanes` lanes."""
    return Team(ctype, lines, lanes, quotient_up(lines.n_lines * lanes, THREADS), THREADS)


def _tile_width(lines: Lines) -> int:
    """Return the lines per tile: as many as fill a memory transaction, or more for short lines."""
    rows = min(8, power_of_two(lines.length // 8))
    return min(power_of_two(lines.inner), THREADS // rows)


def tiles_of(lines: Lines, ctype: str = "TileTeam") -> Team:
    """Return teams for adjacent lines."""
    width = _tile_width(lines)
    return Team(ctype, lines, width, lines.outer * quotient_up(lines.inner, width), THREADS)


def split(team: Team, least: int) -> Team:
    """If there are few blocks, split the lines of a team into parts; return the resulting team.

    Parameters
    ----------
    team : Team
        A block or tile team for unsplit lines.
    least : int
        Minimum elements of a part.
    """
    length = team.lines.length
    wanted = min(quotient_up(ENOUGH_BLOCKS, max(team.grid, 1)), length // least)
    if wanted < 2:
        return team
    # The length of a part is a multiple of the vector width, so parts of aligned lines are aligned.
    chunk = quotient_up(quotient_up(length, wanted), 16) * 16
    parts = quotient_up(length, chunk)
    return team._replace(grid=team.grid * parts, parts=parts, chunk=chunk)


def team_to_read(lines: Lines, may_split: bool = False) -> Team:
    """Return teams that read every line once, one element at a time.

    Parameters
    ----------
    lines : Lines
        The lines to process.
    may_split : bool
        Whether several teams may share a line.
    """
    if lines.inner > 1:
        team = tiles_of(lines)
        return split(team, 8 * THREADS // team.width) if may_split else team
    length = lines.length
    if length <= 256 or (length <= 1024 and lines.outer >= 2048):
        return lanes_of(lines, min(WARP, power_of_two(quotient_up(length, 4))))
    team = Team("BlockTeam", lines, THREADS, lines.outer, THREADS)
    return split(team, 8192) if may_split else team


def _vector_of(lines: Lines, ctype: str, item_bytes: int) -> int:
    """Return the number of elements that a thread of a `ctype` team reads as a vector."""
    vector = VECTOR_BYTES // item_bytes
    # A block reads the unaligned start of a line one element at a time. A team of few lanes would
    # be too slow at this, so the length of its vectors divides the length of the line.
    if ctype == "LaneTeam":
        return math.gcd(vector, lines.length)
    return vector if ctype == "BlockTeam" else 1


def streamed(lines: Lines, dtype: str, may_split: bool = False) -> Team:
    """Return teams that read every line once, by vectors.

    Parameters
    ----------
    lines : Lines
        The lines to process.
    dtype : str
        The dtype of the elements.
    may_split : bool
        Whether several teams may share a line.
    """
    return _streamed(team_to_read(lines, may_split), dtype)


def streamed_by_lanes(lines: Lines, dtype: str) -> Team:
    """Return teams of a warp or less that read lines as `streamed` does.

    The overhead per line, including the reduction over its threads, costs as much as tens of
    elements. Therefore, each thread has at least 16 elements if there is enough work for all
    threads of a GPU.

    Parameters
    ----------
    lines : Lines
        The lines to process, contiguous.
    dtype : str
        The dtype of the elements.
    """
    each = 16 if lines.n_lines * lines.length > 4 * FEW_ELEMENTS else 4
    lanes = _floor_power_of_two(lines.length // each)
    # Together, the lanes of a team read at least a memory sector or half of one.
    n_bytes = _vector_of(lines, "LaneTeam", ITEM_BYTES[dtype]) * ITEM_BYTES[dtype]
    least = min(8, quotient_up(32, n_bytes))
    return _streamed(lanes_of(lines, min(max(lanes, least), WARP)), dtype)


def _streamed(team: Team, dtype: str, vector: int = 0) -> Team:
    vector = vector or _vector_of(team.lines, team.ctype, ITEM_BYTES[dtype])
    return team._replace(ctype=f"StreamedLine<{team.ctype}, {compute_type(dtype)}, {vector}>")


def _kept_line(team: str, kept: str, items: int, vector: int) -> str:
    return f"KeptLine<{team}, {kept}, {items}, {min(vector, items)}>"


def _type_to_keep(dtype: str, n_arrays: int) -> str:
    """Return the type in which the elements of one or two arrays are kept in registers."""
    ctype = compute_type(dtype)
    return ctype if n_arrays == 1 else f"Pair<{ctype}>"


def _lanes_to_keep(lines: Lines, dtype: str, n_arrays: int) -> Team | None:
    """Return teams of a warp or less that keep their lines, or None if the lines are too long."""
    kept, length = _type_to_keep(dtype, n_arrays), lines.length
    vector = _vector_of(lines, "LaneTeam", ITEM_BYTES[dtype])
    most = MOST_KEPT_BYTES // (n_arrays * compute_bytes(dtype))
    for items in (8, most) if lines.n_lines * length > FEW_ELEMENTS else (2, 8, most):
        if length <= items * WARP:
            lanes = WARP if items > 8 else power_of_two(quotient_up(length, items))
            return lanes_of(lines, lanes, _kept_line("LaneTeam", kept, items, vector))
    return None


def team_to_keep(lines: Lines, dtype: str, n_arrays: int = 1) -> Team:
    """Return teams that use every line several times; lines are kept in registers if they fit.

    Parameters
    ----------
    lines : Lines
        The lines to process.
    dtype : str
        The dtype of the elements.
    n_arrays : int
        Number of arrays read: for one array, elements are kept; for two, pairs.
    """
    kept = _type_to_keep(dtype, n_arrays)
    if lines.inner > 1:
        return tiles_of(lines, f"StreamedLine<TileTeam, {kept}, 1>")
    lanes = _lanes_to_keep(lines, dtype, n_arrays)
    if lanes is not None:
        return lanes
    length = lines.length
    vector = _vector_of(lines, "LaneTeam", ITEM_BYTES[dtype])
    most = MOST_KEPT_BYTES // (n_arrays * compute_bytes(dtype))
    # Wide or unaligned elements would need too many registers.
    is_whole = vector * ITEM_BYTES[dtype] == VECTOR_BYTES
    longest = [(512, most)] if is_whole and compute_bytes(dtype) == 4 else []
    usual = [(128, most // 2), (256, most // 2), (512, most // 2)]
    for threads, items in (*usual, *longest):
        if length <= threads * items:
            ctype = _kept_line("BlockTeam", kept, items, vector)
            return Team(ctype, lines, threads, lines.outer, threads)
    vector = _vector_of(lines, "BlockTeam", ITEM_BYTES[dtype])
    ctype = f"StreamedLine<BlockTeam, {kept}, {vector}>"
    return Team(ctype, lines, 512, lines.outer, 512)


def team_to_sum(lines: Lines, dtype: str) -> Team:
    """Return teams that read every line once and write only one result per line.

    A line that fits into the registers of a warp's lanes is kept there. Longer lines are streamed,
    because a block that keeps a line does not read while its threads synchronize.

    Parameters
    ----------
    lines : Lines
        The lines to process.
    dtype : str
        The dtype of the elements.
    """
    if lines.inner > 1:
        return tiles_of(lines, f"StreamedLine<TileTeam, {compute_type(dtype)}, 1>")
    lanes = _lanes_to_keep(lines, dtype, n_arrays=1)
    if lanes is not None:
        return lanes
    if lines.n_lines >= MANY_LINES:
        team = lanes_of(lines, WARP)
    else:
        team = Team("BlockTeam", lines, THREADS, lines.outer, THREADS)
    return _streamed(team, dtype, VECTOR_BYTES // ITEM_BYTES[dtype])


def columns_of(lines: Lines, vector: int, may_split: bool = True) -> Team:
    """Return teams for adjacent lines: these are matrix columns, which are read row by row.

    Parameters
    ----------
    lines : Lines
        The lines to process.
    vector : int
        Maximum adjacent elements per thread; a smaller power of 2 if they do not divide a row.
    may_split : bool
        Whether several teams may share a column.
    """
    vector = math.gcd(_floor_power_of_two(vector), lines.inner)
    n_lanes = lines.inner // vector
    most = min(power_of_two(n_lanes), THREADS)
    if may_split:
        # Each thread has several rows, and the listed widths fill cache lines.
        least = THREADS // min(_floor_power_of_two(lines.length // 4), THREADS)
        listed = (64, 32, 128, 256) if vector == 1 else (32, 16, 8, 64, 128, 256)
        widths = [width for width in listed if least <= width < 2 * n_lanes]
        # Additional tiles are better than idle lanes.
        width = min(widths, key=lambda w: -n_lanes % w, default=most)
    else:
        width = min(max(THREADS // _floor_power_of_two(lines.length), 4), most)
    grid = lines.outer * quotient_up(n_lanes, width)
    team = Team(f"ColumnTeam<{vector}>", lines, width, grid, THREADS)
    return split(team, 8 * THREADS // width) if may_split else team


def partials(plan: LaunchPlan, team: Team, n_bytes: int) -> Pointer:
    """Return scratch memory with `n_bytes` for every part of every line."""
    return plan.workspace(team.lines.n_lines * team.parts * n_bytes)
