"""The types of attributes, and the conversion of arguments to values of these types."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

AttrValue: TypeAlias = (
    int | float | str | bool
    | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | tuple[bool, ...]
)  # fmt: skip
"""A checked value; the value of a BLOCK attribute is the index of the block."""


class AttrType(enum.IntEnum):
    """The type of an attribute; the numbers are the same as in ``framework.proto``."""

    INT = 1
    FLOAT = 2
    STRING = 3
    BOOL = 4
    INTS = 5
    FLOATS = 6
    STRINGS = 7
    BOOLS = 8
    BLOCK = 9

    @property
    def element(self) -> AttrType:
        """The element type of a list type, or the type itself if it is not a list type."""
        return _ELEMENTS.get(self, self)

    @property
    def is_list(self) -> bool:
        """Whether values are tuples."""
        return self in _ELEMENTS

    @property
    def is_numeric(self) -> bool:
        """Whether values, or their elements, can have a range of allowed values."""
        return self.element in (AttrType.INT, AttrType.FLOAT)

    @property
    def type_name(self) -> str:
        """The type in Python's notation: ``"int"``, ``"list[float]"``; ``"block"`` for BLOCK."""
        return f"list[{_TYPE_NAMES[self.element]}]" if self.is_list else _TYPE_NAMES[self]


_ELEMENTS: Final = {
    AttrType.INTS: AttrType.INT,
    AttrType.FLOATS: AttrType.FLOAT,
    AttrType.STRINGS: AttrType.STRING,
    AttrType.BOOLS: AttrType.BOOL,
}
PYTHON_TYPES: Final = {
    AttrType.INT: int,
    AttrType.FLOAT: float,
    AttrType.STRING: str,
    AttrType.BOOL: bool,
    AttrType.BLOCK: int,
}
"""The exact type of a checked element."""

_TYPE_NAMES: Final = {t: k.__name__ for t, k in PYTHON_TYPES.items()} | {AttrType.BLOCK: "block"}

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


def describe_type(type: AttrType) -> str:
    """Return ``"an int"`` or ``"a list of floats"``, for error messages."""
    if type.is_list:
        return f"a list of {_TYPE_NAMES[type.element]}s"
    return ("an " if type is AttrType.INT else "a ") + _TYPE_NAMES[type]


def convert_element(type: AttrType, value: object) -> Any:
    """Convert `value` to exactly the Python type of an element; return None if the types differ.

    A bool is not an int, and an int is not a bool. Arrays without axes are accepted,
    including NumPy scalars. For a FLOAT, an int becomes a float, or stays a 64-bit int if no float
    equals it, so that integer dtypes get the exact value.
    """
    value = _as_plain(value)
    if type is AttrType.BOOL:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or type is AttrType.STRING:
        return str(value) if isinstance(value, str) else None
    if isinstance(value, int):
        return _as_float(int(value)) if type is AttrType.FLOAT else int(value)
    if type is AttrType.FLOAT and isinstance(value, float):
        return float(value)
    return None


def _as_plain(value: object) -> object:
    """Convert an array of any library to Python objects; return any other value unchanged."""
    tolist = getattr(value, "tolist", None)
    return value if tolist is None else tolist()


def _as_float(value: int) -> float | int | None:
    if abs(value) >= 2**1023:
        return None
    nearest = float(value)
    return value if nearest != value and INT_MIN <= value <= UINT_MAX else nearest


def find_inexact(values: Iterable[AttrValue | None]) -> int | None:
    """Return the first integer in FLOAT attributes that no double represents exactly, or None."""
    numbers = (n for value in values for n in (value if isinstance(value, tuple) else (value,)))
    return next((number for number in numbers if isinstance(number, int)), None)


def convert_value(type: AttrType, value: object, length: int | None = None) -> Any:
    """Convert `value` to its exact type, a list to a tuple; return None if the types differ.

    With `length`, a single number or bool becomes a list of that length.
    """
    if not type.is_list:
        return convert_element(type, value)
    value = _as_plain(value)
    if length is not None and isinstance(value, (int, float)):
        value = [value] * length
    if not isinstance(value, (list, tuple, range)):
        return None
    elements = tuple(convert_element(type.element, element) for element in value)
    return None if None in elements else elements


def format_number(value: float) -> str:
    """Return a bound as text: ``0`` for 0.0, ``inf``, ``1e-05``."""
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else repr(value)
