"""Loads saved programs and bundles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from opwright._runtime import Scope
from opwright.disk import path_of
from opwright.errors import ProgramError
from opwright.messages.arguments import check_flag, suggest_arguments
from opwright.run.bundles.opening import LoadedBundle, is_bundle
from opwright.run.loaded import LoadedProgram
from opwright.run.plan_cache import Place, find_place, open_cached
from opwright.run.scopes import check_scope

if TYPE_CHECKING:
    from opwright.lowering import LoweredPlan, LowerRequest
    from opwright.lowering.lock import Lock
    from opwright.program import Variable
    from opwright.run.compiled import CompiledSource


@suggest_arguments
def load(
    path: str | os.PathLike[str],
    scope: Scope | None = None,
    *,
    mmap: bool = True,
    trainable: bool = True,
    fetch: Iterable[Variable | str] | Variable | str | None = None,
    device: str = "cpu",
    lock: Lock | str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedProgram:
    """Load a program with its parameters from a folder that `save` has written, or a bundle.

    No code in the files is run. All checks and allocations are done before a given scope changes.
    Even if other processes save to the folder meanwhile, the result is from a single `save` call.

    The result can be called: ``load(folder)(images)`` computes the results of the program.

    Parameters
    ----------
    path : str or PathLike
        The folder, or a folder in its ``generations``, or any folder with the ``program.pb`` and
        ``params.safetensors`` of one call of `save`. Or a file that `Network.bundle` wrote, whose
        plans run without being lowered. Such a file is code, see ``opwright/run.h``.
    scope : Scope, optional
        The scope for the persistable variables, also for calls of the result. By default the result
        has its own scope, so programs with the same names can be loaded.
    mmap : bool
        Whether parameters may be memory-mapped, so that they are read from disk at first use and
        shared by processes. This applies to the scope of the result, and to files of 1 MiB and more
        in ``generations``, which `save` never writes into, on a local disk. The file may then be
        replaced, renamed and removed, but not written to or truncated, which would change the
        parameters or kill the process. Values written to a parameter stay in memory. False reads
        all immediately.
    trainable : bool
        False freezes the parameters, which then do not get gradients; normalizations use their
        running statistics without updating them.
    fetch : Variable or str, or list of these, optional
        The results of a call, instead of the saved results. These can be any variables of the
        program, such as the output of a layer, ``fetch="hidden_out"``.
    device, lock, options
        As for ``Network.compile``, for calls of the result.

    Returns
    -------
    LoadedProgram
        The program with its feeds and results; it can be called, trained and saved.

    Raises
    ------
    FileMissingError
        If the folder has no saved program.
    FormatError
        If a file is truncated, foreign, damaged, too large or of a newer format, or the parameters
        do not match the program; the message names missing, superfluous and mismatched parameters.
    OperatorNotFoundError
        If an operator is unknown; the message names the package to install.
    DeviceNotFoundError, LockError, SettingError
        As for ``Network.compile``.
    PluginError
        If a library of a bundle is missing, of another version, or cannot be opened.
    ProgramError
        If `scope`, `fetch`, `device`, `lock` or `options` are given for a bundle.
    VariableNotFoundError
        If `fetch` has a name that is not a variable of the program.
    """
    for name, value in (("mmap", mmap), ("trainable", trainable)):
        check_flag("load", name, value)
    path = path_of("load", path)
    if scope is not None and not hasattr(scope, "set_all"):
        check_scope("load", scope)
    given = (scope, fetch, lock, options)
    # Compared as text, since an array does not have a truth value; arrays are refused later.
    is_usual = str(device) == "cpu" and all(value is None for value in given)
    if is_bundle(path):
        if not is_usual:
            raise ProgramError(
                "load: a bundle must be loaded without scope, fetch, device, lock and options, "
                "which are in it, got one of them"
            )
        return cast("LoadedProgram", LoadedBundle(path))
    place = find_place(path) if is_usual else None
    kept = open_cached(place, mapped=mmap, trainable=trainable) if place else None
    if place and kept:
        kept.keep = keeper(place, kept, None)
        return kept
    from opwright.program.files.opening import read_whole
    from opwright.program.transforms import freeze
    from opwright.program.variable import list_names

    saved, arrays = read_whole(path, mapped=mmap and scope is None)
    if scope is None:
        scope = Scope()
        for name, array in arrays.items():
            scope.var(name).borrow(array)
    else:
        scope.set_all(arrays)
    if not trainable:
        freeze(saved.program)
    loaded = LoadedProgram(
        saved.program,
        scope,
        saved.fetches if fetch is None else list_names(fetch, "load: fetch"),
        saved.feeds,
        notes=saved.notes,
        device=device,
        lock=lock,
        options=options,
    )
    if place:
        loaded.keep = keeper(place, loaded, saved.program.generation)
    return loaded


def keeper(place: Place, loaded: LoadedProgram, generation: int | None) -> Any:
    """Return a function that lowers, and stores plans while program and scope are unchanged."""
    structure = loaded.scope.structure_version

    def keep(source: CompiledSource, request: LowerRequest) -> LoweredPlan:
        from opwright.lowering import lower
        from opwright.run.plan_cache_writing import lower_and_keep

        is_same = generation is None or generation == loaded.program.generation
        if is_same and structure == loaded.scope.structure_version:
            return lower_and_keep(place, loaded, source, request)
        return lower(request)

    return keep


@suggest_arguments
def load_program(path: str | os.PathLike[str]) -> LoadedProgram:
    """Load a saved program without its parameters; the result cannot be called.

    Parameters
    ----------
    path : str or PathLike
        The folder that `save` has written, or the ``program.pb`` in it.

    Raises
    ------
    FileMissingError, FormatError, OperatorNotFoundError
        As for `load`.
    """
    from opwright.program.files.opening import read_alone

    saved = read_alone(path)
    return LoadedProgram(saved.program, None, saved.fetches, saved.feeds, notes=saved.notes)
