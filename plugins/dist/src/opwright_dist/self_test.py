"""A self-test of an engine, run by all processes of a group."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import opwright as ow
from opwright_dist.errors import DistError
from opwright_dist.groups import current_world

_NUMBERS = 1000


def run_self_test(device: str = "cpu") -> str:
    """Reduce and gather some numbers over all processes; every process must call this.

    Parameters
    ----------
    device : str
        The device of the numbers.

    Returns
    -------
    str
        A description of the results for users.

    Raises
    ------
    DistError
        If a result is wrong, or a process is missing.
    """
    world = current_world().group("world")
    parts = [np.arange(_NUMBERS, dtype=np.float32) + rank for rank in range(world.size)]
    own = parts[world.rank]
    wanted = {"all_reduce": np.sum(parts, axis=0), "all_gather": np.concatenate(parts)}
    for name, right in wanted.items():
        result = _run(name, own, device)
        if not np.array_equal(result, right):
            wrong = int(np.count_nonzero(result != right))
            raise DistError(
                f"self-test: dist.{name} over {world.size} processes must equal NumPy's "
                f"result, got {wrong} wrong elements of {right.size} on rank {world.rank}; "
                f"the library {current_world().engine.describe()} is broken"
            )
    return f"{world.size} processes: {' and '.join(wanted)} are right"


def _run(name: str, own: Any, device: str) -> Any:
    network = ow.Network([ow.Operator(f"dist.{name}", x="x", out="out")])
    (result,) = network.compile(feed=["x"], fetch=["out"], device=device, scope=ow.Scope())(x=own)
    return result


if __name__ == "__main__":
    print(run_self_test(*sys.argv[1:2]))  # noqa: T201
