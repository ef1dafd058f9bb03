"""Compiled plugin libraries; their definitions, kernels and devices are read by key.

A hook module names a library by its path in the package, ``"opwright_acme/libacme.so"``, instead of
``"module:attribute"``. The operator type or kernel key in the registration selects the entry of the
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opwright import _runtime
from opwright.describe.definition import InferShape, NoGradient, OpDefinition
from opwright.describe.dtypes import dtype_from_code
from opwright.describe.gradient_rules import GradOp
from opwright.describe.meta import InferContext, Meta
from opwright.describe.op_proto import OpProto
from opwright.errors import FormatError, PluginError, RegistrationError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.registrations import ANY, KernelKey
from opwright.records import NamedTuple
from opwright.targets.native_kernel import NativeKernel, coded_metas, typed_attrs


class NativeDevice(NamedTuple):
    """One device of a library; see ``ow_device``."""

    library: _runtime.Library
    position: int
    helpers: Mapping[str, NativeKernel]

    @property
    def dlpack_code(self) -> int:
        """DLPack's DLDeviceType."""
        return self.library.dlpack_codes[self.position]

    def find_helper(self, name: str) -> NativeKernel:
        """Return a kernel of the library for use by other kernels of the device.

        Raises PluginError if the library has no kernel of this name.
        """
        helper = self.helpers.get(name)
        if helper is None:
            raise PluginError(
                f"{name}: no kernel of this name for the device is in {self.library.path}"
                f"{hint(name, self.helpers, 'kernels there')}"
            )
        return helper

    def open(self, number: int, package: Package) -> _runtime.Device:
        """Return the runtime device of this number; reopen it if it was freed.

        Raises KernelError, with the reason, if the device cannot be opened or does not exist.
        """
        origin = f"{package.label} ({self.library.path})"
        return self.library.open_device(self.position, number, origin)


class NativeLibrary:
    """An open library with its tables by type and key, created by `LibraryTable`."""

    def __init__(self, library: _runtime.Library, label: str) -> None:
        self._library = library
        self.label = label
        self._ops = {row[0]: (index, *row[1:]) for index, row in enumerate(library.ops)}
        # The kernels looked up so far: a process uses only a few of the hundreds in a library.
        self._kernels: dict[tuple[str, str, str], list[NativeKernel]] = {}

    def load_definition(self, type: str, hidden: bool = False) -> OpDefinition:
        """Return the definition of an operator in the library.

        Raises PluginError if the library has no operator of this type, and RegistrationError if its
        description breaks a rule or contradicts `hidden` in the hook.
        """
        if type not in self._ops:
            raise PluginError(
                f"{type}: no operator of this type is in {self.label}"
                f"{hint(type, self._ops, 'operators there')}"
            )
        index, data, gradient_type, needs, no_gradient_reason, is_hidden = self._ops[type]
        if is_hidden != hidden:
            raise RegistrationError(
                f"{type}: hidden must be equal in hook and library, got {hidden} from the hook and "
                f"{is_hidden} from {self.label}; pass hidden={is_hidden} to registry.add"
            )
        try:
            proto = OpProto.from_proto(data)
        except (FormatError, RegistrationError) as error:
            raise RegistrationError(
                f"{type}: {self.label} must provide a valid OpProto, got: {error}"
            ) from error
        gradient: GradOp | NoGradient | None = None
        if gradient_type is not None:
            gradient = GradOp(gradient_type, needs)
            gradient.check(proto)
        elif no_gradient_reason is not None:
            gradient = NoGradient(no_gradient_reason)
        infer_shape = _infer_shape(self._library, index, proto, self.label)
        return OpDefinition(proto, infer_shape, gradient)

    def find_kernel(self, key: KernelKey) -> NativeKernel:
        """Return the kernel with the dtype of a key, otherwise the kernel for every dtype.

        Raises PluginError if the library has neither.
        """
        for dtype in (key.dtype, ANY):
            for kernel in self._siblings(key.op_type, key.device, key.library):
                if dtype in kernel.dtypes:
                    return kernel
        known = list(self._kernel_texts(key.op_type))
        there = f"there are: {', '.join(known)}" if known else f"none is for {key.op_type}"
        raise PluginError(f"{key}: no such kernel is in {self.label}; {there}")

    def find_device(self, name: str) -> NativeDevice:
        """Return the device of this name in the library, unopened, or raise PluginError."""
        names = self._library.devices
        if name not in names:
            raise PluginError(
                f"{name}: no device of this name is in {self.label}{hint(name, names, 'devices')}"
            )
        helpers = {
            op_type: self._siblings(op_type, device, library)[0]
            for op_type, device, library in self._kernel_keys()
            if device == name
        }
        return NativeDevice(self._library, names.index(name), helpers)

    def _siblings(self, op_type: str, device: str, library: str) -> Sequence[NativeKernel]:
        """Return the kernels of one type, device and library name, in the order of the table."""
        key = op_type, device, library
        found = self._kernels.get(key)
        if found is None:
            rows = self._library.kernels_of(*key)
            found = self._kernels.setdefault(key, [NativeKernel(self._library, r) for r in rows])
        return found

    def _kernel_keys(self) -> Iterable[tuple[str, str, str]]:
        """Return the distinct (type, device, library name) of all kernels, in table order."""
        return dict.fromkeys((row[1], row[2], row[4]) for row in self._library.kernels)

    def _kernel_texts(self, op_type: str) -> Iterator[str]:
        for type, device, library in self._kernel_keys():
            if type == op_type:
                siblings = self._siblings(type, device, library)
                dtypes = " | ".join(dtype for kernel in siblings for dtype in kernel.dtypes)
                yield f"{type}[{device}, {dtypes}, {library}]"


def _infer_shape(library: _runtime.Library, index: int, proto: OpProto, label: str) -> InferShape:
    input_names = [slot.name for slot in proto.inputs]
    outputs = [slot.name for slot in proto.outputs]

    def infer_shape(ctx: InferContext) -> None:
        attrs = {attr.name: ctx.attr(attr.name) for attr in proto.attrs}
        slots = [ctx.inputs(name) for name in input_names]
        if not all(isinstance(d, int) for slot in slots for meta in slot for d in meta.shape):
            ctx.fail(f"the shape rule of {label} requires int sizes, got other types; convert them")
        try:
            inferred = library.infer(
                index,
                coded_metas(slots),
                typed_attrs(proto, attrs),
                [ctx.output_count(name) for name in outputs],
            )
        except PluginError as error:
            raise PluginError(f"{error}; it is the shape rule of {label}") from error
        for name, metas in zip(outputs, inferred, strict=True):
            _set_outputs(ctx, name, metas)

    return infer_shape


def _set_outputs(
    ctx: InferContext, name: str, metas: Sequence[tuple[tuple[int, ...], int] | None]
) -> None:
    """Set the metas of one slot; for dtype code 0, the OpProto determines the dtype."""
    known = [meta for meta in metas if meta is not None]
    if not known or len(known) != len(metas):
        return  # the caller reports outputs that are not set
    codes = {code for _, code in known}
    if len(codes) > 1:
        ctx.set_metas(name, [Meta(shape, dtype_from_code(code)) for shape, code in known])
        return
    code = codes.pop()
    shapes = [shape for shape, _ in known]
    ctx.set_outputs(name, shapes, dtype_from_code(code) if code else None)
