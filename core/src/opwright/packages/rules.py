"""The rules of registrations; a violation raises a RegistrationError that names the object."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

from opwright.describe.dtypes import DTYPES
from opwright.describe.names import check_op_type
from opwright.errors import RegistrationError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.registrations import (
    ANY,
    PHASES,
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    PassRegistration,
    key_text,
)
from opwright.vocabulary import PROVIDER

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LIBRARY = re.compile(r"[^\W\d]\w*(/[\w+-][\w.+-]*)*/[\w+-][\w.+-]*\.so")


def is_library(target: object) -> bool:
    """Return whether a target names a compiled library, such as ``"opwright_acme/libacme.so"``."""
    return isinstance(target, str) and bool(_LIBRARY.fullmatch(target))


def is_name(text: object) -> bool:
    """Return whether a string is lower_snake and can follow a dot in Python."""
    return isinstance(text, str) and bool(_NAME.fullmatch(text)) and not keyword.iskeyword(text)


def check_name(name: object, what: str) -> None:
    """Raise unless `name` is lower_snake; `what` names its owner."""
    if not is_name(name):
        raise RegistrationError(
            f"{name}: {what} must be lower_snake (a-z, 0-9, _) and not a Python keyword, "
            f"got {name!r}; rename it"
        )


def check_owner(op_type: str, package: Package) -> None:
    """Raise unless a plugin of `package` may provide an operator of this type."""
    check_op_type(op_type)
    prefix, dot, name = op_type.rpartition(".")
    if not dot and package.distribution != PROVIDER:
        raise RegistrationError(
            f"{op_type}: unprefixed operator types belong to {PROVIDER}, got one from "
            f"{package.label}; name it {package.plugin + '.' + name!r}"
        )
    if dot and prefix != package.plugin:
        raise RegistrationError(
            f"{op_type}: operator type must begin with the plugin name {package.plugin!r}, "
            f"got {prefix!r} from {package.label}; name it {package.plugin + '.' + name!r}"
        )


def check_target(target: object, who: str, *, libraries: bool = False) -> None:
    """Raise unless `target` is ``"module:attribute"`` or, where allowed, a library."""
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
    """Convert a list to a tuple, and any other object, such as a str, to ``(None,)``."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    return tuple(given) if is_list else (None,)  # type: ignore[arg-type]


def check_aliases(aliases: object, who: str) -> tuple[str, ...]:
    """Check the names of an operator in other frameworks; return them as a tuple."""
    names = _read_list(aliases)
    if not all(isinstance(name, str) and name for name in names):
        raise RegistrationError(
            f"{who}: aliases must be a list of names, got {aliases!r}; write ['other_name']"
        )
    return names


def check_pass_operators(operators: object, who: str) -> tuple[str, ...]:
    """Return the checked operator types of a pass; ``"*.name"`` stands for any plugin."""
    types = _read_list(operators)
    for op_type in types:
        plugin, dot, name = str(op_type).rpartition(".")
        if not is_name(name) or (dot and plugin != ANY and not is_name(plugin)):
            raise RegistrationError(
                f"{who}: operators must be a list of operator types, got {operators!r}; "
                "write ['matmul', 'acme.swish'], or '*.swish' for any plugin"
            )
    return types


def check_arrays(arrays: object, who: str, target: object) -> None:
    """Raise unless a device of this target may have these arrays; None means no arrays."""
    if arrays is None:
        return
    if not is_library(target):
        raise RegistrationError(
            f"{who}: arrays belong to a device in a compiled library, got arrays for {target!r}; "
            "give the device object a view method"
        )
    if isinstance(arrays, str):
        check_target(arrays, who)


def check_library_says(who: str, **properties: bool) -> None:
    """Raise if a hook gives a property of a compiled kernel that only its library may declare."""
    for word, is_given in properties.items():
        if is_given:
            raise RegistrationError(
                f"{who}: only its library may declare {word} of a compiled kernel, got it in "
                "the hook; remove it there, and set it in ow_kernel"
            )


def check_device(device: object, who: str) -> None:
    """Raise unless `device` is a device type such as ``"cpu"``, or ``"*"``."""
    if device != ANY and not is_name(device):
        raise RegistrationError(
            f"{who}: device must be lower_snake or '*', got {device!r}; "
            "write the device type, such as 'cpu'"
        )


