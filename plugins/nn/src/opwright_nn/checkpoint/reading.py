"""Reads the newest undamaged generation of a saved training run."""

from __future__ import annotations

import json
import os
import re
import warnings
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import FileMissingError, FormatError
from opwright_nn.checkpoint.state import unpack_state
from opwright_nn.fields import reading

_GENERATIONS: Final = "generations"
_LATEST: Final = "latest"
_NOTES: Final = "generation.json"
_NUMBER: Final = re.compile(r"[0-9]{8,15}")


class Saved(NamedTuple):
    """A saved program, a scope with its variables, and the notes that were saved with it.

    `path` is the file from which the program was read, for messages.
    """

    program: ow.Program
    scope: ow.Scope
    notes: Mapping[str, Any]
    path: str | os.PathLike[str]

    def reading_notes(self) -> AbstractContextManager[None]:
        """Within a with block, messages of the rules for notes contain the file name."""
        folder = Path(self.path)
        newest = folder if (folder / _NOTES).exists() else folder / _LATEST
        fix = "remove this generation to continue from the previous generation"
        return reading(newest / _NOTES, fix)


def read_saved(path: str | os.PathLike[str]) -> Saved:
    """Return the last state saved by `opwright.save` to a folder."""
    loaded = ow.load(path)
    return Saved(loaded.program, loaded.scope, loaded.notes, path)


def describe_saved(saved: Saved | None) -> str | None:
    """Describe a saved model by a checksum of its contents; return None without a model."""
    if saved is None:
        return None
    text = json.dumps([dict(saved.notes), saved.program.seed], sort_keys=True, default=str)
    values = (saved.scope.find_var(name) for name in sorted(saved.program.global_block().vars))
    checksum = zlib.crc32(text.encode())
    for value in values:
        if value is not None and value.is_set:
            checksum = zlib.crc32(value.numpy().tobytes(), checksum)
    return f"the one with the checksum {checksum:08x}"


def has_program(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder contains a saved program."""
    try:
        ow.load_program(path)
    except FileMissingError:
        return False
    return True


def read_newest(who: str, path: str | os.PathLike[str]) -> Saved | None:
    """Return the newest complete generation of a folder, or None if there is none.

    Parameters
    ----------
    who : str
        The caller, for messages.
    path : str or PathLike
        The folder, or a subfolder of its ``generations``.

    Raises
    ------
    FormatError
        Every generation is damaged.

    Warns
    -----
    RuntimeWarning
        A newer generation is incomplete or damaged; the message names it.
    """
    folder = Path(path)
    paths = _list_generations(folder)
    if not paths:
        return read_saved(folder) if has_program(folder) else None
    for position, generation in enumerate(paths):
        try:
            saved = read_saved(generation)
            unpack_state(saved.notes)
        except (FormatError, OSError) as error:
            if position == len(paths) - 1:
                raise FormatError(
                    f"{who}: {folder} must contain a complete checkpoint, got damage in all "
                    f"{len(paths)}; the oldest: {error}"
                ) from error
            warnings.warn(
                f"{who}: skips the damaged checkpoint {generation} and takes the previous one, "
                f"{paths[position + 1].name}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            return saved
    return None


def _list_generations(folder: Path) -> list[Path]:
    """Return the generations of a folder, the newest first."""
    generations = folder / _GENERATIONS
    if not generations.is_dir():
        return []
    paths = [path for path in generations.iterdir() if _NUMBER.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.name), reverse=True)
