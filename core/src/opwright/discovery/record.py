"""What is known of one plugin once its hooks have run: plain data, to and from the index."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from opwright.discovery.scan import Source
from opwright.registry import (
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    Package,
    PassRegistration,
)

_DTYPES: Final = KernelRegistration._fields.index("dtypes")
_MAY_REUSE: Final = KernelRegistration._fields.index("may_reuse")


class WatchedFile(NamedTuple):
    """A file that a plugin's hooks were read from, as it was then.

    Attributes
    ----------
    path : str
    mtime_ns : int
        Time of change.
    size_bytes : int
    """

    path: str
    mtime_ns: int
    size_bytes: int


class PluginRecord(NamedTuple):
    """One plugin and everything that it registers; nothing of it has been imported.

    Attributes
    ----------
    source : Source
        Where it was found.
    ops, kernels, devices, passes : tuple
        Its registrations, in the order of its hooks.
    files : tuple of WatchedFile
        What must be unchanged for the record to hold; empty: it holds for this process only.
    load_ms : float
        How long importing its hook module and running its hooks took.
    from_index : bool
        Whether it was read from the index instead.
    """

    source: Source
    ops: tuple[OpRegistration, ...] = ()
    kernels: tuple[KernelRegistration, ...] = ()
    devices: tuple[DeviceRegistration, ...] = ()
    passes: tuple[PassRegistration, ...] = ()
    files: tuple[WatchedFile, ...] = ()
    load_ms: float = 0.0
    from_index: bool = False

    @property
    def package(self) -> Package:
        """Who this is."""
        return package_of(self.source)

    def to_json(self) -> list[Any]:
        """Return what `from_json` reads; named tuples become lists."""
        return list(self[:-1])

    @staticmethod
    def from_json(data: list[Any]) -> PluginRecord:
        """Return a record that `to_json` wrote; `data` is used up."""
        source, ops, kernels, devices, passes, files, load_ms = data
        return PluginRecord(
            Source(*source),
            tuple(map(OpRegistration._make, ops)),
            tuple(map(_read_kernel, kernels)),
            tuple(DeviceRegistration(*item) for item in devices),
            tuple(PassRegistration(*item) for item in passes),
            tuple(WatchedFile(*item) for item in files),
            float(load_ms),
            from_index=True,
        )


def package_of(source: Source) -> Package:
    """Return the package that a source belongs to."""
    return Package(source.name, source.distribution, source.version)


def _read_kernel(item: list[Any]) -> KernelRegistration:
    # In place, and by position: thousands of these are read by every process.
    item[_DTYPES] = tuple(item[_DTYPES])
    item[_MAY_REUSE] = tuple(map(tuple, item[_MAY_REUSE]))
    return KernelRegistration._make(item)
