"""The registrations of one plugin after its hooks have run: plain data, to and from the index."""

from __future__ import annotations

from opwright.plugins.scan import Source
from opwright.records import NamedTuple
from opwright.registry import (
    AnnexRegistration,
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
    annexes: tuple[AnnexRegistration, ...] = ()
    files: tuple[WatchedFile, ...] = ()  # unchanged while it is valid; none: in this process only
    load_ms: float = 0.0  # how long importing its hook module and running its hooks took
    from_index: bool = False  # whether it was read from the index instead

    @property
    def package(self) -> Package:
        """The package of the plugin."""
        return self.source.package
