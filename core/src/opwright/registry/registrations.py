"""What a plugin said in its hooks, as plain data: nothing imported, ready for the index file."""

from __future__ import annotations

from typing import Any, NamedTuple

from opwright.describe.names import check_op_type
from opwright.registry import rules
from opwright.registry.package import Package


class OpRegistration(NamedTuple):
    """One line of ``opwright_ops``; `aliases` are other frameworks' names, for messages alone."""

    type: str
    target: str
    hidden: bool
    aliases: tuple[str, ...] = ()


class KernelRegistration(NamedTuple):
    """One line of ``opwright_kernels``; what is given is checked by `check_kernel`.

    Attributes
    ----------
    op_type : str
        Any operator's type, whoever provides the operator.
    device : str
        Device type, or ``"*"`` for any.
    dtypes : tuple of str
        Canonical names of the dispatch dtypes, or ``("*",)`` for all.
    library : str
        Whose implementation it is.
    target : str or object
        ``"module:attribute"`` of a function or class, the path of a library in the package, or the
        kernel itself.
    priority : int
        0 to 99, the highest is tried first: 0 for references, 50 for a plugin's usual one.
    may_reuse : tuple of (str, str)
        Pairs (output slot, input slot): the output may lie where that input lies.
    capturable, deterministic, strided : bool
        May be recorded in a device graph; gives equal bits for equal inputs; takes inputs that are
        not compact row-major.
    prefers : tuple of (str, value)
        Attribute values with which the kernel is at its best, see `KernelEntry.prefers`.
    find_refusal : str
        ``"module:attribute"`` of what says why the kernel would refuse on this machine, or "".
    """

    op_type: str
    device: str
    dtypes: tuple[str, ...]
    library: str
    target: Any
    priority: int = 50
    may_reuse: tuple[tuple[str, str], ...] = ()
    capturable: bool = False
    deterministic: bool = True
    strided: bool = False
    prefers: tuple[tuple[str, Any], ...] = ()
    find_refusal: str = ""

    def key_for(self, dtype: str) -> str:
        """Return what no two kernels may have in common, as messages show it."""
        return key_text(self.op_type, self.device, dtype, self.library)


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


def make_op(type: str, target: object, hidden: bool, aliases: object = ()) -> OpRegistration:
    """Check and return one operator; whose prefix it may bear is checked by the caller."""
    check_op_type(type)
    rules.check_target(target, type, libraries=True)
    return OpRegistration(type, str(target), bool(hidden), rules.check_aliases(aliases, type))


def check_kernel(given: KernelRegistration) -> KernelRegistration:
    """Return a kernel as the registry keeps it, from one whose fields are as an author gave them.

    A target that is no string is left to the caller.

    Raises
    ------
    RegistrationError
        For anything malformed.
    """
    check_op_type(given.op_type)
    who = key_text(given.op_type, str(given.device), str(given.library))
    rules.check_device(given.device, who)
    rules.check_name(given.library, "library")
    rules.check_priority(given.priority, who)
    checked = given._replace(
        dtypes=rules.check_dtypes(given.dtypes, who),
        may_reuse=rules.check_may_reuse(given.may_reuse, who),
        capturable=bool(given.capturable),
        deterministic=bool(given.deterministic),
        strided=bool(given.strided),
        prefers=rules.check_prefers(None if given.prefers == () else given.prefers, who),
        find_refusal=given.find_refusal or "",
    )
    if checked.find_refusal:
        rules.check_target(checked.find_refusal, f"{who}: find_refusal")
    if isinstance(checked.target, str):
        rules.check_target(checked.target, who, libraries=True)
    if rules.is_library(checked.target):
        rules.check_library_says(
            who,
            may_reuse=bool(checked.may_reuse),
            capturable=checked.capturable,
            deterministic=not checked.deterministic,
            strided=checked.strided,
        )
    return checked


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
