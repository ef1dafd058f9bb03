"""One kernel of a compiled library: its table as Python sees it, and how it is made ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_code, dtype_to_code
from opwright.describe.meta import Meta
from opwright.describe.op_proto import AttrType, OpProto
from opwright.errors import KernelError, OpwrightError
from opwright.registry.rules import ANY


class NativeKernel:
    """One kernel of a library: its functions, and its description of itself.

    Attributes
    ----------
    library : Library
        Where it lies; open as long as this object or something prepared by it lives.
    address : int
        Of its ``ow_kernel``.
    op_type, device, library_name : str
        Of its key.
    dtypes : tuple of str
        Dispatch dtypes that it computes, ``("*",)`` for all.
    priority : int
    may_reuse : tuple of (str, str)
    capturable, deterministic, by_threads, blocks, strided : bool
        As of `KernelEntry`.
    """

    __slots__ = (
        "address",
        "blocks",
        "by_threads",
        "capturable",
        "deterministic",
        "device",
        "dtypes",
        "library",
        "library_name",
        "may_reuse",
        "op_type",
        "priority",
        "strided",
    )

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
        metas: tuple[Sequence[Sequence[Meta]], Sequence[Sequence[Meta]]],
        attrs: Mapping[str, Any],
        *,
        packable: Sequence[int] = (),
        n_threads: int = 1,
        device: _runtime.Device | None = None,
        deterministic: bool = False,
    ) -> _runtime.Prepared:
        """Make the kernel ready for attributes and metas.

        Parameters
        ----------
        proto : OpProto
            Of the operator.
        metas : (inputs, outputs)
            Slot by slot, in the order of the OpProto; an absent slot is empty.
        attrs : mapping
            Those that are not absent.
        packable : sequence of int
            Flat arguments that the plan reads from the scope and never writes.
        n_threads : int
            The count that the kernel will be called with.
        device : Device, optional
            None: the host.
        deterministic : bool
            Whether `n_threads` is the count that is the same on every machine, so that bits are.

        Raises
        ------
        RefusedError
            With the kernel's reason.
        KernelError
            Where prepare fails otherwise.
        """
        typed = typed_attrs(proto, attrs)
        return self._prepare(proto, metas, typed, packable, n_threads, device, deterministic)

    def prepare_call(
        self,
        proto: OpProto,
        metas: tuple[Sequence[Sequence[Meta]], Sequence[Sequence[Meta]]],
        attrs: Mapping[str, Any],
        device: _runtime.Device,
    ) -> _runtime.Prepared:
        """Make the kernel ready for an operator of which it knows nothing but these attributes.

        Parameters and errors as of `prepare`; the attributes are another kernel's, see
        `opwright.kernel.DeviceCall`.
        """
        typed = [(name, _type_number(name, value), value) for name, value in attrs.items()]
        return self._prepare(proto, metas, typed, (), 1, device)

    def _prepare(
        self,
        proto: OpProto,
        metas: tuple[Sequence[Sequence[Meta]], Sequence[Sequence[Meta]]],
        attrs: list[tuple[str, int, Any]],
        packable: Sequence[int],
        n_threads: int,
        device: _runtime.Device | None,
        deterministic: bool = False,
    ) -> _runtime.Prepared:
        inputs, outputs = metas
        return _runtime.prepare_native(
            self.address,
            attrs,
            coded_metas(inputs),
            coded_metas(outputs),
            n_threads,
            arg_flags=list(_arg_flags(proto, inputs, outputs, packable)),
            device=device,
            keep_alive=self.library,
            deterministic=deterministic,
        )


def typed_attrs(proto: OpProto, attrs: Mapping[str, Any]) -> list[tuple[str, int, Any]]:
    """Return attributes as the runtime takes them: name, number of the type, value."""
    values = ((attr, attrs.get(attr.name)) for attr in proto.attrs)
    return [(attr.name, attr.type.value, value) for attr, value in values if value is not None]


def _type_number(name: str, value: object) -> int:
    """Return the number of the attribute type that a Python value is handed over as."""
    of_list = isinstance(value, (list, tuple))
    sample = (value[0] if value else 0) if isinstance(value, (list, tuple)) else value
    for kinds, scalar, plural in (
        (bool, AttrType.BOOL, AttrType.BOOLS),
        (int, AttrType.INT, AttrType.INTS),
        (float, AttrType.FLOAT, AttrType.FLOATS),
        ((str, bytes), AttrType.STRING, AttrType.STRINGS),
    ):
        if isinstance(sample, kinds):
            return (plural if of_list else scalar).value
    raise KernelError(
        f"DeviceCall: attribute {name!r} must be an int, a float, a bool, a str, bytes or a list "
        f"of one of these, got {type(sample).__name__}; make it one"
    )


def coded_metas(slots: Sequence[Sequence[Meta]]) -> list[list[tuple[tuple[int, ...], int]]]:
    """Return metas as the runtime takes them: shape and dtype code."""
    return [[(meta.shape, dtype_to_code(meta.dtype)) for meta in metas] for metas in slots]


def _known_dtypes(codes: Sequence[int]) -> Iterator[str]:
    """Yield the names of dtype codes; skip unknown ones, which a newer ABI may have."""
    for code in codes:
        try:
            yield dtype_from_code(code)
        except OpwrightError:
            continue


def _arg_flags(
    proto: OpProto,
    inputs: Sequence[Sequence[Meta]],
    outputs: Sequence[Sequence[Meta]],
    packable: Sequence[int],
) -> Iterator[int]:
    flat = 0
    for slot, metas in zip(proto.inputs, inputs, strict=True):
        for _ in metas:
            if slot.shape_only:
                yield _runtime.ARG_SHAPE_ONLY
            else:
                yield _runtime.ARG_PACKABLE if flat in packable else 0
            flat += 1
    for metas in outputs:
        for meta in metas:
            yield _runtime.ARG_DYNAMIC if -1 in meta.shape else 0
