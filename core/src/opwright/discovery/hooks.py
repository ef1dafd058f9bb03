"""The hooks that a plugin implements, and the registrars that they receive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import pluggy

from opwright.errors import PluginError, RegistrationError
from opwright.packages import (
    ANY,
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    Package,
    PassRegistration,
)
from opwright.packages import rules as make
from opwright.packages.rules import check_owner, check_target

hookspec: Final = pluggy.HookspecMarker("opwright")
"""Marks the specification of a hook; the hooks of opwright are in this module."""

hookimpl: Final = pluggy.HookimplMarker("opwright")
"""Marks a function of a plugin as the implementation of the hook of the same name."""


_Registration = TypeVar("_Registration")


class _Registrar(Generic[_Registration]):
    """Collects the additions of one plugin; they take effect after all hooks have returned."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.additions: list[_Registration] = []
        self._taken: set[str] = set()
        self._is_open = True

    def close(self) -> None:
        """Refuse further additions, because the hook has returned."""
        self._is_open = False

    def _enter(self, registration: _Registration, names: Sequence[str]) -> None:
        if not self._is_open:
            raise PluginError(
                f"{names[0]}: must be added while the hook of its plugin runs, got it later from "
                f"{self.package.label}; add everything before the hook returns"
            )
        for name in names:
            if name in self._taken:
                raise RegistrationError(
                    f"{name}: registered twice by {self.package.label}; remove one of the two"
                )
        self._taken.update(names)
        self.additions.append(registration)


class OpRegistrar(_Registrar[OpRegistration]):
    """The argument of ``opwright_ops``."""

    def add(
        self, type: str, target: str, hidden: bool = False, aliases: Iterable[str] = ()
    ) -> None:
        """Add one operator.

        Parameters
        ----------
        type : str
            Operator type, ``"<plugin>.<name>"``, or unprefixed for opwright-std only.
        target : str
            ``"module:attribute"`` of the result of ``OpMaker.build``, or the path of the library in
            the package that contains it, ``"opwright_acme/libacme.so"``.
        hidden : bool
            Whether listings omit it, such as a helper of gradients.
        aliases : list of str
            Names of the operator in other frameworks. They cannot be called, but the error for such
            a name suggests the operator.

        Raises
        ------
        RegistrationError
            For a malformed type or target, a foreign prefix, or a type added twice.
        """
        check_owner(type, self.package)
        self._enter(make.make_op(type, target, hidden, aliases), [type])


class KernelRegistrar(_Registrar[KernelRegistration]):
    """The argument of ``opwright_kernels``."""

    def add(
        self,
        op_type: str,
        *,
        device: str,
        dtypes: Sequence[str] | str,
        kernel: str,
        library: str | None = None,
        priority: int = 50,
        may_reuse: Iterable[tuple[str, str]] = (),
        capturable: bool = False,
        deterministic: bool = True,
        strided: bool = False,
        prefers: Mapping[str, object] | None = None,
        find_refusal: str | None = None,
    ) -> None:
        """Add one kernel, for one or several dtypes, of an operator of any plugin.

        Parameters
        ----------
        op_type : str
            The operator type.
        device : str
            Device type, such as ``"cpu"`` or ``"cuda"``, or ``"*"`` for any.
        dtypes : list of str or "*"
            Canonical names of the dispatch dtypes; ``"*"`` for all except narrow dtypes (float8,
            int4, uint4), which must be named in addition, as in ``["*", "int4"]``.
        kernel : str
            ``"module:attribute"`` of a function of the slots and attributes of the operator, or of
            a class with ``prepare``. Or the path of the library in the package that contains a
            kernel with this key, ``"opwright_acme/libacme.so"``; `may_reuse`, `capturable`,
            `deterministic` and `strided` are then declared by the library, and giving them here is
            an error.
        library : str, optional
            The library that implements it; by default the name of the plugin.
        priority : int
            From 0 to 99, highest first. 0 is for reference kernels, 50 is usual for plugins.
        may_reuse : list of (str, str)
            Pairs (output slot, input slot) for which the output may overwrite the input.
        capturable : bool
            Whether it may be recorded in a device graph, because it only enqueues work on the
            current stream and its work on the host need not be repeated in later runs.
        deterministic : bool
            Whether equal inputs give bitwise identical outputs.
        strided : bool
            Whether it accepts inputs that are not compact row-major.
        prefers : mapping of str to value, optional
            The attribute values with which the kernel is fastest, such as ``{"data_format":
            "NHWC"}``. The values are a hint for passes, which may rewrite the operator accordingly;
            they do not influence the choice of kernels.
        find_refusal : str, optional
            ``"module:attribute"`` of a function without arguments, or with the argument
            ``options``. It returns why the kernel would refuse every operator on this machine, such
            as a missing optional library, or None. Only commands that show kernels call it.

        Raises
        ------
        RegistrationError
            For anything malformed, or a key added twice.
        """
        check_target(kernel, op_type, libraries=True)
        registration = make.check_kernel(
            KernelRegistration(
                op_type,
                device,
                dtypes,  # type: ignore[arg-type]  # which check_kernel makes a tuple
                self.package.plugin if library is None else library,
                kernel,
                priority,
                may_reuse,  # type: ignore[arg-type]  # likewise
                capturable,
                deterministic,
                strided,
                prefers,  # type: ignore[arg-type]  # likewise
                find_refusal or "",
            )
        )
        self._enter(registration, [registration.key_for(dtype) for dtype in registration.dtypes])


