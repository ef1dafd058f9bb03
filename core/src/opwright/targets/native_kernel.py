"""A kernel of a compiled library, with its properties as Python values, and its preparation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_code, dtype_to_code
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrType, OpProto
from opwright.errors import KernelError, OpwrightError
from opwright.packages.registrations import ANY

_Metas: TypeAlias = tuple[Sequence[Sequence[Meta]], Sequence[Sequence[Meta]]]


class NativeKernel:
    """A kernel of a library, with its functions and the properties that the library declares.

    `library` stays open as long as this object, or a kernel that it has prepared, exists. `address`
    is the address of the ``ow_kernel``; `dtypes` are the dispatch dtypes, ``("*",)`` for all. The
    other attributes are as in `KernelEntry`.
    """

    def __init__(self, library: _runtime.Library, row: tuple[Any, ...]) -> None:
        self.library = library
        self.address, self.op_type, self.device, codes, self.library_name, *rest = row
        self.priority, flags, self.may_reuse = rest
        self.dtypes = tuple(_known_dtypes(codes)) if codes else (ANY,)
        self.capturable = bool(flags & _runtime.KERNEL_CAPTURABLE)
        self.deterministic = not flags & _runtime.KERNEL_NONDETERMINISTIC
        self.by_threads = bool(flags & _runtime.KERNEL_BY_THREADS)
        self.blocks = bool(flags & _runtime.KERNEL_BLOCKS)
        self.strided = bool(flags & _runtime.KERNEL_STRIDED)

    def __repr__(self) -> str:
        return f"<compiled kernel {self.op_type}[{self.device}] of {self.library.path}>"

    def prepare(
        self,
        proto: OpProto,
        metas: _Metas,
        attrs: Mapping[str, Any],
        *,
        packable: Sequence[int] = (),
        unread: Sequence[int] = (),
        n_threads: int = 1,
        device: _runtime.Device | None = None,
        deterministic: bool = False,
        typed_by_value: bool = False,
        untyped: str = "",
    ) -> _runtime.Prepared:
        """Prepare the kernel for given attributes and for metas, slot by slot.

        `packable` are the flat arguments that the plan reads from the scope and never writes;
        `unread` are the arguments that are never read. With `deterministic`, `n_threads` is the
        same on all machines, and so are the results. The types of attributes come from the OpProto,
        or, with `typed_by_value`, from the values. The attribute `untyped` has its value but type
        0, so a kernel that checks types fails to read it. Raises RefusedError with the reason of
        the kernel, and KernelError if prepare fails otherwise.
        """
        if typed_by_value:
            typed = [(name, _type_number(name, value), value) for name, value in attrs.items()]
        else:
            typed = typed_attrs(proto, attrs)
        if untyped:
            typed = [(name, -kind if name == untyped else kind, v) for name, kind, v in typed]
        inputs, outputs = metas
        return _runtime.prepare_native(
            self.address,
            typed,
            coded_metas(inputs),
            coded_metas(outputs),
            n_threads,
            arg_flags=arg_flags(proto, inputs, outputs, packable, unread),
            device=device,
            keep_alive=self.library,
            deterministic=deterministic,
        )

    def prepare_call(
        self, proto: OpProto, metas: _Metas, attrs: Mapping[str, Any], device: _runtime.Device
    ) -> _runtime.Prepared:
        """Prepare the kernel for a `DeviceCall`, which does not name an operator."""
        return self.prepare(proto, metas, attrs, device=device, typed_by_value=True)


def typed_attrs(proto: OpProto, attrs: Mapping[str, Any]) -> list[tuple[str, int, Any]]:
    """Return attributes in the form of the runtime: name, type number and value."""
    return [
        (attr.name, attr.type, value)
        for attr in proto.attrs
        if (value := attrs.get(attr.name)) is not None
    ]


def _type_number(name: str, value: object) -> int:
    """Return the number of the attribute type that fits a Python value."""
    is_list = isinstance(value, (list, tuple))
    sample = (value[0] if value else 0) if isinstance(value, (list, tuple)) else value
    for kinds, scalar, plural in (
        (bool, AttrType.BOOL, AttrType.BOOLS),
        (int, AttrType.INT, AttrType.INTS),
        (float, AttrType.FLOAT, AttrType.FLOATS),
        ((str, bytes), AttrType.STRING, AttrType.STRINGS),
    ):
        if isinstance(sample, kinds):
            return plural if is_list else scalar
    raise KernelError(
        f"DeviceCall: attribute {name!r} must be an int, a float, a bool, a str, bytes or a list "
        f"of one of these, got {type(sample).__name__}; convert it"
    )


def coded_metas(slots: Sequence[Sequence[Meta]]) -> list[list[tuple[tuple[int, ...], int]]]:
    """Return metas in the form of the runtime: shape and dtype code."""
    return [[(meta.shape, dtype_to_code(meta.dtype)) for meta in metas] for metas in slots]


def _known_dtypes(codes: Sequence[int]) -> Iterator[str]:
    """Yield the names of dtype codes; skip unknown codes, which a newer ABI may have."""
    for code in codes:
        try:
            yield dtype_from_code(code)
        except OpwrightError:
            continue


def arg_flags(
    proto: OpProto,
    inputs: Sequence[Sequence[Meta]],
    outputs: Sequence[Sequence[Meta]],
    packable: Sequence[int],
    unread: Sequence[int],
) -> list[int]:
    """Return the description of each argument for `prepare`."""
    flags = [
        _runtime.ARG_SHAPE_ONLY if slot.shape_only else 0
        for slot, metas in zip(proto.inputs, inputs, strict=True)
        for _ in metas
    ]
    for flat in packable:
        flags[flat] = flags[flat] or _runtime.ARG_PACKABLE
    flags += [_runtime.ARG_DYNAMIC if -1 in m.shape else 0 for metas in outputs for m in metas]
    for flat in unread:
        flags[flat] |= _runtime.ARG_UNREAD
    return flags
