"""LoadedProgram: a program with its parameters, which is called, trained and saved; and `load`."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from opwright._runtime import Scope
from opwright.describe.arguments import suggest_arguments
from opwright.describe.dtypes import Array, dtype_to_numpy
from opwright.errors import AttributeTypeError, ProgramError
from opwright.program import Program
from opwright.program.files import read_alone, read_whole
from opwright.program.files.writing import save
from opwright.program.program import feed_names, persistable_variables
from opwright.registry import HOST_DEVICE
from opwright.run.bundles.opening import is_bundle, open_bundle
from opwright.run.network import Network
from opwright.run.report import ArraySpec, ProgramReport, Results

if TYPE_CHECKING:
    from opwright._runtime import CompiledNetwork, Scope, ScopeVariable
    from opwright.lowering.lock import Lock


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class LoadedProgram:
    """A program with its parameters: what `opwright.load` returns.

    It is called, from any number of threads, with arrays by position, by name, or in one dict for
    names that are no identifiers: ``loaded(x)``, ``loaded(img=x)``, ``loaded({"input.1": x})``.
    `feeds` lists what it takes. The results are computed for prediction: without updates, and with
    ``training`` false, see ``Program.clone(for_inference=True)``.

    Parameters
    ----------
    program : Program
    scope : Scope or None
        Holds the persistable variables; None for a program alone, which cannot be called.
    fetches : sequence of str
        The variables that a call returns.
    feeds : sequence of str, optional
        The names that the program is fed, in the order of positions; by default those that it
        reads before it writes them, in the order in which they were declared.
    notes : mapping, optional
        The argument `notes` of `save`.
    device, lock, options
        As of ``Network.compile``.

    Raises
    ------
    VariableNotFoundError
        If a feed or fetch is no variable of the program.

    Attributes
    ----------
    program : Program
        The whole program. What is appended to it is trained and saved; calls compute `fetches`.
    notes : mapping
    device : str
    choices : dict
        The arguments `lock` and `options`.
    program_feeds : tuple of str
        What the whole program is fed: labels, too, where it was saved for training.
    """

    @suggest_arguments
    def __init__(
        self,
        program: Program,
        scope: Scope | None,
        fetches: Sequence[str],
        feeds: Sequence[str] | None = None,
        *,
        notes: Mapping[str, Any] = _NOTHING,
        device: str = HOST_DEVICE,
        lock: Lock | str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.program = program
        self._scope = scope
        self.notes = notes
        self.program_feeds = tuple(feed_names(program) if feeds is None else feeds)
        self._names = tuple(fetches)
        for name in (*self.program_feeds, *self._names):
            program.global_block().get_var(name, "LoadedProgram")
        self.device = device
        self.choices: dict[str, Any] = {"lock": lock, "options": options}
        self._lock = threading.Lock()
        self._part: Program | None = None
        self._called: tuple[Network, CompiledNetwork] | None = None  # once it was called
        is_chosen = device != HOST_DEVICE or lock is not None or options is not None
        if is_chosen and self._names and scope is not None:
            self._compile()  # what is wrong with them, is said now

    @property
    def scope(self) -> Scope:
        """Holds the persistable variables; ProgramError for a program alone."""
        if self._scope is None:
            raise ProgramError(
                "LoadedProgram: it must have its parameters to be called, trained or saved, got "
                "the program alone; load it by opwright.load(folder)"
            )
        return self._scope

    @property
    def feeds(self) -> tuple[ArraySpec, ...]:
        """What a call takes, in the order of positions; of a program without results, all feeds."""
        return self._describe(self._list_feeds() if self._names else self.program_feeds)

    @property
    def fetches(self) -> tuple[ArraySpec, ...]:
        """What a call returns, in order."""
        return self._describe(self._names)

    def __repr__(self) -> str:
        feeds, fetches = ", ".join(self.program_feeds), ", ".join(self._names)
        return f"LoadedProgram({feeds} -> {fetches or 'nothing'}, on {self.device})"

    def __call__(self, /, *args: Any, **feeds: Any) -> Results:
        """Return the results for arrays.

        Parameters
        ----------
        *args : array
            By position, in the order of `feeds`; or one dict of them by name.
        **feeds : array
            By name; and, as for what `Network.compile` returns, `out` and `fetch_as`.

        Raises
        ------
        FeedError
            For a missing or unknown feed, or one of a wrong shape.
        ProgramError
            For a program without results, and for one of `load_program`, without parameters.
        """
        _, compiled = self._called or self._compile()
        results = Results(compiled(*args, **feeds))
        results.names = self._names
        return results

    def parameters(self) -> dict[str, Array]:
        """Return a copy of each persistable variable that a call reads, by name.

        These are parameters and statistics. The states of an optimizer are in `scope` alone.
        """
        return {variable.name: variable.numpy() for variable in self._read_variables()}

    @suggest_arguments
    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write it to a folder with the values that it has now: `opwright.save`.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        **options
            The arguments `keep` and `notes` of `opwright.save`.
        """
        options.setdefault("notes", dict(self.notes))
        save(path, self.program, self.scope, self._names, **options)

    @suggest_arguments
    def bundle(
        self,
        path: str | os.PathLike[str],
        feeds: Mapping[str, Sequence[int | None]] | None = None,
        batch: tuple[int, int] | None = None,
    ) -> None:
        """Write what a call computes to a file that runs without Python; see `Network.bundle`.

        Parameters
        ----------
        path, feeds, batch
            As of `Network.bundle`.
        """
        network, _ = self._called or self._compile()
        network.bundle(path, feeds, batch)

    def report(self) -> ProgramReport:
        """Return what it consists of and, once it was called, which kernels compute it."""
        report = ProgramReport(
            self.feeds,
            self.fetches,
            Counter(op.type for op in self._find_part().global_block().ops),
            {variable.name: _size_bytes(variable) for variable in self._read_variables()},
            self.device,
        )
        if self._called is None or not self._called[1].plans:
            return report
        network = self._called[0]
        return report._replace(kernels=network.lock().kernels, placement=network.placement())

    def _read_variables(self) -> list[ScopeVariable]:
        scope = self.scope
        return [scope.var(variable.name) for variable in persistable_variables(self._find_part())]

    def _find_part(self) -> Program:
        """Return what a call computes, all of a program without results."""
        with self._lock:
            if self._part is None:
                self._part = self.program
                if self._names:
                    self._part = self.program.clone(for_inference=True).prune(self._names)
            return self._part

    def _list_feeds(self) -> list[str]:
        """Return the feeds that a call reads."""
        read = frozenset(feed_names(self._find_part()))
        return [name for name in self.program_feeds if name in read]

    def _compile(self) -> tuple[Network, CompiledNetwork]:
        scope = self.scope
        if not self._names:
            raise ProgramError(
                "LoadedProgram: it must have results to be called, got a program that was saved "
                "without any; save it with fetches: opwright.save(folder, program, scope, [out])"
            )
        network, feeds = Network(self._find_part().global_block()), self._list_feeds()
        with self._lock:
            if self._called is None:
                compiled = network.compile(feeds, self._names, self.device, scope, **self.choices)
                self._called = network, compiled
            return self._called

    def _describe(self, names: Iterable[str]) -> tuple[ArraySpec, ...]:
        variables = [self.program.global_block().var(name) for name in names]
        return tuple(ArraySpec(v.name, _open_shape(v.shape), v.dtype) for v in variables)