def check_dtypes(dtypes: object, who: str) -> tuple[str, ...]:
    """Check the dtypes of a kernel; return a tuple of distinct canonical names or ``"*"``."""
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
    """Raise unless `priority` is an int from 0 to 99."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 99:
        raise RegistrationError(
            f"{who}: priority must be an int in 0 to 99, got {priority!r}; "
            "0 is for references, 50 is usual for plugins"
        )


def check_may_reuse(may_reuse: object, who: str) -> tuple[tuple[str, str], ...]:
    """Check `may_reuse`, and return it as a tuple of pairs (output slot, input slot)."""
    pairs = tuple(map(_read_list, _read_list(may_reuse)))
    if not all(len(pair) == 2 and all(map(is_name, pair)) for pair in pairs):
        raise RegistrationError(
            f"{who}: may_reuse must be a list of pairs (output slot, input slot), "
            f"got {may_reuse!r}; write [('out', 'x')]"
        )
    return pairs


def check_prefers(prefers: object, who: str) -> tuple[tuple[str, Any], ...]:
    """Check `prefers` and return pairs (attribute, value), with lists as tuples; () for None."""
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


def make_op(type: str, target: object, hidden: bool, aliases: object = ()) -> OpRegistration:
    """Check and return one operator; the caller has checked its type by `check_owner`."""
    check_target(target, type, libraries=True)
    return OpRegistration(type, str(target), bool(hidden), check_aliases(aliases, type))


def check_kernel(given: KernelRegistration) -> KernelRegistration:
    """Check and return one kernel, from the fields given by its author.

    Raises RegistrationError for anything malformed. The caller checks a target that is not a
    string.
    """
    check_op_type(given.op_type)
    who = key_text(given.op_type, str(given.device), str(given.library))
    check_device(given.device, who)
    check_name(given.library, "library")
    check_priority(given.priority, who)
    checked = given._replace(
        dtypes=check_dtypes(given.dtypes, who),
        may_reuse=check_may_reuse(given.may_reuse, who),
        capturable=bool(given.capturable),
        deterministic=bool(given.deterministic),
        strided=bool(given.strided),
        prefers=check_prefers(None if given.prefers == () else given.prefers, who),
        find_refusal=given.find_refusal or "",
    )
    if checked.find_refusal:
        check_target(checked.find_refusal, f"{who}: find_refusal")
    if isinstance(checked.target, str):
        check_target(checked.target, who, libraries=True)
    if is_library(checked.target):
        check_library_says(
            who,
            may_reuse=bool(checked.may_reuse),
            capturable=checked.capturable,
            deterministic=not checked.deterministic,
            strided=checked.strided,
        )
    return checked


def make_device(name: str, target: object, arrays: object = None) -> DeviceRegistration:
    """Check and return one device; the caller checks a target that is not a string."""
    check_name(name, "device")
    if isinstance(target, str):
        check_target(target, name, libraries=True)
    check_arrays(arrays, name, target)
    return DeviceRegistration(name, target, "" if arrays is None else arrays)


def make_pass(
    name: str, phase: str, target: object, device: str, operators: object = ()
) -> PassRegistration:
    """Check and return one pass; the caller checks a target that is not a string."""
    check_name(name, "pass")
    if phase not in PHASES:
        near = hint(str(phase), PHASES, "phases")
        raise RegistrationError(f"{name}: unknown phase, got {phase!r}{near}")
    check_device(device, name)
    if isinstance(target, str):
        check_target(target, name)
    types = check_pass_operators(operators, name)
    return PassRegistration(name, phase, target, device, types)


def make_option(
    name: str, default: object, comment: object, package: Package
) -> OptionRegistration:
    """Check and return one option of a plugin."""
    check_name(name, "option")
    full = f"{package.plugin}.{name}"
    if type(default) not in (bool, int, float, str):
        raise RegistrationError(
            f"{full}: default of an option must be a bool, int, float or str, got {default!r}; "
            "give a default of the type that all values have"
        )
    if not isinstance(comment, str) or not comment.strip():
        raise RegistrationError(
            f"{full}: comment of an option must describe it, got {comment!r}; write a sentence"
        )
    return OptionRegistration(full, default, comment)  # type: ignore[arg-type]


def make_annex(topic: str, subject: object, target: object) -> AnnexRegistration:
    """Check and return one annex; the caller checks a target that is not a string."""
    check_name(topic, "topic")
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise RegistrationError(
            f"{topic}: subject of an annex must be a string of one line, got {subject!r}; "
            "write the name of the object that it describes"
        )
    annex = AnnexRegistration(topic, subject, target)
    if isinstance(target, str):
        check_target(target, annex.name)
    return annex
