"""Runs work such as saving and downloading in one process on behalf of all processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opwright.plugin import suggest_arguments
from opwright_dist.errors import DistError
from opwright_dist.groups.world import WORLD, current_world


@suggest_arguments
def run_on_root(
    function: Callable[[], object], group: str | Sequence[str] = WORLD, *, root: int = 0
) -> None:
    """Call a function in one process of a group while the other processes wait until it returns.

    ::

        dist.run_on_root(lambda: opwright.save("folder", program))

    Every process of the group must call this. The function must take less time than the deadline of
    collectives; see `set_deadline`.

    Parameters
    ----------
    function : callable
        A function without arguments; its result is discarded.
    group : str or sequence of str
        The waiting processes. With several groups, the function is called in the process that is
        `root` in each of them; all processes must pass the same groups in the same order.
    root : int
        The group rank of the process that calls the function.

    Raises
    ------
    DistError
        In the other processes if the function raised an exception; `root` re-raises that exception.
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
        except Exception as error:  # noqa: BLE001 - re-raised after all processes are notified
            fault, failure = f"{type(error).__name__}: {error}", error
    for name in names:  # an error in one group is passed on to the next group
        told = world.engine.gather(fault.encode(), name)
        fault = fault or next((text.decode(errors="replace") for text in told if text), "")
    if failure is not None:
        raise failure
    if fault:
        raise DistError(f"run_on_root: the function must succeed on rank {root}, got {fault}")