class LoadedBundle(LoadedProgram):
    """What `load` returns for a bundle: it is called as a `LoadedProgram`, and has no program.

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
        """What a call takes, in the order of positions."""
        return self._source.feeds

    @property
    def fetches(self) -> tuple[ArraySpec, ...]:
        """What a call returns, in order."""
        return self._source.fetches

    def bundle(self, *args: object, **options: object) -> None:
        """Raise ProgramError, as `scope` does."""
        _ = self.scope

    def report(self) -> ProgramReport:
        """Raise ProgramError, as `scope` does."""
        _ = self.scope
        return super().report()


def _size_bytes(variable: ScopeVariable) -> int:
    if variable.shape is None or variable.dtype is None:
        return 0
    return math.prod(variable.shape) * dtype_to_numpy(variable.dtype).itemsize


def _open_shape(shape: tuple[int, ...] | None) -> tuple[int | None, ...] | None:
    return None if shape is None else tuple(None if dim < 0 else dim for dim in shape)


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
        The folder; or one of those in its ``generations``; or any with ``program.pb`` and
        ``params.safetensors`` of one call of `save` in it. Or a file that `Network.bundle` wrote:
        its plans run without being lowered. Such a file is code, see ``opwright/run.h``.
    scope : Scope, optional
        Where the persistable variables are set, and are when the result is called. By default the
        result has a scope of its own: another program with the same names may be loaded.
    mmap : bool
        Whether parameters may lie in a map of their file: they are read from the disk when they are
        used first, and processes share them. That is done for the scope of the result, and for
        files of 1 MiB and more in ``generations``, which `save` never writes into, on a local
        disk. The file may then be replaced, renamed and removed, but not be written into or cut
        off: that changes the parameters, or ends the process. What is written into a parameter
        stays in memory. False reads everything at once.
    trainable : bool
        False freezes the parameters: none of them gets a gradient.
    device, lock, options
        As of ``Network.compile``, for calls of the result.

    Returns
    -------
    LoadedProgram
        The program with what it is fed and its results; it is called, trained, saved.

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
