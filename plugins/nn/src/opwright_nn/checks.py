"""Checks the arguments of layers, optimizers and data sets, with one form for all messages.

Each message has the caller, the rule, the value and a fix; each check returns a plain Python value.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Any, Final, NoReturn, TypeGuard

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError
from opwright.op import DTYPES, canonical_dtype
from opwright.plugin import hint

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
MAX_FLOAT32: Final = float(np.finfo(np.float32).max)

_MAX_SHOWN: Final = 500


def check_int(
    who: str,
    name: str,
    value: object,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
) -> int:
    """Return `value` as an int; NumPy integers are accepted, bools are not."""
    rule = f"an int{_int_range(at_least, at_most)}"
    fix = f"write {name}={_advise_int(at_least, at_most)}, for example"
    number = _find_int(value)
    if number is None:
        _raise_type(who, name, rule, value, fix)
    if (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
        _raise_value(who, name, rule, value, fix)
    if not INT_MIN <= number <= INT_MAX:  # attributes and arrays hold no larger ints
        low = INT_MIN if at_least is None else at_least
        high = INT_MAX if at_most is None else at_most
        _raise_value(who, name, f"an int{_int_range(low, high)}", value, fix)
    return number


def check_float(
    who: str,
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return `value` as a finite float; ints are accepted, bools and strings are not."""
    rule = f"a finite number{_float_range(above, at_least, below, at_most)}"
    fix = f"write {name}={_number(_advise_float(above, at_least, below, at_most))}, for example"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _raise_type(who, name, rule, value, fix)
    try:
        number = float(value)
    except OverflowError:  # an int or a fraction beyond a double
        number = math.inf
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not inside:
        _raise_value(who, name, rule, value, fix)
    return number


def check_rate(who: str, name: str, value: object) -> float:
    """Return a learning rate as a finite, non-negative float that float32 can represent."""
    number = check_float(who, name, value, at_least=0.0)
    return check_float(who, name, number, at_least=0.0, at_most=MAX_FLOAT32)


def check_bool(who: str, name: str, value: object) -> bool:
    """Check that `value` is True or False, and return it; ints are not accepted."""
    if type(value) is not bool and type(value).__name__ != "bool":  # NumPy's bool has this name
        _raise_type(who, name, "True or False", value, f"write {name}=True or {name}=False")
    return bool(value)


def check_str(who: str, name: str, value: object) -> str:
    """Check that `value` is a non-empty string, and return it."""
    if not isinstance(value, str):
        _raise_type(who, name, "a string", value, f'write {name}="..."')
    if not value:
        _raise_value(who, name, "a string that is not empty", value, f'write {name}="..."')
    return value


def check_name(who: str, value: object) -> str | None:
    """Check a layer name and return it; None, which means a new name, is accepted."""
    return None if value is None else check_str(who, "name", value)


def check_choice(who: str, name: str, value: object, choices: Collection[str]) -> str:
    """Check that `value` is one of `choices`, and return it; the error suggests a similar one."""
    rule = f"one of {', '.join(map(repr, choices))}"
    if not isinstance(value, str):
        _raise_type(who, name, rule, value, f"write {name}={min(choices)!r}, for example")
    if value not in choices:
        raise AttributeValueError(
            f"{who}: {name} must be {rule}, got {value!r}{hint(value, choices, 'values')}"
        )
    return value


def check_shape(who: str, value: object, *, computed: bool = False) -> tuple[Any, ...]:
    """Return a shape as a tuple of ints; None and -1, for unknown dimensions, become -1.

    With `computed`, the shape may have variables instead of numbers.
    """
    rule = "a list of ints of at least 0, None where a dimension is not known yet"
    fix = "write shape=[None, 64], for example"
    if not is_ordered(value):
        _raise_type(who, "shape", rule, value, fix)
    shape: list[Any] = []
    for dim in value:
        if computed and isinstance(dim, ow.Variable):
            shape.append(dim)
            continue
        size = -1 if dim is None else _find_int(dim)
        if size is None:
            _raise_type(who, "shape", rule, value, fix)
        if size < -1:
            _raise_value(who, "shape", rule, value, fix)
        shape.append(size)
    return tuple(shape)


