"""``opwright-mpi run``: starts one script in several processes, with the mpiexec of the wheel."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from opwright_dist import DistError
from opwright_mpi.library import find_mpiexec


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the status of the processes."""
    parser = argparse.ArgumentParser(
        prog="opwright-mpi", description="Run a script in several processes, connected by MPI."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="start a script in several processes",
        description="Start a script in several processes. Where one fails, all are ended.",
    )
    run.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="processes")
    run.add_argument("script", help="the Python script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    chosen = parser.parse_args(arguments)
    if chosen.ranks < 1:
        parser.error(f"run: -n must be at least 1, got {chosen.ranks}")
    if not os.path.isfile(chosen.script):  # noqa: PTH113  # as the user wrote it
        parser.error(f"run: the script must be a file, got {chosen.script!r}")
    try:
        mpiexec = find_mpiexec()
    except DistError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    python = [sys.executable, chosen.script, *chosen.arguments]
    command = [mpiexec, "-n", str(chosen.ranks), *python]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        print(f"opwright-mpi: the processes ended with status {status}", file=sys.stderr)  # noqa: T201
    return status
