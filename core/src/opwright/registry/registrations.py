"""The registrations of a plugin as plain data: nothing is imported, the index file keeps them."""

from __future__ import annotations

from typing import Any

from opwright.describe.names import check_op_type, hint
from opwright.errors import RegistrationError
from opwright.records import NamedTuple
from opwright.registry import rules
from opwright.registry.package import Package


class OpRegistration(NamedTuple):
    """One operator of ``opwright_ops``; `aliases` are other frameworks' names, for messages."""

    type: str
    target: str
    hidden: bool
    aliases: tuple[str, ...] = ()


class KernelRegistration(NamedTuple):
    """One kernel of ``opwright_kernels``, for one or several dtypes; see `check_kernel`.

    The fields are the parameters of `opwright.plugin.KernelRegistrar.add`, with `target` for its
    ``kernel``, which may also be the kernel itself.
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
        """Return the key of one dtype, as messages show it: no two kernels may share one."""
        return key_text(self.op_type, self.device, dtype, self.library)


class DeviceRegistration(NamedTuple):
    """One device of ``opwright_devices``; `arrays` is empty where none are given."""

    name: str
    target: Any
    arrays: Any = ""


class PassRegistration(NamedTuple):
    """One pass of ``opwright_passes``; see `opwright.plugin.PassRegistrar.add`."""

    name: str
    phase: str
    target: Any
    device: str
    operators: tuple[str, ...] = ()


class OptionRegistration(NamedTuple):
    """One option of ``opwright_options``; `name` includes the plugin's, ``"cuda.allow_tf32"``."""

    name: str
    default: bool | int | float | str
    comment: str


class AnnexRegistration(NamedTuple):
    """One annex of ``opwright_annexes``; see `opwright.plugin.AnnexRegistrar.add`."""

    topic: str
    subject: str
    target: Any

    @property
    def name(self) -> str:
        """The annex as messages show it: ``onnx[Relu]``."""
        return key_text(self.topic, self.subject)


def key_text(*parts: str) -> str:
    """Return a kernel key as messages show it: ``softmax[cpu, float32, onednn]``."""
    return f"{parts[0]}[{', '.join(parts[1:])}]"


def make_op(type: str, target: object, hidden: bool, aliases: object = ()) -> OpRegistration:
    """Check and return one operator; the caller checks its prefix."""
    check_op_type(type)
    rules.check_target(target, type, libraries=True)
    return OpRegistration(type, str(target), bool(hidden), rules.check_aliases(aliases, type))


def check_kernel(given: KernelRegistration) -> KernelRegistration:
    """Return a kernel as the registry keeps it, from fields as an author gave them.

    RegistrationError for anything malformed. The caller checks a target that is not a string.
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
    """Check and return one device; the caller checks a target that is not a string."""
    rules.check_name(name, "device")
    if isinstance(target, str):
        rules.check_target(target, name, libraries=True)
    rules.check_arrays(arrays, name, target)
    return DeviceRegistration(name, target, "" if arrays is None else arrays)


def make_pass(
    name: str, phase: str, target: object, device: str, operators: object = ()
) -> PassRegistration:
    """Check and return one pass; the caller checks a target that is not a string."""
    rules.check_name(name, "pass")
    if phase not in rules.PHASES:
        near = hint(str(phase), rules.PHASES, "phases")
        raise RegistrationError(f"{name}: unknown phase, got {phase!r}{near}")
    rules.check_device(device, name)
    if isinstance(target, str):
        rules.check_target(target, name)
    types = rules.check_pass_operators(operators, name)
    return PassRegistration(name, phase, target, device, types)


def make_option(
    name: str, default: object, comment: object, package: Package
) -> OptionRegistration:
    """Check and return one option of a plugin."""
    rules.check_name(name, "option")
    full = f"{package.plugin}.{name}"
    if type(default) not in (bool, int, float, str):
        raise RegistrationError(
            f"{full}: default of an option must be a bool, int, float or str, got {default!r}; "
            "its type is that of every value"
        )
    if not isinstance(comment, str) or not comment.strip():
        raise RegistrationError(
            f"{full}: comment of an option must say what it does, got {comment!r}; write a sentence"
        )
    return OptionRegistration(full, default, comment)  # type: ignore[arg-type]


def make_annex(topic: str, subject: object, target: object) -> AnnexRegistration:
    """Check and return one annex; the caller checks a target that is not a string."""
    rules.check_name(topic, "topic")
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise RegistrationError(
            f"{topic}: subject of an annex must be a text on one line, got {subject!r}; "
            "write the name of what the annex is about"
        )
    annex = AnnexRegistration(topic, subject, target)
    if isinstance(target, str):
        rules.check_target(target, annex.name)
    return annex