def check_ints(who: str, name: str, value: object) -> list[int]:
    """Return a list of ints; a single int becomes a list."""
    single = _find_int(value)
    if single is not None:
        return [single]
    if not is_ordered(value):
        _raise_type(who, name, "a list of ints", value, f"write {name}=[1, 2], for example")
    return [check_int(who, f"{name}[{i}]", item) for i, item in enumerate(value)]


AXES = {1: "length", 2: "height and width", 3: "depth, height and width"}
"""The names of a window's axes, by their number."""

_SIDES = {
    1: "both sides, or two: before, after",
    2: "all sides, two for height and width, or four: top, bottom, left, right",
    3: "all sides, three for depth, height and width, or six: front, back, top, bottom, left, "
    "right",
}
_COUNTS = {2: "two", 3: "three"}


def check_sizes(who: str, name: str, value: object, *, rank: int, at_least: int) -> tuple[int, ...]:
    """Return an int for each axis of a window; a single int applies to all axes."""
    single = _find_int(value)
    ints = [single] * rank if single is not None else _find_ints(value)
    rule = f"an int of at least {at_least}"
    fix = f"write {name}={max(at_least, 1)}"
    if rank > 1:
        rule += f", or {_COUNTS[rank]} of them, for {AXES[rank]}"
        fix += f" or {name}={(max(at_least, 1), *[max(at_least, 2)] * 2)[:rank]}"
    fix += ", for example"
    if ints is None:
        _raise_type(who, name, rule, value, fix)
    if len(ints) != rank or min(ints) < at_least:
        _raise_value(who, name, rule, value, fix)
    return tuple(ints)


def check_paddings(who: str, value: object, *, rank: int) -> tuple[int, ...] | None:
    """Return padding before and after each axis, or None for "same", which depends on the input."""
    rule = f"'same', 'valid', an int of at least 0 for {_SIDES[rank]}"
    fix = "write paddings=1, for example"
    if isinstance(value, str):
        check_choice(who, "paddings", value, ("same", "valid"))
        return None if value == "same" else (0,) * (2 * rank)
    single = _find_int(value)
    ints = [single] * (2 * rank) if single is not None else _find_ints(value)
    if ints is None:
        _raise_type(who, "paddings", rule, value, fix)
    if len(ints) == rank:
        ints = [size for size in ints for _ in range(2)]
    if len(ints) != 2 * rank or min(ints) < 0:
        _raise_value(who, "paddings", rule, value, fix)
    return tuple(ints)


def check_dtype(who: str, value: object) -> str:
    """Return the canonical name of a dtype given as a name, a NumPy dtype or a scalar type."""
    try:
        return canonical_dtype(value)
    except DtypeError as error:
        raise DtypeError(f"{who}: {error}") from None


def find_array(values: Any) -> npt.NDArray[Any] | None:
    """Return an array, or None if its elements would be objects, as for rows of unequal length."""
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return None if array.dtype.hasobject else array


def check_numbers(who: str, name: str, values: object) -> npt.NDArray[Any]:
    """Return an array of bools, ints or floats; floats that NumPy lacks become float32."""
    array = find_array(values)
    if array is not None and array.dtype.kind == "V" and array.dtype.name in DTYPES:
        return array.astype(np.float32)
    if array is None or array.dtype.kind not in "biuf":
        raise AttributeTypeError(
            f"{who}: {name} must be an array of numbers, got {_show(values)} "
            f"({'object' if array is None else array.dtype}); pass rows of one length"
        )
    return array


def check_variable(who: str, name: str, value: object) -> ow.Variable:
    """Check that `value` is a variable of a program, and return it."""
    if not isinstance(value, ow.Variable):
        _raise_type(who, name, "a variable of a program", value, "create one with layers.data")
    return value


