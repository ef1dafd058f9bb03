"""The devices that plugins provide, imported at first use, and the names that users write."""

from __future__ import annotations

import functools
from typing import Any, Final

from opwright.errors import AttributeTypeError, DeviceNotFoundError, PluginError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.quarantine import advise_plugin
from opwright.packages.rules import is_library, make_device
from opwright.records import NamedTuple
from opwright.registry.named import Entry, NamedRegistry
from opwright.targets.opening import load_target

HOST_DEVICE: Final = "cpu"
"""Ordinary memory. The core itself provides this device; plugins must not register it."""

_MAX_DIGITS: Final = 6


class DeviceName(NamedTuple):
    """A device type and number; ``str()`` is ``"cuda"`` for number 0, ``"cuda:1"`` for number 1.

    Attributes
    ----------
    kind : str
        Device type, such as ``"cuda"``.
    number : int
        The index among the devices of that type; 0 for the host.
    """

    kind: str
    number: int = 0

    @classmethod
    def parse(cls, text: str, who: str = "") -> DeviceName:
        """Parse a device name as users write it: ``"cuda:1"``, or ``"cuda"`` for number 0.

        Whether the device exists is not checked. `who` is the caller, for messages.

        Raises
        ------
        AttributeTypeError
            For anything but a string.
        DeviceNotFoundError
            For a number that is not a non-negative int, and for a nonzero number of the host.
        """
        if not isinstance(text, str):
            raise AttributeTypeError(
                f"{who and who + ': '}device must be a string, got {text!r} "
                f"({type(text).__name__}); write device={HOST_DEVICE!r}, for example"
            )
        return cls._read(text)

    @classmethod
    @functools.lru_cache(maxsize=64)  # each call of `Network.run` reads its device
    def _read(cls, text: str) -> DeviceName:
        kind, colon, digits = text.partition(":")
        if not colon:
            return cls(kind)
        # Machines have far fewer devices, and Python cannot parse ints of thousands of digits.
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
            other = (
                "" if kind == HOST_DEVICE else f" or '{kind}:1', of at most {_MAX_DIGITS} digits"
            )
            raise DeviceNotFoundError(
                f"{text[:40]}: the number of a device must be an int of at least 0, got "
                f"{digits[:40]!r}; write {kind!r}{other}"
            )
        number = int(digits)
        if kind == HOST_DEVICE and number:
            raise DeviceNotFoundError(
                f"{text}: the only host has number 0, got number {number}; write {HOST_DEVICE!r}"
            )
        return cls(kind, number)

    @property
    def is_host(self) -> bool:
        """Whether this is the host."""
        return self.kind == HOST_DEVICE

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind


HOST: Final = DeviceName(HOST_DEVICE)


class DeviceEntry(Entry):
    """One registered device; its `arrays`, if not None, create arrays for Python kernels."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.arrays: object = self.registration.arrays or None

    @property
    def is_native(self) -> bool:
        """Whether the device is compiled, so that its target is a library."""
        return is_library(self.target)

    def _load(self) -> object:
        """Return the object that the plugin named, or the `NativeDevice` of the library.

        Raises
        ------
        PluginError
            If it cannot be imported, or its library cannot be used.
        """
        if not self.is_native:
            return super()._load()
        return self._libraries.load(self.target, self.name, self.package).find_device(self.name)

    def load_arrays(self) -> object:
        """Return the object that creates arrays for Python kernels, imported once, or None.

        Raises
        ------
        PluginError
            If it cannot be imported, or lacks a method.
        """
        if isinstance(self.arrays, str):
            self.arrays = load_target(self.arrays, self.name, self.package, self._libraries.notes)
        pairs = [] if self.arrays is None else [("view", "stream")]
        if hasattr(self.arrays, "interface"):
            pairs.append(("locate", "describe"))
        for first, second in pairs:
            missing = first if not hasattr(self.arrays, first) else second
            if not hasattr(self.arrays, missing):
                raise PluginError(
                    f"{self.name}: arrays must have {first} and {second}, got {self.arrays!r} "
                    f"without {missing!r} from {self.package.label}; add it"
                )
        return self.arrays


class DeviceRegistry(NamedRegistry[DeviceEntry]):
    """Device types by name, besides the host, which always exists."""

    entry_type = DeviceEntry
    noun = "device"

    def add(self, name: str, target: object, package: Package, arrays: object = None) -> None:
        """Add one device; see `opwright.plugin.DeviceRegistrar.add`.

        `target` and `arrays` may also be the objects themselves. Raises RegistrationError for a
        name that is taken or malformed.
        """
        self._add(make_device(name, target, arrays), package)

    def find_owner(self, name: str) -> Package | None:
        """Return the package of the device of this name, or None; the host belongs to the core."""
        if name == HOST_DEVICE:
            return Package("core", "opwright", "(built in)")
        return super().find_owner(name)

    def entries(self) -> list[DeviceEntry]:
        """Return all devices except the host, sorted by name, without imports."""
        return sorted(self._all(), key=lambda entry: str(entry.name))

    def names(self) -> list[str]:
        """Return all device types, the host first, the rest sorted."""
        return [HOST_DEVICE, *sorted(self._registered)]

    def not_found(self, name: str) -> DeviceNotFoundError:
        """Return the error for a device that no plugin provides.

        The error lists the devices, plugins that failed to load, and the package to install.
        """
        is_gpu = name.lower() in {"gpu", "nvidia"}
        known = "; GPUs are 'cuda'" if is_gpu else hint(name, self.names(), "devices")
        title = f"{name}: no device of this name is registered{known}"
        advice = advise_plugin("cuda" if is_gpu else name, self._report)
        return DeviceNotFoundError(self._report.explain(title, advice))
