"""The name of a device, parsed once and passed on as a value."""

from __future__ import annotations

import functools
from typing import Final

from opwright.errors import DeviceNotFoundError
from opwright.records import NamedTuple

HOST_DEVICE: Final = "cpu"
"""Ordinary memory. The core itself provides it: no plugin may register it."""

_MAX_DIGITS: Final = 6


class DeviceName(NamedTuple):
    """A device type and which of its devices: ``str()`` is ``"cuda"`` for number 0, ``"cuda:1"``.

    Attributes
    ----------
    kind : str
        Device type: ``"cuda"``.
    number : int
        Which of the devices of that type; 0 for the host, of which there is one.
    """

    kind: str
    number: int = 0

    @classmethod
    @functools.lru_cache(maxsize=64)  # each call of `Network.run` reads its device
    def parse(cls, text: str) -> DeviceName:
        """Return the name that users write as ``"cuda:1"``, or ``"cuda"`` for number 0.

        It is not checked whether there is such a device.

        Raises
        ------
        DeviceNotFoundError
            For a number that is no int of at least 0, and for any number of the host but 0.
        """
        kind, colon, digits = text.partition(":")
        if not colon:
            return cls(kind)
        # A machine has far fewer; of thousands of digits Python makes no int.
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
                f"{text}: there is one host, got number {number}; write {HOST_DEVICE!r}"
            )
        return cls(kind, number)

    @property
    def is_host(self) -> bool:
        """Whether this is the host."""
        return self.kind == HOST_DEVICE

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind


HOST: Final = DeviceName(HOST_DEVICE)
