"""The rules for registrations: each breach is a RegistrationError that names the culprit."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from opwright.describe import names
from opwright.describe.dtypes import DTYPES, NARROW_DTYPES
from opwright.describe.names import hint
from opwright.errors import RegistrationError
from opwright.registry.package import Package
from opwright.vocabulary import PROVIDER

ANY: Final = "*"
"""Stands for every dtype or every device."""

PHASES: Final = ("canonicalize", "fuse", "layout", "memory")
"""The phases of passes, in the order in which they run."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LIBRARY = re.compile(r"[^\W\d]\w*(/[\w+-][\w.+-]*)*/[\w+-][\w.+-]*\.so")


def is_library(target: object) -> bool:
    """Tell whether a target names a compiled library: ``"opwright_acme/libacme.so"``."""
    return isinstance(target, str) and bool(_LIBRARY.fullmatch(target))


def is_name(text: object) -> bool:
    """Tell whether text is lower_snake and can follow a dot in Python."""
    return isinstance(text, str) and bool(_NAME.fullmatch(text)) and not keyword.iskeyword(text)


def check_name(name: object, what: str) -> None:
    """Raise unless `name` is lower_snake; `what` says whose name it is."""
    if not is_name(name):
        raise RegistrationError(
            f"{name}: {what} must be lower_snake (a-z, 0-9, _) and no Python keyword, "
            f"got {name!r}; rename it"
        )


def check_op_type(op_type: str, package: Package) -> None:
    """Raise unless a plugin of `package` may provide an operator of this type."""
    names.check_op_type(op_type)
    prefix, dot, name = op_type.rpartition(".")
    if not dot and package.distribution != PROVIDER:
        raise RegistrationError(
            f"{op_type}: unprefixed operator types belong to {PROVIDER}, got one from "
            f"{package.label}; name it {package.plugin + '.' + name!r}"
        )
    if dot and prefix != package.plugin:
        raise RegistrationError(
            f"{op_type}: operator type must begin with the plugin's own name {package.plugin!r}, "
            f"got {prefix!r} from {package.label}; name it {package.plugin + '.' + name!r}"
        )


def check_target(target: object, who: str, *, libraries: bool = False) -> None:
    """Raise unless `target` is ``"module:attribute"``, or where allowed, a library."""
    if isinstance(target, str) and _TARGET.fullmatch(target):
        return
    if libraries and is_library(target):
        return
    forms = "'module:attribute'"
    if libraries:
        forms += " or the path of a library in the package, 'opwright_acme/libacme.so'"
    raise RegistrationError(
        f"{who}: target must be a string {forms}, got {target!r}; "
        "name the object, so that it is imported only when it is used"
    )


def _read_list(given: object) -> tuple[Any, ...]:
    """Return a list as a tuple, and what is none, such as a text, as a tuple of None."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    return tuple(given) if is_list else (None,)  # type: ignore[arg-type]


def check_aliases(aliases: object, who: str) -> tuple[str, ...]:
    """Return the names of an operator in other frameworks as a tuple."""
    names = _read_list(aliases)
    if not all(isinstance(name, str) and name for name in names):
        raise RegistrationError(
            f"{who}: aliases must be a list of names, got {aliases!r}; write ['other_name']"
        )
    return names


def check_pass_operators(operators: object, who: str) -> tuple[str, ...]:
    """Return the operator types that a pass names as a tuple; ``"*.name"`` is one of any plugin."""
    types = _read_list(operators)
    for op_type in types:
        plugin, dot, name = str(op_type).rpartition(".")
        if not is_name(name) or (dot and plugin != ANY and not is_name(plugin)):
            raise RegistrationError(
                f"{who}: operators must be a list of operator types, got {operators!r}; "
                "write ['matmul', 'acme.swish'], or '*.swish' for that of any plugin"
            )
    return types


def check_arrays(arrays: object, who: str, target: object) -> None:
    """Raise unless a device of this target may have these arrays; None stands for none."""
    if arrays is None:
        return
    if not is_library(target):
        raise RegistrationError(
            f"{who}: arrays belong to a device in a compiled library, got them beside {target!r}; "
            "give the device object a view method"
        )
    if isinstance(arrays, str):
        check_target(arrays, who)


def check_library_says(who: str, **properties: bool) -> None:
    """Raise where a hook repeats a property of a compiled kernel that its library declares."""
    for word, is_given in properties.items():
        if is_given:
            raise RegistrationError(
                f"{who}: {word} of a compiled kernel is declared by its library, got it in the "
                "hook too; remove it there, and write it into ow_kernel"
            )


def check_device(device: object, who: str) -> None:
    """Raise unless `device` is a device type such as ``"cpu"``, or ``"*"``."""
    if device != ANY and not is_name(device):
        raise RegistrationError(
            f"{who}: device must be lower_snake or '*', got {device!r}; "
            "write the device type, such as 'cpu'"
        )


def fits_dtype(named: Collection[str], dtype: str) -> bool:
    """Tell whether a kernel for the named dtypes is for one: ``"*"`` leaves out the narrow ones."""
    return dtype in named or (ANY in named and dtype not in NARROW_DTYPES)


def check_dtypes(dtypes: object, who: str) -> tuple[str, ...]:
    """Return the dtypes of a kernel as a tuple of different canonical names or ``"*"``."""
    if dtypes == ANY:
        return (ANY,)
    if isinstance(dtypes, str) or not isinstance(dtypes, Iterable):
        raise RegistrationError(
            f"{who}: dtypes must be a list of dtype names or '*', got {dtypes!r}; "
            f"write [{dtypes!r}]"
        )
    listed = tuple(dtypes)
    for name in listed:
        if name not in (ANY, *DTYPES):
            raise RegistrationError(
                f"{who}: unknown dtype, got {name!r}{hint(str(name), DTYPES, 'dtypes')}"
            )
    if not listed or len(set(listed)) != len(listed):
        raise RegistrationError(
            f"{who}: dtypes must name at least one dtype, and each once, got {list(listed)}; "
            "list those that the kernel computes"
        )
    return listed


def check_priority(priority: object, who: str) -> None:
    """Raise unless `priority` is an int in 0 to 99."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 99:
        raise RegistrationError(
            f"{who}: priority must be an int in 0 to 99, got {priority!r}; "
            "0 is for references, 50 is a plugin's usual one"
        )


def check_may_reuse(may_reuse: object, who: str) -> tuple[tuple[str, str], ...]:
    """Return `may_reuse` as a tuple of pairs (output slot, input slot), or raise."""
    pairs = tuple(map(_read_list, _read_list(may_reuse)))
    if not all(len(pair) == 2 and all(map(is_name, pair)) for pair in pairs):
        raise RegistrationError(
            f"{who}: may_reuse must be a list of pairs (output slot, input slot), "
            f"got {may_reuse!r}; write [('out', 'x')]"
        )
    return pairs


def check_prefers(prefers: object, who: str) -> tuple[tuple[str, Any], ...]:
    """Return `prefers` as pairs (attribute, value), lists as tuples, or raise; None is for none."""
    values = {} if prefers is None else prefers
    if isinstance(values, Mapping):
        pairs = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in values.items())
        if all(is_name(name) and _is_plain(value) for name, value in pairs):
            return pairs
    raise RegistrationError(
        f"{who}: prefers must map attribute names to plain values, got {prefers!r}; "
        "write {'data_format': 'NHWC'}"
    )


def _is_plain(value: object) -> bool:
    elements = value if isinstance(value, tuple) else (value,)
    return all(isinstance(element, (bool, int, float, str)) for element in elements)
