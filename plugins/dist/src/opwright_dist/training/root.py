"""What one process does for all: saving, downloading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opwright.plugin import suggest_arguments
from opwright_dist.errors import DistError
from opwright_dist.groups.world import WORLD, current_world


@suggest_arguments
def run_on_root(
    function: Callable[[], object], group: str | Sequence[str] = WORLD, *, root: int = 0
) -> None:
    """Call a function in one process of a group, while the others wait until it has returned.

    ::

        dist.run_on_root(lambda: opwright.save("folder", program))

    Every process of the group calls it. It takes less time than a collective may wait, see
    `set_deadline`.

    Parameters
    ----------
    function : callable
        Without arguments; what it returns is not kept.
    group : str or sequence of str
        The processes that wait. Of several groups it is called in the process that is `root` in
        each of them; all processes of the groups name the same in the same order.
    root : int
        The number in the group of the process that calls it.

    Raises
    ------
    DistError
        In the other processes, where the function has raised an exception; in `root` that exception
        itself is raised.
    """
    world = current_world()
    names = [group] if isinstance(group, str) else list(group)
    for name in names:
        size = world.group(name).size
        if root not in range(size):
            raise DistError(
                f"run_on_root: root must be in [0, {size}), a process of group {name!r}, got {root}"
            )
    fault, failure = "", None
    if all(world.group(name).rank == root for name in names):
        try:
            function()
        except Exception as error:  # noqa: BLE001 - it is raised when the others know it
            fault, failure = f"{type(error).__name__}: {error}", error
    for name in names:  # a fault in one group is passed on to the next
        told = world.engine.gather(fault.encode(), name)
        fault = fault or next((text.decode(errors="replace") for text in told if text), "")
    if failure is not None:
        raise failure
    if fault:
        raise DistError(f"run_on_root: the function must succeed on rank {root}, got {fault}")
