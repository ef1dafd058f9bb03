"""The paths of the library, the header, and the files for CMake and pkg-config."""

from __future__ import annotations

from libopwright._version import __version__

__all__ = ["__version__", "get_prefix"]


def get_prefix() -> str:
    """Return the folder with ``include`` and ``lib``, laid out like ``/usr``.

    Returns
    -------
    str
        An absolute path. Its ``lib/pkgconfig`` is for ``PKG_CONFIG_PATH``; the folder itself is for
        ``CMAKE_PREFIX_PATH``. ``python -m libopwright`` prints it.
    """
    from pathlib import Path

    return str(Path(__file__).resolve().parent)
