"""`load`: returns a saved program with its parameters, which can be called from many threads."""

from __future__ import annotations

import os
import threading
from typing import Any

from opwright._runtime import CompiledNetwork, Scope
from opwright.describe.arguments import suggest_arguments
from opwright.errors import ProgramError
from opwright.program import default_scope
from opwright.program.files import LoadedProgram
from opwright.program.files import load as load_files
from opwright.program.files.writing import feed_names, persistable_variables
from opwright.run.network import Network


@suggest_arguments
def load(path: str | os.PathLike[str], scope: Scope | None = None) -> LoadedProgram:
    """Return the program of a folder that `save` has written, and set its variables in a scope.

    No code in the files is run. Everything is checked, and its memory reserved, before the scope
    changes. While other processes save to the folder, the result still comes from one call of
    `save`.

    The result can be called: ``load(folder)(img=images)`` computes the results of the program.

    Parameters
    ----------
    path : str or PathLike
        The folder; or one of those in its ``generations``; or any with ``program.pb`` and
        ``params.safetensors`` of one call of `save` in it.
    scope : Scope, optional
        Where the persistable variables are set, and are when the result is called. By default they
        are set in the default scope, and the result has copies of its own: another program with the
        same names may be loaded.

    Returns
    -------
    LoadedProgram
        The program, what it is fed, and its results.

    Raises
    ------
    FileMissingError
        If the folder has no saved program.
    FormatError
        If a file is truncated, foreign, damaged, too large or of a newer format; if the parameters
        are not those of the program, with the names that are missing, extra or of a wrong shape.
    OperatorNotFoundError
        If an operator is unknown; the message names the package to install.
    """
    target = Scope() if scope is None else scope
    loaded = load_files(path, target)
    if scope is None:
        names = [variable.name for variable in persistable_variables(loaded.program)]
        default_scope().set_all({name: target.var(name).numpy() for name in names})
    loaded.compute = _Inference(loaded, target)
    return loaded


class _Inference:
    """Computes the results of a saved program for prediction; compiled at its first call."""

    def __init__(self, loaded: LoadedProgram, scope: Scope) -> None:
        self._program, self._fetches, self._scope = loaded.program, loaded.fetches, scope
        self._lock = threading.Lock()
        self._compiled: CompiledNetwork | None = None

    def __call__(self, feeds: dict[str, Any]) -> list[Any]:
        with self._lock:
            if self._compiled is None:
                self._compiled = self._compile()
        return self._compiled(**feeds)

    def _compile(self) -> CompiledNetwork:
        if not self._fetches:
            raise ProgramError(
                "LoadedProgram: it must have results to be called, got a program that was saved "
                "without any; save it with fetches: opwright.save(folder, program, scope, [out])"
            )
        program = self._program.clone(for_inference=True).prune(self._fetches)
        network, feeds = Network(program.global_block()), feed_names(program)
        return network.compile(feed=feeds, fetch=self._fetches, scope=self._scope)
