"""Programs translated from files of other formats, saved for later processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from opwright.cache_folder import find_cache_folder
from opwright.disk import digest_of
from opwright.errors import FormatError
from opwright.messages.arguments import suggest_arguments
from opwright.run.loaded import LoadedProgram
from opwright.run.loading import keeper, load
from opwright.run.plan_cache import describe_installed, may_keep, read_record


@suggest_arguments
def load_translated(
    content: Any,
    translate: Callable[[], LoadedProgram],
    choices: str = "",
    *,
    is_whole: Callable[[], bool] = lambda: True,
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
) -> LoadedProgram:
    """Translate a file to a program once; later processes load the saved program.

    It is saved in the folder ``models`` of the cache folder, which only this user may enter, under
    a digest of the content and of the installed packages.

    Parameters
    ----------
    content : bytes-like
        Of the file.
    translate : callable
        Returns the program for `device` and `options`.
    choices : str
        Text of all other inputs of the translation.
    is_whole : callable
        Whether the result depends on nothing else; called once, before anything is saved.
    device, options
        As of `load`.

    Returns
    -------
    LoadedProgram
    """
    cache = find_cache_folder()
    if cache is None or not may_keep():
        return translate()
    parts = describe_installed(), choices, digest_of(content)
    folder = os.path.join(cache, "models", digest_of(repr(parts).encode())[:32])
    if _is_private(os.path.dirname(folder)) and read_record(folder) is not None:
        try:
            return load(folder, device=device, options=options)
        except (FormatError, OSError):  # it is damaged: made anew
            pass
    loaded = translate()
    if not is_whole():
        return loaded
    from opwright.run.plan_cache_writing import keep_model

    place = keep_model(folder, loaded)
    if place is not None and device == "cpu" and options is None:
        loaded.keep = keeper(place, loaded, loaded.program.generation)
    return loaded


def _is_private(folder: str) -> bool:
    """Whether nobody but this user may enter a folder."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
