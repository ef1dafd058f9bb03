"""What one process does for all: saving, downloading."""

from __future__ import annotations

from collections.abc import Callable

from opwright_dist.errors import DistError
from opwright_dist.groups.world import WORLD, current_world


def run_on_root(function: Callable[[], object], group: str = WORLD, *, root: int = 0) -> None:
    """Call a function in one process of a group, while the others wait until it has returned.

    ::

        dist.run_on_root(lambda: opwright.save("folder", program))

    Every process of the group calls it. It takes less time than a collective may wait, see
    `set_deadline`.

    Parameters
    ----------
    function : callable
        Without arguments; what it returns is not kept.
    group : str
        The processes that wait.
    root : int
        The number in the group of the process that calls it.

    Raises
    ------
    DistError
        In the other processes, where the function has raised an exception; in `root` that exception
        itself is raised.
    """
    world = current_world()
    members = world.group(group)
    if root not in range(members.size):
        raise DistError(
            f"run_on_root: root must be in [0, {members.size}), a process of group {group!r}, got "
            f"{root}"
        )
    if members.rank != root:
        fault = world.engine.gather(b"", group)[root].decode(errors="replace")
        if fault:
            raise DistError(f"run_on_root: the function must succeed on rank {root}, got {fault}")
        return
    try:
        function()
    except Exception as error:
        world.engine.gather(f"{type(error).__name__}: {error}".encode(), group)
        raise
    world.engine.gather(b"", group)
