"""The registrations of one plugin after its hooks have run: plain data, to and from the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from opwright.plugins.scan import Source
from opwright.registry import (
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    Package,
    PassRegistration,
)


class WatchedFile(NamedTuple):
    """A file that a plugin's registrations depend on, as it was when the hooks ran."""

    path: str
    mtime_ns: int
    size_bytes: int


class PluginRecord(NamedTuple):
    """One plugin and everything that it registers; nothing of it has been imported.

    Registrations are in the order of the hooks of the plugin.
    """

    source: Source  # its entry point
    ops: tuple[OpRegistration, ...] = ()
    kernels: tuple[KernelRegistration, ...] = ()
    devices: tuple[DeviceRegistration, ...] = ()
    passes: tuple[PassRegistration, ...] = ()
    options: tuple[OptionRegistration, ...] = ()
    files: tuple[WatchedFile, ...] = ()  # unchanged while it is valid; none: in this process only
    load_ms: float = 0.0  # how long importing its hook module and running its hooks took
    from_index: bool = False  # whether it was read from the index instead

    @property
    def package(self) -> Package:
        """The package of the plugin."""
        return package_of(self.source)

    def to_plain(self) -> tuple[Any, ...]:
        """Return what `from_plain` reads: tuples, strings and numbers, no named tuples."""
        source, *groups, load_ms, _ = self
        return (tuple(source), *(tuple(map(tuple, group)) for group in groups), load_ms)

    @staticmethod
    def from_plain(data: Sequence[Any]) -> PluginRecord:
        """Return the record that `to_plain` wrote."""
        source, ops, kernels, devices, passes, options, files, load_ms = data
        return PluginRecord(
            Source(*source),
            tuple(map(OpRegistration._make, ops)),
            tuple(map(KernelRegistration._make, kernels)),
            tuple(DeviceRegistration(*item) for item in devices),
            tuple(PassRegistration(*item) for item in passes),
            tuple(OptionRegistration(*item) for item in options),
            tuple(WatchedFile(*item) for item in files),
            float(load_ms),
            from_index=True,
        )


def package_of(source: Source) -> Package:
    """Return the package that a source belongs to."""
    return Package(source.name, source.distribution, source.version)
