"""Opens bundles; their plans are read from the file instead of being lowered."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from opwright import _runtime
from opwright.context.threads import get_num_threads
from opwright.disk import open_regular
from opwright.errors import PluginError, ProgramError
from opwright.run.results import ArraySpec, Called

MAGIC: Final = b"\x89OWB\r\n\x1a\n"
"""The first bytes of a bundle."""

_OF_PROGRAMS: Final = frozenset(
    {"bundle", "choices", "notes", "parameters", "program", "report", "save", "scope"}
)


class PlanSource:
    """Finds the plans of a compiled network, which were lowered earlier, for the runtime.

    Parameters
    ----------
    feeds : sequence of ArraySpec
    find_plan : callable
        Returns the plan for a tuple of arrays, one for each feed.
    """

    def __init__(
        self, feeds: Sequence[ArraySpec], find_plan: Callable[[tuple[Any, ...]], Any]
    ) -> None:
        self._feeds, self._find_plan = feeds, find_plan

    def refuse_names(self, n_positional: int, names: tuple[str, ...]) -> None:
        """Raise FeedError if a call names arguments that are not feeds."""
        from opwright.run.feeds import check_feed_names

        check_feed_names(names, [spec.name for spec in self._feeds], n_positional)

    def read_feed(self, i: int, value: Any) -> Any:
        """Convert a value of feed `i` that the runtime cannot read itself."""
        from opwright.context.context import current_context
        from opwright.device.intake import read_feed
        from opwright.device.opening import open_device
        from opwright.registry import HOST

        context, spec = current_context(), self._feeds[i]
        label = f"feed {spec.name!r}"
        return read_feed(value, label, spec.dtype, open_device(HOST, context), context)

    def __call__(self, arrays: tuple[Any, ...]) -> Any:
        """Return the plan for converted feeds, in order; FeedError if the bundle lacks one."""
        return self._find_plan(arrays)


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file that begins as a bundle."""
    try:
        with open_regular(path, follow=True) as handle:
            return os.pread(handle, len(MAGIC), 0) == MAGIC
    except (OSError, TypeError, ValueError):  # the loader of folders reports more
        return False


def open_bundle_file(path: str, folders: Sequence[str]) -> _runtime.Bundle:
    """Open a bundle, its libraries, and the libraries that they link.

    Raises FormatError for a damaged or foreign file, and PluginError if a library cannot be opened.
    """
    try:
        return _open_bytes(path, folders)
    except PluginError:
        from opwright.context.context import current_context
        from opwright.targets.opening import open_linked

        return open_linked(
            lambda: _open_bytes(path, folders),
            lambda: [record.source.distribution for record in current_context().records],
        )


def _open_bytes(path: str, folders: Sequence[str]) -> _runtime.Bundle:
    """Open libraries by the bytes of their names, since names need not be UTF-8."""
    return _runtime.Bundle(os.fsencode(path), [os.fsencode(folder) for folder in folders])


class LoadedBundle(Called):
    """A loaded bundle; it is called like a `LoadedProgram`, but does not have a program.

    Parameters
    ----------
    path : str or PathLike
        The file.
    folders : sequence of str
        Folders to search for libraries before the folders of installed plugins.

    Raises
    ------
    FormatError
        For a file that is damaged or foreign.
    PluginError
        For a library that is missing, of another version, or cannot be opened.

    Attributes
    ----------
    batch : (int, int)
        The minimum and maximum size of dimensions that are None in `feeds`.
    feeds, fetches : tuple of ArraySpec
        The arguments and results of a call, in order.
    """

    def __init__(self, path: str | os.PathLike[str], folders: Sequence[str] = ()) -> None:
        installed = _runtime.__file__.rsplit("/", 2)[0]  # the folder of installed packages
        bundle = open_bundle_file(os.fspath(path), [*folders, installed])
        self.batch = bundle.batch
        self.feeds, self.fetches = _specs_of(bundle.inputs), _specs_of(bundle.outputs)
        self.program_feeds = tuple(spec.name for spec in self.feeds)
        self._names = tuple(spec.name for spec in self.fetches)
        source = PlanSource(self.feeds, lambda feeds: bundle.plan_for(feeds, get_num_threads()))
        shown = os.fsencode(path).decode(errors="replace")
        self._plans = _runtime.CompiledNetwork(
            bundle.new_scope(), self.program_feeds, source, label=f"bundle {shown}"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PROGRAMS:
            raise ProgramError(
                f"LoadedProgram: a bundle contains only plans, got an access to {name}; load the "
                "folder that opwright.save has written"
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def _callable(self) -> _runtime.CompiledNetwork:
        return self._plans


def _specs_of(
    ports: Sequence[tuple[str, str, tuple[tuple[int, int], ...]]],
) -> tuple[ArraySpec, ...]:
    return tuple(
        ArraySpec(name, tuple(None if step else base for step, base in dims), dtype)
        for name, dtype, dims in ports
    )
