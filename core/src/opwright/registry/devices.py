"""The devices that plugins provide, by name, imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright.describe.names import hint
from opwright.errors import DeviceNotFoundError, PluginError
from opwright.registry import rules
from opwright.registry.advice import advise_plugin
from opwright.registry.device_name import HOST_DEVICE
from opwright.registry.named import NamedRegistry
from opwright.registry.package import Package
from opwright.registry.registrations import DeviceRegistration, make_device
from opwright.registry.target import load_target

if TYPE_CHECKING:
    from opwright.registry.import_notes import ImportNotes
    from opwright.registry.native_library import LibraryTable


class DeviceEntry:
    """One registered device.

    Attributes
    ----------
    name : str
        Device type: ``"cuda"``.
    target : str or object
        ``"module:attribute"``, the path of a library in the package, or the object itself.
    arrays : str, object or None
        Makes arrays for Python kernels on a device in a library: the object, or its target.
    package : Package
        The package that provides it.
    """

    __slots__ = ("__weakref__", "_loaded", "_notes", "arrays", "name", "package", "target")

    def __init__(
        self, registration: DeviceRegistration, package: Package, notes: ImportNotes | None = None
    ) -> None:
        self.name, self.target, arrays = registration
        self.arrays: object = arrays or None
        self.package = package
        self._notes = notes
        self._loaded: object = None

    def __repr__(self) -> str:
        return f"<device {self.name!r} of {self.package.label}>"

    @property
    def is_native(self) -> bool:
        """Whether the device is compiled: what its target names is a library."""
        return rules.is_library(self.target)

    def load(self, libraries: LibraryTable) -> object:
        """Return the object that the plugin named, imported once, or the library's `NativeDevice`.

        Raises
        ------
        PluginError
            Where it cannot be imported, or its library cannot be used.
        """
        if self._loaded is None:
            loaded = self.target
            if self.is_native:
                library = libraries.load(str(loaded), self.name, self.package)
                loaded = library.find_device(self.name)
            elif isinstance(loaded, str):
                loaded = load_target(loaded, self.name, self.package, self._notes)
            self._loaded = loaded
        return self._loaded

    def load_arrays(self) -> object:
        """Return the object that makes arrays for Python kernels, imported once, or None.

        Raises
        ------
        PluginError
            Where it cannot be imported, or has not all methods.
        """
        if isinstance(self.arrays, str):
            self.arrays = load_target(self.arrays, self.name, self.package, self._notes)
        if self.arrays is None:
            return None
        _check_methods(self, "view", "stream")
        if hasattr(self.arrays, "interface"):
            _check_methods(self, "locate", "describe")
        return self.arrays


def _check_methods(entry: DeviceEntry, first: str, second: str) -> None:
    for method in (first, second):
        if not hasattr(entry.arrays, method):
            raise PluginError(
                f"{entry.name}: arrays must have {first} and {second}, got {entry.arrays!r} "
                f"without {method!r} from {entry.package.label}; add it"
            )


class DeviceRegistry(NamedRegistry[DeviceEntry]):
    """Device types by name, beside the host, which always exists."""

    noun = "device"

    def add(self, name: str, target: object, package: Package, arrays: object = None) -> None:
        """Add one device; see `opwright.plugin.DeviceRegistrar.add`.

        `target` and `arrays` may also be the objects themselves. RegistrationError for a name that
        is taken or malformed.
        """
        self._add(make_device(name, target, arrays), package)

    def _make_entry(self, registration: DeviceRegistration, package: Package) -> DeviceEntry:
        return DeviceEntry(registration, package, self._report.notes)

    def find_owner(self, name: str) -> Package | None:
        """Return who provides a device of this name, or None; the host is the core's."""
        if name == HOST_DEVICE:
            return Package("core", "opwright", "(built in)")
        return super().find_owner(name)

    def find(self, name: str) -> DeviceEntry | None:
        """Return a plugin's device, or None; the host belongs to no plugin."""
        return self._entries.get(name)

    def get(self, name: str) -> DeviceEntry:
        """Return a plugin's device.

        Raises DeviceNotFoundError, which lists the devices, plugins that failed to load, and what
        to install.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise self.not_found(name)
        return entry

    def names(self) -> list[str]:
        """Return every device type, the host first, the others sorted."""
        return [HOST_DEVICE, *sorted(self._entries)]

    def not_found(self, name: str) -> DeviceNotFoundError:
        """Return the error for a device that no plugin provides."""
        known = hint(name, self.names(), "devices")
        lines = [f"{name}: no device of this name is registered{known}"]
        lines += [f"  {line}" for line in self._report.lines()]
        advice = advise_plugin(name, self._report)
        if advice is not None:
            lines.append(f"  to get it: {advice}")
        return DeviceNotFoundError("\n".join(lines))
