"""A separate, initially empty home for the tests, so that user files are not touched.

Files that earlier runs left in user caches must not affect tests. Folders set by environment
variables of other tools are kept, such as PIP_CACHE_DIR for pip downloads, since users who set
these variables want this.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

XDG_FOLDERS: Final = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""Variables whose defaults are folders in the home folder."""

USERS_SETTINGS: Final = (
    *("OPWRIGHT_CACHE_DIR", "OPWRIGHT_PLUGINS", "OPWRIGHT_STRICT"),
    "PYTEST_ADDOPTS",
)
"""Variables that opwright, or a pytest started by tests, would read from the user's shell."""

KEPT_CACHE: Final = "OPWRIGHT_TEST_CACHE_DIR"
"""The variable that names a folder for OPWRIGHT_CACHE_DIR that test processes share."""


def move_in(home: Path, environ: MutableMapping[str, str]) -> None:
    """Make a folder the home directory of processes with this environment."""
    for name in (*XDG_FOLDERS, *USERS_SETTINGS):
        environ.pop(name, None)
    environ["HOME"] = str(home)
    if KEPT_CACHE in environ:
        environ["OPWRIGHT_CACHE_DIR"] = environ[KEPT_CACHE]
