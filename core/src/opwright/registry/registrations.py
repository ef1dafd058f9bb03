"""What a plugin said in its hooks, as plain data: nothing imported, ready for the index file."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from opwright.describe.names import check_op_type
from opwright.registry import rules
from opwright.registry.package import Package


class OpRegistration(NamedTuple):
    """One line of ``opwright_ops``."""

    type: str
    target: str
    hidden: bool


TakenKey: TypeAlias = tuple[str, str, str, str]
"""Operator type, device, dtype and library: what no two kernels may have in common."""


class KernelRegistration(NamedTuple):
    """One line of ``opwright_kernels``; see `KernelRegistry.add` for the fields."""

    op_type: str
    device: str
    dtypes: tuple[str, ...]
    library: str
    target: str
    priority: int
    may_reuse: tuple[tuple[str, str], ...]
    capturable: bool
    deterministic: bool
    strided: bool
    prefers: tuple[tuple[str, Any], ...]
    find_refusal: str = ""

    def taken_keys(self) -> list[TakenKey]:
        """Return the keys that are taken, one for each dtype, as `key_text` takes them."""
        op_type, device, library = self.op_type, self.device, self.library
        return [(op_type, device, dtype, library) for dtype in self.dtypes]


class DeviceRegistration(NamedTuple):
    """One line of ``opwright_devices``; `arrays` is empty where nothing was given."""

    name: str
    target: str
    arrays: str = ""


class PassRegistration(NamedTuple):
    """One line of ``opwright_passes``."""

    name: str
    phase: str
    target: str
    device: str


class OptionRegistration(NamedTuple):
    """One line of ``opwright_options``; the plugin's name is before the option's."""

    name: str
    default: bool | int | float | str
    comment: str


def key_text(*parts: str) -> str:
    """Return a kernel key as messages show it: ``softmax[cpu, float32, onednn]``."""
    return f"{parts[0]}[{', '.join(parts[1:])}]"


def make_op(type: str, target: object, hidden: bool) -> OpRegistration:
    """Check and return one operator; whose prefix it may bear is checked by the caller."""
    check_op_type(type)
    rules.check_target(target, type, libraries=True)
    return OpRegistration(type, str(target), bool(hidden))


def make_kernel(
    op_type: str,
    device: str,
    dtypes: object,
    kernel: object,
    library: str,
    *,
    priority: int,
    may_reuse: object,
    flags: tuple[bool, bool, bool],
    prefers: object = None,
    find_refusal: object = None,
) -> KernelRegistration:
    """Check and return one kernel; `flags` are capturable, deterministic and strided.

    A target that is no string is left to the caller.
    """
    check_op_type(op_type)
    who = key_text(op_type, str(device), str(library))
    rules.check_device(device, who)
    names = rules.check_dtypes(dtypes, who)
    rules.check_name(library, "library")
    rules.check_priority(priority, who)
    pairs = rules.check_may_reuse(may_reuse, who)
    preferred = rules.check_prefers(prefers, who)
    if find_refusal is not None:
        rules.check_target(find_refusal, f"{who}: find_refusal")
    if isinstance(kernel, str):
        rules.check_target(kernel, who, libraries=True)
    capturable, deterministic, strided = map(bool, flags)
    if rules.is_library(kernel):
        rules.check_library_says(
            who,
            may_reuse=bool(pairs),
            capturable=capturable,
            deterministic=not deterministic,
            strided=strided,
        )
    target: str = kernel  # type: ignore[assignment]
    return KernelRegistration(
        op_type,
        device,
        names,
        library,
        target,
        priority,
        pairs,
        capturable,
        deterministic,
        strided,
        preferred,
        str(find_refusal or ""),
    )


def make_device(name: str, target: object, arrays: object = None) -> DeviceRegistration:
    """Check and return one device."""
    rules.check_name(name, "device")
    rules.check_target(target, name, libraries=True)
    rules.check_arrays(arrays, name, target)
    return DeviceRegistration(name, str(target), "" if arrays is None else str(arrays))


def make_pass(name: str, phase: str, target: object, device: str) -> PassRegistration:
    """Check and return one pass."""
    rules.check_name(name, "pass")
    rules.check_phase(phase, name)
    rules.check_device(device, name)
    rules.check_target(target, name)
    return PassRegistration(name, phase, str(target), device)


def make_option(
    name: str, default: object, comment: object, package: Package
) -> OptionRegistration:
    """Check and return one option of a plugin."""
    rules.check_name(name, "option")
    full = f"{package.plugin}.{name}"
    rules.check_option(full, default, comment)
    return OptionRegistration(full, default, str(comment))  # type: ignore[arg-type]
