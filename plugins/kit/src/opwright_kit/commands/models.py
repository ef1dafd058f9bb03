"""Checks devices, and opens saved programs and the files that installed packages read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from opwright import LoadedProgram, current_context, load, load_program
from opwright.commands import resolving
from opwright.device import DeviceName
from opwright.errors import CommandError

TOPIC: Final = "reader"
"""The topic of annexes that read files: ``read(path, given)`` returns a LoadedProgram."""

_PACKAGES: Final = {"onnx": "opwright-onnx"}
"""The package to install for files of a kind."""

_NOTHING: Final[Mapping[str, Any]] = {}


def check_device(device: str) -> None:
    """Check, before anything is loaded, that a package provides the device."""
    with resolving():
        name = DeviceName.parse(device)
        if not name.is_host:
            current_context().devices.get(name.kind)


def is_foreign(path: Path) -> bool:
    """Return whether a package, installed or not, reads this kind of file."""
    kind = path.suffix[1:]
    kinds = {*_PACKAGES, *(entry.subject for entry in current_context().annexes.entries(TOPIC))}
    return kind in kinds and not path.is_dir()


def open_model(
    command: str, path: Path, given: Mapping[str, Any] = _NOTHING, *, is_run: bool = True
) -> LoadedProgram:
    """Return a saved program, or the program that an installed package reads from a file.

    Parameters
    ----------
    command : str
        Begins the errors.
    path : Path
    given : mapping of str to array
        The feeds, some of which may decide the program of a file.
    is_run : bool
        False returns a saved program without its parameters.

    Raises
    ------
    CommandError
        For a kind of file that no installed package reads; names the package to install.
    """
    if not is_foreign(path):
        return load(path) if is_run else load_program(path)
    entry = current_context().annexes.find(TOPIC, path.suffix[1:])
    if entry is None:
        raise CommandError(
            f"{command}: no installed package reads files such as {path.name!r}; to get one: "
            f"pip install {_PACKAGES[path.suffix[1:]]}"
        )
    program: LoadedProgram = entry.load()(path, given)
    return program
