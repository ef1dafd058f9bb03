"""The registrations of a plugin as plain data, without imports; the index stores them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from opwright.describe.dtypes import NARROW_DTYPES
from opwright.records import NamedTuple

ANY: Final = "*"
"""Means every dtype or every device."""

PHASES: Final = ("canonicalize", "fuse", "layout", "memory")
"""The phases of passes, in the order in which they run."""


def key_text(*parts: str) -> str:
    """Return a kernel key for messages, such as ``softmax[cpu, float32, onednn]``."""
    return f"{parts[0]}[{', '.join(parts[1:])}]"


def fits_dtype(named: Collection[str], dtype: str) -> bool:
    """Whether a kernel for the named dtypes supports a dtype; ``"*"`` excludes narrow dtypes."""
    return dtype in named or (ANY in named and dtype not in NARROW_DTYPES)


class KernelKey(NamedTuple):
    """The identity of a kernel.

    Attributes
    ----------
    op_type : str
        Operator type.
    device : str
        Device type, such as ``"cpu"`` or ``"cuda"``, or ``"*"`` for any.
    dtype : str
        Canonical name of the dispatch dtype, or ``"*"`` for any.
    library : str
        The library that implements it, such as ``"numpy"``, ``"native"``, ``"onednn"`` or
        ``"acme"``.
    """

    op_type: str
    device: str
    dtype: str
    library: str

    def __str__(self) -> str:
        return key_text(*self)


class OpRegistration(NamedTuple):
    """One operator of ``opwright_ops``; `aliases` are names in other frameworks, for messages."""

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
        """Return the key for one dtype, as shown in messages; kernel keys must be unique."""
        return key_text(self.op_type, self.device, dtype, self.library)


class DeviceRegistration(NamedTuple):
    """One device of ``opwright_devices``; `arrays` is empty if it was not given."""

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
    """One option of ``opwright_options``; `name` includes the plugin: ``"cuda.allow_tf32"``."""

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
        """The annex as shown in messages, such as ``onnx[Relu]``."""
        return key_text(self.topic, self.subject)
