"""Blocks that process one sequence after another, and their scratch memory."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.source import Source

MOST_SHARED_BYTES: Final = 40 * 1024
"""Maximum shared memory for states, below the default limit because reductions also use some."""

BLOCKS_PER_MULTIPROCESSOR: Final = 8
"""Number of blocks per multiprocessor if each block uses separate memory."""

_WARP: Final = 32
_MOST_THREADS: Final = 256


class BlockTeam(NamedTuple):
    """Blocks that process sequences, each with scratch memory for the states of one sequence.

    Attributes
    ----------
    n_blocks, n_threads : int
        Number of blocks, and threads per block.
    room : Struct
        ``Room`` of room.h.
    shared_bytes : int
        The shared memory of each block.
    """

    n_blocks: int
    n_threads: int
    room: Struct
    shared_bytes: int

    def launch(
        self, plan: LaunchPlan, source: Source, expression: str, arguments: list[Argument]
    ) -> None:
        """Add the launch of a kernel that takes `arguments`, then ``Room``."""
        given = [*arguments, self.room]
        plan.launch(source, expression, self.n_blocks, self.n_threads, given, self.shared_bytes)


def blocks_with_room(
    plan: LaunchPlan, n: int, width: int, n_bytes: int, most: int | None = None
) -> BlockTeam:
    """Return the blocks for `n` sequences.

    Parameters
    ----------
    plan : LaunchPlan
        The plan that allocates their memory.
    n : int
        Number of sequences.
    width : int
        Elements of a sequence that can be processed in parallel.
    n_bytes : int
        Memory per block.
    most : int, optional
        Maximum number of blocks; by default as many as keep the GPU busy.
    """
    n_blocks = min(n, most or plan.gpu.multiprocessors * BLOCKS_PER_MULTIPROCESSOR)
    n_bytes = -(-max(n_bytes, 1) // 16) * 16
    is_shared = n_bytes <= MOST_SHARED_BYTES
    workspace = None if is_shared else plan.workspace(n_blocks * n_bytes)
    n_threads = min(_MOST_THREADS, -(-max(width, 1) // _WARP) * _WARP)
    room = Struct(workspace, np.int64(n_bytes))
    return BlockTeam(n_blocks, n_threads, room, n_bytes if is_shared else 0)
