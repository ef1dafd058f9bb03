"""A separate home for the tests, initially empty: no file of the user is read or written.

Files of an earlier run in the user's caches must not decide whether a test passes. Folders set by a
tool's own variable are kept, such as pip's downloads by PIP_CACHE_DIR, as users who set it want
this.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

XDG_FOLDERS: Final = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""If they are unset, programs use folders in the home."""

USERS_SETTINGS: Final = (
    *("OPWRIGHT_CACHE_DIR", "OPWRIGHT_PLUGINS", "OPWRIGHT_STRICT"),
    "PYTEST_ADDOPTS",
)
"""Variables that opwright, or a pytest started by tests, would read from the user's shell."""

KEPT_CACHE: Final = "OPWRIGHT_TEST_CACHE_DIR"
"""The variable with a folder for OPWRIGHT_CACHE_DIR, if several test processes share it."""


def move_in(home: Path, environ: MutableMapping[str, str]) -> None:
    """Make a folder the home of the processes that have this environment."""
    for name in (*XDG_FOLDERS, *USERS_SETTINGS):
        environ.pop(name, None)
    environ["HOME"] = str(home)
    if KEPT_CACHE in environ:
        environ["OPWRIGHT_CACHE_DIR"] = environ[KEPT_CACHE]
