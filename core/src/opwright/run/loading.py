"""Loads saved programs and bundles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright._runtime import Scope
from opwright.describe.arguments import suggest_arguments
from opwright.errors import AttributeTypeError, ProgramError
from opwright.program import Program
from opwright.program.files import read_alone, read_whole
from opwright.registry import HOST_DEVICE
from opwright.run.bundles.opening import is_bundle, open_bundle
from opwright.run.loaded import LoadedProgram
from opwright.run.network import Network
from opwright.run.report import ArraySpec, ProgramReport

if TYPE_CHECKING:
    from opwright.lowering.lock import Lock


class LoadedBundle(LoadedProgram):
    """A loaded bundle, which is called like a `LoadedProgram` and has no program.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Raises
    ------
    FormatError, PluginError
        As `load` raises them.

    Attributes
    ----------
    batch : (int, int)
        The least and the largest size of dimensions that are None in `feeds`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        source = open_bundle(path)
        super().__init__(Program(), None, (), ())
        self._source, self.batch = source, source.bundle.batch
        self._names = tuple(spec.name for spec in source.fetches)
        self.program_feeds = tuple(spec.name for spec in source.feeds)
        self._called = Network(), source.callable(f"bundle {os.fspath(path)}")

    @property
    def scope(self) -> Scope:
        """ProgramError: it has plans, no program that is trained or saved."""
        raise ProgramError(
            "LoadedProgram: a bundle has plans alone, got a call for its program; load the folder "
            "that opwright.save has written"
        )

    @property
    def feeds(self) -> tuple[ArraySpec, ...]:
        """The arguments of a call, in order."""
        return self._source.feeds

    @property
    def fetches(self) -> tuple[ArraySpec, ...]:
        """The results of a call, in order."""
        return self._source.fetches

    def bundle(self, *args: object, **options: object) -> None:
        """Raise ProgramError, as `scope` does."""
        _ = self.scope

    def report(self) -> ProgramReport:
        """Raise ProgramError, as `scope` does."""
        _ = self.scope
        return super().report()


@suggest_arguments
def load(
    path: str | os.PathLike[str],
    scope: Scope | None = None,
    *,
    mmap: bool = True,
    trainable: bool = True,
    device: str = HOST_DEVICE,
    lock: Lock | str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedProgram:
    """Return the program of a folder that `save` has written, with its parameters; or a bundle.

    No code in the files is run. Everything is checked, and its memory reserved, before a given
    scope changes. While other processes save to the folder, the result still comes from one call of
    `save`.

    The result can be called: ``load(folder)(images)`` computes the results of the program.

    Parameters
    ----------
    path : str or PathLike
        The folder; or one in its ``generations``; or any with ``program.pb`` and
        ``params.safetensors`` of one call of `save` in it. Or a file that `Network.bundle` wrote:
        its plans run without being lowered. Such a file is code, see ``opwright/run.h``.
    scope : Scope, optional
        The scope for the persistable variables, also for calls of the result. By default the
        result has a scope of its own: another program with the same names may be loaded.
    mmap : bool
        Whether parameters may lie in a map of their file: they are read from the disk when they are
        used first, and processes share them. This applies to the scope of the result, and to
        files of 1 MiB and more in ``generations``, which `save` never writes into, on a local
        disk. The file may then be replaced, renamed and removed, but not be written into or cut
        off: that changes the parameters, or kills the process. Values written into a parameter
        stay in memory. False reads everything immediately.
    trainable : bool
        False freezes the parameters: none of them gets a gradient.
    device, lock, options
        As of ``Network.compile``, for calls of the result.

    Returns
    -------
    LoadedProgram
        The program with its feeds and results; it can be called, trained and saved.

    Raises
    ------
    FileMissingError
        If the folder has no saved program.
    FormatError
        If a file is truncated, foreign, damaged, too large or of a newer format; if the parameters
        are not those of the program, with the names that are missing, extra or of a wrong shape.
    OperatorNotFoundError
        If an operator is unknown; the message names the package to install.
    DeviceNotFoundError, LockError, SettingError
        As ``Network.compile`` raises them.
    PluginError
        If a library of a bundle is missing, of another version, or cannot be opened.
    ProgramError
        If `scope`, `device`, `lock` or `options` are given for a bundle.
    """
    for name, value in (("mmap", mmap), ("trainable", trainable)):
        if not isinstance(value, bool):
            raise AttributeTypeError(f"load: {name} must be True or False, got {value!r}")
    if is_bundle(path):
        if scope is not None or device != HOST_DEVICE or lock is not None or options is not None:
            raise ProgramError(
                "load: a bundle must be loaded without scope, device, lock and options, which are "
                "in it, got one of them"
            )
        return LoadedBundle(path)
    saved, arrays = read_whole(path, mapped=mmap and scope is None)
    if scope is None:
        scope = Scope()
        for name, array in arrays.items():
            scope.var(name).borrow(array)
    else:
        scope.set_all(arrays)
    for parameter in () if trainable else saved.program.parameters():
        parameter.trainable = False
    return LoadedProgram(
        saved.program,
        scope,
        saved.fetches,
        saved.feeds,
        notes=saved.notes,
        device=device,
        lock=lock,
        options=options,
    )


@suggest_arguments
def load_program(path: str | os.PathLike[str]) -> LoadedProgram:
    """Return a saved program without its parameters: its result cannot be called.

    Parameters
    ----------
    path : str or PathLike
        The folder that `save` has written, or the ``program.pb`` in it.

    Raises
    ------
    FileMissingError, FormatError, OperatorNotFoundError
        As `load` does.
    """
    saved = read_alone(path)
    return LoadedProgram(saved.program, None, saved.fetches, saved.feeds, notes=saved.notes)
