"""``opwright-nccl run``: starts a script in several processes with one GPU each."""

from __future__ import annotations

import os
from typing import Final

from opwright_dist import DistError
from opwright_dist.launching import Tool, launch
from opwright_nccl.library import find_library
from opwright_nccl.store import Store

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def _list_visible() -> list[str] | None:
    """Return the visible GPUs, or None for all GPUs."""
    text = os.environ.get(_VISIBLE)
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _open_store(n: int) -> Store:
    visible = _list_visible()
    if visible is not None and len(visible) < n:
        raise DistError(
            f"opwright-nccl run: each of {n} processes must have its own GPU, got {_VISIBLE}="
            f"{os.environ[_VISIBLE]!r}; start fewer processes, or list more GPUs"
        )
    return Store(n)


def _choose_gpu(rank: int) -> dict[str, str]:
    visible = _list_visible()
    return {_VISIBLE: str(rank) if visible is None else visible[rank]}


TOOL: Final = Tool(
    name="opwright-nccl",
    library="NCCL",
    more='CUDA_VISIBLE_DEVICES gives each its own GPU, as device="cuda". With\n'
    "OPWRIGHT_DIST_ENGINE=nccl, MPI launchers can be used as well.",
    check=find_library,
    open_meeting=_open_store,
    variables=_choose_gpu,
    goodbye="it had said goodbye to the others",
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the status of the first process that failed, or 0."""
    return launch(TOOL, arguments)
