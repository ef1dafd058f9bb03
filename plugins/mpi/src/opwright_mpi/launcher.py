"""``opwright-mpi run``: starts a script in several processes that MPI connects."""

from __future__ import annotations

import os
from typing import Final

from opwright_dist.launching import Tool, launch
from opwright_mpi.library import find_library
from opwright_mpi.pmi import LAUNCHER_VARIABLE, PmiServer

TOOL: Final = Tool(
    name="opwright-mpi",
    library="MPI",
    more="Other launchers, such as mpiexec and srun, can be used as well.",
    check=find_library,
    open_meeting=lambda n: PmiServer([0] * n, None),
    variables=lambda _: {LAUNCHER_VARIABLE: str(os.getpid())},
    goodbye="it had finalized MPI",
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the status of the first process that failed, or 0."""
    return launch(TOOL, arguments)
