"""The standard operators of opwright; ``plugin`` lists them."""

from __future__ import annotations

from opwright_std._version import __version__

__all__ = ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
