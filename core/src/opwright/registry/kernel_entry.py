"""One registered kernel, with its key and package; its object is imported at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opwright.errors import OpwrightError, RegistrationError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.registrations import KernelKey, KernelRegistration
from opwright.packages.rules import is_library
from opwright.registry.named import Entry
from opwright.registry.operators import OpRegistry

if TYPE_CHECKING:  # importing them takes 15 ms
    from opwright.targets.native_kernel import NativeKernel
    from opwright.targets.python_layout import PythonLayout


class KernelEntry(Entry):
    """One kernel in the registry, for one dtype.

    A compiled kernel is described by its library, so `may_reuse`, `capturable`, `deterministic`,
    `strided`, `by_threads` and `blocks` are known once it is loaded.

    Attributes
    ----------
    op_type, device, dtype, library : str
        The key; device and dtype may be ``"*"``.
    target : str or object
        ``"module:attribute"``, the path of a library in the package, or the kernel itself.
    package : Package
        The package that provides it.
    priority, may_reuse, capturable, deterministic, strided
        As given to `opwright.plugin.KernelRegistrar.add`.
    by_threads : bool
        Whether the number of threads may change the last bits.
    blocks : bool
        Whether it may wait for another process.
    prefers : mapping of str to value
        Attribute values with which the kernel is fastest, such as ``{"data_format": "NHWC"}``, with
        tuples for lists. The values are a hint for passes and do not affect the choice of kernels.
    is_native : bool
        Whether the kernel is compiled, so that its target is a library.
    find_refusal : str
        ``"module:attribute"`` of a function that returns why the kernel would refuse on this
        machine; empty for none. Commands query it, see `opwright.registry.kernels`; plans do not.
    """

    key: KernelKey

    def __init__(
        self, registration: KernelRegistration, dtype: str, package: Package, ops: OpRegistry
    ) -> None:
        key = KernelKey(registration.op_type, registration.device, dtype, registration.library)
        super().__init__(key, registration, package, ops.libraries)
        self.dtype = dtype
        self.is_native = is_library(self.target)
        self.by_threads = self.blocks = False
        self.prefers: Mapping[str, Any] = MappingProxyType(dict(registration.prefers))
        self._ops = ops
        self._layout: PythonLayout | None = None

    def __repr__(self) -> str:
        return f"<kernel {self.who}>"

    @property
    def who(self) -> str:
        """The kernel's key and package, such as ``add[cpu, *, numpy] of opwright-std 0.1``."""
        return f"{self.key} of {self.package.label}"

    def _load(self) -> Any:
        """Import the kernel, and check its signature against the operator.

        Returns
        -------
        object
            A function of slots and attributes, a class with ``prepare``, or a `NativeKernel`.

        Raises
        ------
        PluginError
            If the target cannot be imported, or its library cannot be used.
        RegistrationError
            If it is not a kernel, does not accept all slots and attributes, or names unknown ones.
        """
        loaded = self._load_native() if self.is_native else super()._load()
        self._check(loaded)
        self._check_names()
        return loaded

    def _load_native(self) -> NativeKernel:
        library = self._libraries.load(self.target, str(self.key), self.package)
        kernel = library.find_kernel(self.key)
        if kernel.priority != self.priority:
            raise RegistrationError(
                f"{self.who}: priority must be equal in hook and library, got {self.priority} and "
                f"{kernel.priority}; pass priority={kernel.priority} to registry.add"
            )
        self.may_reuse, self.strided = kernel.may_reuse, kernel.strided
        self.capturable, self.deterministic = kernel.capturable, kernel.deterministic
        self.by_threads, self.blocks = kernel.by_threads, kernel.blocks
        return kernel

    def _check_names(self) -> None:
        if not self.is_native and not self.may_reuse and not self.prefers:
            return
        definition = self._ops.get(self.op_type)
        for output, input in self.may_reuse:
            if output not in definition.output_index or input not in definition.input_index:
                raise RegistrationError(
                    f"{self.who}: may_reuse must name an output and an input slot, "
                    f"got {(output, input)!r}; see: opwright ops {self.op_type}"
                )
        attrs = definition.proto.attr_protos
        for name, value in self.prefers.items():
            if name not in attrs:
                raise RegistrationError(
                    f"{self.who}: prefers must name attributes of the operator, "
                    f"got {name!r}{hint(name, attrs, 'attributes')}"
                )
            try:
                attrs[name].check(self.op_type, value)
            except OpwrightError as error:
                raise RegistrationError(f"{self.who}: prefers: {error}") from None

    def suits(self, attrs: Mapping[str, object], name: str) -> bool:
        """Whether `attrs` match all values that the kernel prefers, and `name` is among these."""
        return name in self.prefers and all(attrs.get(k) == v for k, v in self.prefers.items())

    @property
    def origin(self) -> str:
        """The library or module from which the kernel is loaded; for a given object, its name."""
        if not isinstance(self.target, str):
            return getattr(self.target, "__module__", None) or repr(self.target)
        return self.target.partition(":")[0]

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has succeeded before."""
        return self._loaded is not None

    @cached_property
    def takes_prepare(self) -> bool:
        """Whether the kernel is a class (or an object) with ``prepare``; loads it."""
        return hasattr(self.load(), "prepare")

    @property
    def layout(self) -> PythonLayout | None:
        """The argument layout of a plain function; None for a kernel with ``prepare``. Loads it."""
        self.load()
        return self._layout

    def check_prepared(self, prepared: Callable[..., object]) -> PythonLayout:
        """Return the layout of the callable that ``prepare`` returned; it accepts only slots.

        Raises RegistrationError if it does not accept every slot.
        """
        return self._read_signature(prepared, with_attributes=False)

    def _check(self, loaded: object) -> None:
        if hasattr(loaded, "prepare"):
            return
        if isinstance(loaded, type) or not callable(loaded):
            raise RegistrationError(
                f"{self.who}: a kernel must be a function of slots and attributes or a class with "
                f"'prepare', got {loaded!r}; name one of these in the hook"
            )
        self._layout = self._read_signature(loaded, with_attributes=True)

    def _read_signature(
        self, function: Callable[..., object], with_attributes: bool
    ) -> PythonLayout:
        from opwright.targets.python_layout import check_signature

        definition = self._ops.get(self.op_type)
        return check_signature(function, definition, who=self.who, with_attributes=with_attributes)
