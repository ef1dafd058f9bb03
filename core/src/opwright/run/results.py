"""Arguments and results of loaded programs and bundles, without heavy imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opwright._runtime import CompiledNetwork
from opwright.errors import VariableNotFoundError
from opwright.records import NamedTuple


class ArraySpec(NamedTuple):
    """An argument or result of a call.

    Attributes
    ----------
    name : str
    shape : tuple of int or None, or None
        None for a dimension that may change; None instead of a tuple if even the rank is unknown.
    dtype : str
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str

    def __str__(self) -> str:
        dims = ["?" if dim is None else str(dim) for dim in self.shape or ()]
        return f"{self.name} {self.dtype}[{'...' if self.shape is None else ', '.join(dims)}]"


class Results(tuple[Any, ...]):
    """The results of a call, in order; ``results["prob"]`` selects a result by name.

    Attributes
    ----------
    names : tuple of str
    """

    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            from opwright.messages.names import hint

            raise VariableNotFoundError(
                f"results: no such result, got {key!r}{hint(key, self.names, 'results')}"
            )
        return super().__getitem__(self.names.index(key))


class Called:
    """A callable that takes feeds by position or by name, and returns `Results`.

    Attributes
    ----------
    behind : callable or None
        Called after the next result.
    """

    _names: tuple[str, ...]
    behind: Callable[[], None] | None = None

    def __call__(self, /, *args: Any, **feeds: Any) -> Results:
        """Return the results for arrays.

        Parameters
        ----------
        *args : array
            By position, in the order of `feeds`, or a single dict from names to arrays.
        **feeds : array
            By name; also `out` and `fetch_as`, as for the result of `Network.compile`.

        Raises
        ------
        FeedError
            For a missing or unknown feed, or a feed with a wrong shape.
        ProgramError
            For a program without results, or without parameters, as returned by `load_program`.
        """
        results = Results(self._callable()(*args, **feeds))
        results.names = self._names
        behind = self.behind  # another thread may remove it
        if behind is not None:
            behind()
        return results

    def _callable(self) -> CompiledNetwork:
        raise NotImplementedError
