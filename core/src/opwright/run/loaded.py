"""`LoadedProgram`, a program with its parameters that can be called, trained and saved."""

from __future__ import annotations

import math
import os
from _thread import RLock  # threading takes 2 ms to import
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from opwright.errors import ProgramError
from opwright.messages.arguments import suggest_arguments
from opwright.run.results import ArraySpec, Called

if TYPE_CHECKING:  # stored plans run without most of these
    from opwright._runtime import CompiledNetwork, Scope, ScopeVariable
    from opwright.describe.dtypes import Array
    from opwright.lowering import LoweredPlan, LowerRequest
    from opwright.lowering.lock import Lock
    from opwright.program import Program
    from opwright.run.compiled import CompiledSource
    from opwright.run.network import Network
    from opwright.run.report import ProgramReport


_HOST: Final = "cpu"
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class LoadedProgram(Called):
    """A program with its parameters, the result of `opwright.load`.

    The program can be called from any number of threads, with arrays by position, by name, or in
    one dict for names that are not identifiers, as in ``loaded(x)``, ``loaded(img=x)``,
    ``loaded({"input.1": x})``. `feeds` lists its arguments. Results are computed for prediction,
    without updates and with ``training`` false, see ``Program.clone(for_inference=True)``.

    Parameters
    ----------
    program : Program
    scope : Scope or None
        Contains the persistable variables; None for a program alone, which cannot be called.
    fetches : sequence of str
        The variables that a call returns.
    feeds : sequence of str, optional
        The feed names, in positional order; by default the variables that the program reads before
        it writes them, in the order of declaration.
    notes : mapping, optional
        The argument `notes` of `save`.
    device, lock, options
        As for ``Network.compile``.

    Raises
    ------
    VariableNotFoundError
        If a feed or fetch is not a variable of the program.

    Attributes
    ----------
    program : Program
        The complete program. Appended operators are trained and saved; calls compute `fetches`.
    notes : mapping
    device : str
    choices : dict
        The arguments `lock` and `options`.
    keep : callable or None
        A function that lowers a request from a source and stores the plan.
    program_feeds : tuple of str
        The feeds of the complete program, which include labels if it was saved for training.
    """

    keep: Callable[[CompiledSource, LowerRequest], LoweredPlan] | None = None
    _part: Program | None = None
    _called: tuple[Network, CompiledNetwork] | None = None  # after the first call

    @suggest_arguments
    def __init__(
        self,
        program: Program,
        scope: Scope | None,
        fetches: Sequence[str],
        feeds: Sequence[str] | None = None,
        *,
        notes: Mapping[str, Any] = _NOTHING,
        device: str = _HOST,
        lock: Lock | str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        from opwright.program.program import feed_names

        self.program = program
        self._scope = scope
        self.notes = notes
        self.program_feeds = tuple(feed_names(program) if feeds is None else feeds)
        self._names = tuple(fetches)
        for name in (*self.program_feeds, *self._names):
            program.global_block().get_var(name, "LoadedProgram")
        self.device = device
        self.choices: dict[str, Any] = {"lock": lock, "options": options}
        self._lock = RLock()
        # Compared as text, since an array does not have a truth value; arrays are refused later.
        is_chosen = str(device) != _HOST or lock is not None or options is not None
        if is_chosen and self._names and scope is not None:
            self._compile()  # report errors now

    @property
    def scope(self) -> Scope:
        """The scope with the persistable variables; ProgramError if only the program was loaded."""
        if self._scope is None:
            raise ProgramError(
                "LoadedProgram: it must have its parameters to be called, trained or saved, got "
                "the program alone; load it with opwright.load(folder)"
            )
        return self._scope

    @property
    def feeds(self) -> tuple[ArraySpec, ...]:
        """The arguments of a call, in order, or all feeds for a program without results."""
        return self._describe(self._list_feeds() if self._names else self.program_feeds)

    @property
    def fetches(self) -> tuple[ArraySpec, ...]:
        """The results of a call, in order."""
        return self._describe(self._names)

    def __repr__(self) -> str:
        feeds, fetches = ", ".join(self.program_feeds), ", ".join(self._names)
        return f"LoadedProgram({feeds} -> {fetches or 'nothing'}, on {self.device})"

    def parameters(self) -> dict[str, Array]:
        """Return a copy of each persistable variable that a call reads, by name.

        The variables are parameters and statistics. Optimizer states are only in `scope`.
        """
        return {variable.name: variable.numpy() for variable in self._read_variables()}

    @suggest_arguments
    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the program with its current values to a folder, as `opwright.save` does.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        **options
            The arguments `keep` and `notes` of `opwright.save`.
        """
        from opwright.program.files.writing import save

        options.setdefault("notes", dict(self.notes))
        save(path, self.program, self.scope, self._names, **options)

    @suggest_arguments
    def bundle(
        self,
        path: str | os.PathLike[str],
        feeds: Mapping[str, Sequence[int | None]] | None = None,
        batch: tuple[int, int] | None = None,
    ) -> None:
        """Write the plans of a call to a file, for use without Python or with `opwright.load`.

        The file has plans for all batches of a range, and the current values of the scope. The file
        contains the names and versions of the kernel libraries. See ``opwright/run.h``.

        Parameters
        ----------
        path : str or PathLike
            The file, such as ``model.owb``; an existing file is replaced.
        feeds : mapping of str to sequence of int or None, optional
            Shapes of feeds, with None for the batch, as in ``{"x": [None, 3, 224, 224]}``. By
            default the shapes of the variables, where an unknown first dimension is the batch.
        batch : (int, int), optional
            The minimum and maximum batch, needed if a shape has a batch. For a large network only
            some batches are tried; between these, lowering might choose different kernels.

        Raises
        ------
        ProgramError
            For a device other than the CPU, an operator with a kernel in Python, or an output whose
            shape depends on elements.
        FeedError
            If `feeds` or `batch` do not fit.
        OSError
            If the file cannot be written; an existing file is unchanged.
        """
        network, _ = self._called or self._compile()
        network.bundle(path, feeds, batch)

    def report(self) -> ProgramReport:
        """Return the feeds, results and parameters and, after the first call, the kernels."""
        from opwright.run.report import ProgramReport

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
        from opwright.program.program import persistable_variables

        scope = self.scope
        return [scope.var(variable.name) for variable in persistable_variables(self._find_part())]

    def _find_part(self) -> Program:
        """Return the operators of a call, or all operators for a program without results."""
        with self._lock:
            if self._part is None:
                part = self.program
                if self._names:
                    from opwright.program.transforms import prune_program

                    part = part.clone(for_inference=True)
                    prune_program(part, self._names)
                self._part = part
            return self._part

    def _list_feeds(self) -> list[str]:
        """Return the feeds that a call reads."""
        from opwright.program.program import feed_names

        read = frozenset(feed_names(self._find_part()))
        return [name for name in self.program_feeds if name in read]

    def _callable(self) -> CompiledNetwork:
        return (self._called or self._compile())[1]

    def _compile(self) -> tuple[Network, CompiledNetwork]:
        from opwright.run.network import Network

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
                if self.keep is not None:
                    compiled.source.make_plan = partial(self.keep, compiled.source)
                self._called = network, compiled
            return self._called

    def _describe(self, names: Iterable[str]) -> tuple[ArraySpec, ...]:
        variables = [self.program.global_block().var(name) for name in names]
        return tuple(
            ArraySpec(v.name, v.shape and tuple(None if d < 0 else d for d in v.shape), v.dtype)
            for v in variables
        )


def _size_bytes(variable: ScopeVariable) -> int:
    if variable.shape is None or variable.dtype is None:
        return 0
    from opwright.describe.dtypes import dtype_to_numpy

    return math.prod(variable.shape) * dtype_to_numpy(variable.dtype).itemsize