class DeviceRegistrar(_Registrar[DeviceRegistration]):
    """The argument of ``opwright_devices``."""

    def add(self, name: str, target: str, *, arrays: str | None = None) -> None:
        """Add one device.

        Parameters
        ----------
        name : str
            Device type.
        target : str
            ``"module:attribute"`` of the device object, an `opwright.device.PythonDevice`; or of an
            `opwright.device.PythonDevices`, which opens devices by number; or the path of a library
            in the package, ``"opwright_acme/libacme.so"``, that contains a device of this name.
        arrays : str, optional
            Only for a device in a library: ``"module:attribute"`` of an
            `opwright.device.DeviceArrays`, which creates the arrays for Python kernels on this
            device. It is imported when the first such kernel is chosen; without it, such kernels
            are refused.

        Raises
        ------
        RegistrationError
            For a malformed name or target, or a name added twice.
        """
        check_target(target, name, libraries=True)
        self._enter(make.make_device(name, target, arrays), [name])


class PassRegistrar(_Registrar[PassRegistration]):
    """The argument of ``opwright_passes``."""

    def add(
        self,
        name: str,
        *,
        phase: str,
        function: str,
        device: str = ANY,
        operators: Iterable[str] = (),
    ) -> None:
        """Add one pass.

        Parameters
        ----------
        name : str
            The name by which users enable or disable the pass, unique among all plugins.
        phase : str
            The phase in which it runs: canonicalize, fuse, layout or memory.
        function : str
            ``"module:attribute"`` of the function.
        device : str
            The device for which it runs, ``"*"`` for any.
        operators : list of str, optional
            Operator types, with ``"*.swish"`` for any plugin. Unless the graph contains one of
            these, the pass is neither imported nor run. By default it runs on every graph.

        Raises
        ------
        RegistrationError
            For anything malformed, or a name added twice.
        """
        check_target(function, name)
        self._enter(make.make_pass(name, phase, function, device, operators), [name])


class OptionRegistrar(_Registrar[OptionRegistration]):
    """The argument of ``opwright_options``."""

    def add(self, name: str, *, default: bool | int | float | str, comment: str) -> None:
        """Add one option, which users choose for a plan as ``"<plugin>.<name>"``.

        Parameters
        ----------
        name : str
            The name without the plugin prefix, such as ``"allow_tf32"``.
        default : bool, int, float or str
            The value if none is chosen; chosen values must have the same type.
        comment : str
            Its effect.

        Raises
        ------
        RegistrationError
            For anything malformed, or a name added twice.
        """
        registration = make.make_option(name, default, comment, self.package)
        self._enter(registration, [registration.name])


class AnnexRegistrar(_Registrar[AnnexRegistration]):
    """The argument of ``opwright_annexes``."""

    def add(self, topic: str, subject: str, target: str) -> None:
        """Name one object for other packages; they read it from `Context.annexes`.

        Parameters
        ----------
        topic : str
            The purpose in lower_snake, such as ``"onnx"``. The package that reads the topic defines
            it.
        subject : str
            The subject within the topic, on one line, such as ``"Relu"``.
        target : str
            ``"module:attribute"`` of the object, imported at first use.

        Raises
        ------
        RegistrationError
            For anything malformed, or a pair of topic and subject added twice.
        """
        check_target(target, topic)
        registration = make.make_annex(topic, subject, target)
        self._enter(registration, [registration.name])


REGISTRARS: Final[Mapping[str, type[_Registrar[Any]]]] = {
    "opwright_ops": OpRegistrar,
    "opwright_kernels": KernelRegistrar,
    "opwright_devices": DeviceRegistrar,
    "opwright_passes": PassRegistrar,
    "opwright_options": OptionRegistrar,
    "opwright_annexes": AnnexRegistrar,
}
"""Maps the name of each hook to its registrar, in call order."""

HOOKS: Final = tuple(REGISTRARS)
"""The names of all hooks, in call order."""


@hookspec
def opwright_ops(registry: OpRegistrar) -> None:
    """Name the operators that the plugin provides."""


@hookspec
def opwright_kernels(registry: KernelRegistrar) -> None:
    """Name the kernels that the plugin provides, for operators of any plugin."""


@hookspec
def opwright_devices(registry: DeviceRegistrar) -> None:
    """Name the devices that the plugin provides."""


@hookspec
def opwright_passes(registry: PassRegistrar) -> None:
    """Name the passes that the plugin provides."""


@hookspec
def opwright_options(registry: OptionRegistrar) -> None:
    """Declare options that users choose for a plan and that kernels read in ``prepare``."""


@hookspec
def opwright_annexes(registry: AnnexRegistrar) -> None:
    """Name objects that other packages look up by topic; the core does not interpret them."""
