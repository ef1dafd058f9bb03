"""The opwright-dist collectives on NCCL; see `opwright_dist` for their use."""

from __future__ import annotations

from opwright_nccl._version import __version__

__all__ = ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