def check_instance(
    who: str, name: str, value: object, cls: type, *, required: bool = False
) -> None:
    """Raise unless `value` is an instance of a class; None is accepted if it is not required."""
    if isinstance(value, cls) or (value is None and not required):
        return
    article = "an" if cls.__name__[0] in "AEIOUaeiou" else "a"
    rule = f"{article} {cls.__name__}{'' if required else ' or None'}"
    kinds = sorted(_list_kinds(cls))
    fix = f"create {article} {cls.__name__} first"
    if 0 < len(kinds) <= 12:
        fix = f"create one of {', '.join(kinds)}"
    if isinstance(value, type) and issubclass(value, cls):
        fix = f"call it: {value.__name__}()"
    _raise_type(who, name, rule, value, fix)


def _list_kinds(cls: type) -> Iterator[str]:
    """Yield the names of the public classes below a class."""
    kinds: list[type] = cls.__subclasses__()
    for kind in kinds:
        if kind.__name__[0] != "_":
            yield kind.__name__
        yield from _list_kinds(kind)


def check_mapping(who: str, name: str, value: object, example: str) -> Mapping[Any, Any]:
    """Check that `value` is a mapping, such as a dict, and return it."""
    if not isinstance(value, Mapping):
        _raise_type(who, name, "a dict", value, f"write {name}={example}, for example")
    return value


def is_listed(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value contains items; False for strings and for an array without axes."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, np.ndarray) or value.ndim > 0


def is_ordered(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value contains items in the caller's order; False for sets and dicts."""
    return is_listed(value) and not isinstance(value, Set | Mapping)


def check_callable(who: str, name: str, value: object) -> Callable[..., object]:
    """Check that `value` is callable, and return it."""
    if not callable(value):
        _raise_type(who, name, "a function", value, f"write {name}=lambda: ...")
    return value


def _find_int(value: object) -> int | None:
    if isinstance(value, (bool, np.bool_)):  # NumPy 2.0 still accepts its bool as an index
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # arrays and everything else that is not an integer
        return None


def _find_ints(value: object) -> list[int] | None:
    if not is_ordered(value):
        return None
    ints = [_find_int(item) for item in value]
    return None if None in ints else [number for number in ints if number is not None]


def _raise_type(who: str, name: str, rule: str, value: object, fix: str) -> NoReturn:
    raise AttributeTypeError(
        f"{who}: {name} must be {rule}, got {_show(value)} ({type(value).__name__}); {fix}"
    )


def _raise_value(who: str, name: str, rule: str, value: object, fix: str) -> NoReturn:
    raise AttributeValueError(f"{who}: {name} must be {rule}, got {_show(value)}; {fix}")


def _show(value: object) -> str:
    """Return a value as text for a message, abbreviated if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        return "thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _advise_int(at_least: int | None, at_most: int | None) -> int:
    """Return the smallest int that a rule allows; without a lower bound, the int nearest to 1."""
    if at_least is not None:
        return at_least
    return 1 if at_most is None else min(1, at_most)


def _advise_float(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> float:
    """Return a round number that a rule allows, preferably 0.1."""
    if at_least is not None:
        return at_least
    low, high = -math.inf if above is None else above, math.inf
    high = min(high if each is None else each for each in (below, at_most))
    if low < 0.1 < high:
        return 0.1
    if at_most is not None:
        return at_most
    if math.isinf(low):
        advised = high - max(1.0, abs(high) / 2)
    else:
        advised = low + (max(1.0, abs(low)) if math.isinf(high) else (high - low) / 2)
    inside = low < advised < high and math.isfinite(advised)
    return advised if inside else math.nextafter(low, high)


def _int_range(at_least: int | None, at_most: int | None) -> str:
    if at_most is not None:
        return f" in [{at_least}, {at_most}]"
    return "" if at_least is None else f" of at least {at_least}"


def _float_range(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> str:
    if (above, at_least, below, at_most) == (None, None, None, None):
        return ""
    low = f"[{_number(at_least)}" if at_least is not None else "(-inf"
    low = f"({_number(above)}" if above is not None else low
    high = f"{_number(at_most)}]" if at_most is not None else "inf)"
    high = f"{_number(below)})" if below is not None else high
    return f" in {low}, {high}"


def _number(bound: float) -> str:
    """Return all digits of a bound, since values are compared with the exact bound."""
    return repr(int(bound)) if bound == int(bound) and abs(bound) < 1e16 else repr(bound)
