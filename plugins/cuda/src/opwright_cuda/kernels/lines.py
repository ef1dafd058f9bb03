"""Lines of an array, its elements along one axis, and the teams of threads that work on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.launch import FREE_SHARED_BYTES, Argument, LaunchPlan, Pointer, Struct
from opwright_cuda.source import Source

THREADS: Final = 256
"""In a block, but for long lines; ``kTileThreads`` of lines.h."""
WARP: Final = 32
ENOUGH_BLOCKS: Final = 1024
"""So many keep any GPU busy; a fixed number, so that sums do not depend on the GPU."""
MOST_KEPT_BYTES: Final = 128
"""That a thread keeps in registers."""


class Lines(NamedTuple):
    """An array as [outer, length, inner], whose lines go along the middle axis."""

    outer: int
    length: int
    inner: int

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return self.outer * self.inner


def lines_along(shape: Sequence[int], axis: int) -> Lines:
    """Return the lines of a shape along one of its axes; a negative one counts from the back."""
    axis %= len(shape)
    return Lines(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


class Team(NamedTuple):
    """How lines are given to threads.

    Attributes
    ----------
    ctype : str
        The team of lines.h.
    lines : Lines
        What it works on.
    width : int
        Lanes of a line, or lines of a tile.
    grid, block : int
        Blocks, and threads of each.
    parts, chunk : int
        Teams for each line, and elements of each.
    shared_bytes : int
        Dynamic shared memory.
    """

    ctype: str
    lines: Lines
    width: int
    grid: int
    block: int
    parts: int = 1
    chunk: int = 0
    shared_bytes: int = 0

    def arguments(self) -> list[Argument]:
        """Return ``Lines`` of lines.h and the width."""
        chunk = self.chunk or max(self.lines.length, 1)
        return [Struct(*map(np.int64, (*self.lines, self.parts, chunk))), np.int32(self.width)]

    def launch(
        self, plan: LaunchPlan, source: Source, expression: str, arguments: Sequence[Argument]
    ) -> None:
        """Add the launch of a kernel that takes `arguments`, then the lines and the width."""
        given = [*arguments, *self.arguments()]
        plan.launch(source, expression, self.grid, self.block, given, self.shared_bytes)


def power_of_two(n: int) -> int:
    """Return the least power of 2 that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def quotient_up(x: int, y: int) -> int:
    """Return x / y, rounded up."""
    return -(-x // y)


def lanes_of(lines: Lines, lanes: int, ctype: str = "LaneTeam") -> Team:
    """Return teams of so many lanes."""
    return Team(ctype, lines, lanes, quotient_up(lines.n_lines * lanes, THREADS), THREADS)


def _tile_width(lines: Lines) -> int:
    """Lines of a tile: at least as many as fill a transaction, more where lines are short."""
    rows = min(8, power_of_two(lines.length // 8))
    return min(power_of_two(lines.inner), THREADS // rows)


def tiles_of(lines: Lines, ctype: str = "TileTeam") -> Team:
    """Return teams for lines that lie side by side."""
    width = _tile_width(lines)
    return Team(ctype, lines, width, lines.outer * quotient_up(lines.inner, width), THREADS)


def split(team: Team, least: int) -> Team:
    """Return the team, or teams of parts of its lines where there are few blocks.

    Parameters
    ----------
    team : Team
        Of whole lines, blocks or tiles.
    least : int
        Elements that a part has at least.
    """
    length = team.lines.length
    wanted = min(quotient_up(ENOUGH_BLOCKS, max(team.grid, 1)), length // least)
    if wanted < 2:
        return team
    # A multiple of a vector: parts begin where vectors do, if lines do.
    chunk = quotient_up(quotient_up(length, wanted), 16) * 16
    parts = quotient_up(length, chunk)
    return team._replace(grid=team.grid * parts, parts=parts, chunk=chunk)


def team_to_read(lines: Lines, may_split: bool = False) -> Team:
    """Return the teams that read every line once.

    Parameters
    ----------
    lines : Lines
        What they work on.
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


def team_to_keep(lines: Lines, kept: str, kept_bytes: int) -> Team:
    """Return the teams that go over every line several times.

    Parameters
    ----------
    lines : Lines
        What they work on.
    kept : str
        The C++ type that they keep of each element, where there is room for it.
    kept_bytes : int
        Its size.
    """
    if lines.inner > 1:
        return tiles_of(lines, f"StreamedLine<{kept}, TileTeam>")
    length = lines.length
    for items in (2, 8, MOST_KEPT_BYTES // kept_bytes):
        if length <= items * WARP:
            lanes = WARP if items > 2 else power_of_two(quotient_up(length, items))
            return lanes_of(lines, lanes, f"LaneLine<{kept}, {items}>")
    threads = 128 if length <= 2048 else THREADS if length <= 4096 else 512
    n_bytes = length * kept_bytes
    if n_bytes <= FREE_SHARED_BYTES - 8192:  # the rest is for the reductions
        ctype = f"SharedLine<{kept}>"
        return Team(ctype, lines, threads, lines.outer, threads, shared_bytes=n_bytes)
    return Team(f"StreamedLine<{kept}, BlockTeam>", lines, 512, lines.outer, 512)


def partials(plan: LaunchPlan, team: Team, n_bytes: int) -> Pointer:
    """Return scratch memory with so many bytes for every part of every line."""
    return plan.workspace(team.lines.n_lines * team.parts * n_bytes)
