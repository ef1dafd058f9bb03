"""Programs that are translated from files of other formats and saved for later processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from opwright.cache_folder import find_cache_folder
from opwright.disk import digest_of
from opwright.errors import FormatError
from opwright.messages.arguments import suggest_arguments
from opwright.run.loaded import LoadedProgram
from opwright.run.plan_cache import Place, describe_installed, may_keep, read_record

if TYPE_CHECKING:  # they lower
    from opwright.lowering import LoweredPlan, LowerRequest
    from opwright.run.compiled import CompiledSource
    from opwright.run.plan_cache_writing import Keep


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

    The program is saved in the folder ``models`` of the cache, which only this user can enter,
    under a digest of the content and of the installed packages.

    Parameters
    ----------
    content : bytes-like
        The content of the file.
    translate : callable
        Returns the program for `device` and `options`.
    choices : str
        A string that contains all other inputs of the translation.
    is_whole : callable
        Whether the result depends on nothing else; called once, before anything is saved.
    device, options
        As for `load`.

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
        from opwright.run.loading import load

        with suppress(FormatError, OSError):  # it is damaged and will be rewritten
            return load(folder, device=device, options=options)
    loaded = translate()
    if is_whole():
        keeper = _Keeper(folder, loaded)
        loaded.behind = keeper.start
        loaded.keep = keeper.lower if device == "cpu" and options is None else None
    return loaded


class _Keeper:
    """Saves a translated program and its plans, after the results of calls are returned.

    Saves run in threads, one at a time. The process waits for them before it exits, but calls
    return without waiting. Other processes do not find files that changed meanwhile.
    """

    def __init__(self, folder: str, loaded: LoadedProgram) -> None:
        self._folder, self._loaded = folder, loaded
        self._state = self._see()
        self._place: Place | None = None
        self._plans: list[Keep] = []
        self._starting = Lock()
        self._thread: Thread | None = None
        self._is_over = False

    def _see(self) -> tuple[object, ...]:
        from opwright.program.program import persistable_variables

        program, scope = self._loaded.program, self._loaded.scope
        found = [scope.find_var(v.name) for v in persistable_variables(program)]
        versions = [None if variable is None else variable.version for variable in found]
        return program.generation, scope.structure_version, versions

    def _is_same(self) -> bool:
        return self._state == self._see()

    def lower(self, source: CompiledSource, request: LowerRequest) -> LoweredPlan:
        """Return the plan of a request; the plan is saved after its result is returned."""
        from opwright.lowering import lower
        from opwright.run.plan_cache_writing import lower_to_keep

        if self._is_over or not self._is_same():
            return lower(request)
        lowered, keep = lower_to_keep(source, request)
        if keep is not None:
            self._plans.append(keep)
            self._loaded.behind = self.start
        return lowered

    def start(self) -> None:
        """Write in a thread of this Context; if no thread can be started, nothing is saved.

        If another call is in here (after a fork, perhaps forever), a later result tries again.
        """
        if not self._starting.acquire(blocking=False):
            return
        try:
            self._loaded.behind = None
            run = copy_context().run
            thread = Thread(target=run, args=(self._write, self._thread), name="opwright-keep")
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
        finally:
            self._starting.release()

    def _write(self, previous: Thread | None) -> None:
        from opwright.run.plan_cache_writing import keep_model

        if previous is not None:
            previous.join()
        try:
            if self._place is None and self._is_same():
                self._place = keep_model(self._folder, self._loaded, self._is_same)
            while self._plans and self._place is not None and self._is_same():
                self._plans.pop()(self._place, self._loaded)
            self._is_over = self._place is None or not self._is_same()
        except RuntimeError:  # the program was changed while it was read
            if self._is_same():
                raise
            self._is_over = True
        if self._is_over:
            self._plans.clear()


def _is_private(folder: str) -> bool:
    """Whether only this user may enter a folder."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
