"""The opwright-dist collectives on MPI; see `opwright_dist` for their use."""

from __future__ import annotations

from opwright_mpi._version import __version__

__all__ = ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
