"""Opens bundles: their plans are read from the file instead of being lowered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from opwright import _runtime
from opwright.describe.dtypes import dtype_to_code
from opwright.device.feeds import FeedSpec, check_array, check_feed_names
from opwright.device.intake import read_feed
from opwright.device.opening import open_device
from opwright.errors import FeedError
from opwright.plugins.context import current_context
from opwright.plugins.threads import get_num_threads
from opwright.program.files.disk import open_regular
from opwright.registry import HOST
from opwright.run.bundles.tokens import MAGIC
from opwright.run.report import ArraySpec

Ports = Sequence[tuple[str, str, tuple[tuple[int, int], ...]]]


class BundleSource:
    """Finds the plans of one bundle for the runtime.

    Attributes
    ----------
    bundle : _runtime.Bundle
    feeds, fetches : tuple of ArraySpec
        What a call takes and returns; dimensions that depend on the batch are None.
    """

    def __init__(self, bundle: _runtime.Bundle) -> None:
        self.bundle = bundle
        self.feeds, self.fetches = _specs_of(bundle.inputs), _specs_of(bundle.outputs)
        self._read = [
            FeedSpec(spec.name, tuple(-1 if d is None else d for d in spec.shape or ()), spec.dtype)
            for spec in self.feeds
        ]
        self._context = current_context()
        self._device = open_device(HOST, self._context)

    def callable(self, label: str) -> _runtime.CompiledNetwork:
        """Return the callable; `label` names it in `opwright.memory`."""
        names, scope = [spec.name for spec in self.feeds], self.bundle.new_scope()
        epoch = self._context.epoch
        return _runtime.CompiledNetwork(scope, names, self, self._device, epoch, label)

    def refuse_names(self, n_positional: int, names: tuple[str, ...]) -> None:
        """Raise FeedError for names of a call that are no feeds."""
        check_feed_names(names, [spec.name for spec in self.feeds], n_positional)

    def read_feed(self, i: int, value: Any) -> Any:
        """Convert a value of feed `i` that the runtime cannot read itself."""
        spec = self._read[i]
        return read_feed(value, spec.label, spec.dtype, self._device, self._context)

    def __call__(self, arrays: tuple[Any, ...]) -> _runtime.Plan:
        """Return the plan for feeds that are ready, in order; FeedError where there is none."""
        metas = [check_array(array, spec) for array, spec in zip(arrays, self._read, strict=True)]
        if any(isinstance(array, _runtime.Tensor) for array in arrays):
            raise FeedError("feed: a bundle must be fed arrays on the host, got a tensor")
        coded = [(meta.shape, dtype_to_code(meta.dtype)) for meta in metas]
        return self.bundle.plan_for(coded, get_num_threads())


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file that begins as a bundle."""
    try:
        with open_regular(path, follow=True) as handle:
            return os.pread(handle, len(MAGIC), 0) == MAGIC
    except (OSError, TypeError, ValueError):  # the loader of folders reports more
        return False


def open_bundle(path: str | os.PathLike[str], folders: Sequence[str] = ()) -> BundleSource:
    """Open a bundle; libraries are also looked for in the folders of installed plugins.

    FormatError for a file that is damaged or foreign; PluginError for a library that is missing, of
    another version, or cannot be opened.
    """
    installed = _runtime.__file__.rsplit("/", 2)[0]  # the packages are beside ours
    return BundleSource(_runtime.Bundle(os.fspath(path), [*folders, installed]))


def _specs_of(ports: Ports) -> tuple[ArraySpec, ...]:
    return tuple(
        ArraySpec(name, tuple(None if step else base for step, base in dims), dtype)
        for name, dtype, dims in ports
    )
