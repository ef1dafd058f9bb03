"""The hooks that a plugin implements, and the registrars that its hooks are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import pluggy

from opwright.errors import PluginError, RegistrationError
from opwright.registry import (
    ANY,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    Package,
    PassRegistration,
)
from opwright.registry import registrations as make
from opwright.registry.rules import check_op_type, check_target

GROUP: Final = "opwright.plugins"
"""The entry-point group of plugins."""

HOOKS: Final = (
    "opwright_ops",
    "opwright_kernels",
    "opwright_devices",
    "opwright_passes",
    "opwright_options",
)
"""The names of all hooks, in the order in which they are called."""

hookspec: Final = pluggy.HookspecMarker("opwright")
"""Marks the specification of a hook; opwright's own are in this module."""

hookimpl: Final = pluggy.HookimplMarker("opwright")
"""Marks a plugin's function as the implementation of the hook of the same name."""


_Registration = TypeVar("_Registration")


class _Registrar(Generic[_Registration]):
    """Collects what one plugin adds; nothing of it counts before every hook has returned."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.additions: list[_Registration] = []
        self._taken: set[str] = set()
        self._is_open = True

    def close(self) -> None:
        """Refuse what comes after the hook has returned."""
        self._is_open = False

    def _check_open(self, who: str) -> None:
        if not self._is_open:
            raise PluginError(
                f"{who}: a plugin may add only while its hook runs, got it later from "
                f"{self.package.label}; add everything before the hook returns"
            )

    def _enter(self, registration: _Registration, names: Sequence[str]) -> None:
        """Note a registration under its names, none of which may have been noted before."""
        for name in names:
            if name in self._taken:
                raise RegistrationError(
                    f"{name}: registered twice by {self.package.label}; remove one of the two"
                )
        self._taken.update(names)
        self.additions.append(registration)


class OpRegistrar(_Registrar[OpRegistration]):
    """What ``opwright_ops`` is given."""

    def add(
        self, type: str, target: str, hidden: bool = False, aliases: Iterable[str] = ()
    ) -> None:
        """Add one operator.

        Parameters
        ----------
        type : str
            Operator type, ``"<plugin>.<name>"``; unprefixed only from opwright-std.
        target : str
            ``"module:attribute"`` of what ``OpMaker.build`` returned, or the library that has the
            operator: its path in the package, ``"opwright_acme/libacme.so"``.
        hidden : bool
            Left out of listings: a helper of gradients.
        aliases : list of str
            Names that other frameworks have for it. Nobody can call it by them: they only make the
            error for such a name say ``did you mean``.

        Raises
        ------
        RegistrationError
            For a malformed type or target, a foreign prefix, or a type added twice.
        """
        self._check_open(type)
        registration = make.make_op(type, target, hidden, aliases)
        check_op_type(type, self.package)
        self._enter(registration, [type])


class KernelRegistrar(_Registrar[KernelRegistration]):
    """What ``opwright_kernels`` is given."""

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
        """Add one kernel for one or several dtypes, of any plugin's operator.

        Parameters
        ----------
        op_type : str
            The operator's type.
        device : str
            Device type: ``"cpu"``, ``"cuda"``; ``"*"`` for any.
        dtypes : list of str or "*"
            Canonical names of the dispatch dtypes, or all of them.
        kernel : str
            ``"module:attribute"`` of a function of the operator's slots and attributes, or of a
            class with ``prepare``; or the library that has a kernel of this key: its path in the
            package, ``"opwright_acme/libacme.so"``. `may_reuse`, `capturable`, `deterministic` and
            `strided` are then said by the library, and an error here.
        library : str, optional
            Whose implementation it is; by default the plugin's name.
        priority : int
            0 to 99, the highest is tried first: 0 for references, 50 for a plugin's usual one.
        may_reuse : list of (str, str)
            Pairs (output slot, input slot): the output may lie where that input lies.
        capturable : bool
            May be recorded in a device graph: the kernel only enqueues work on the current stream,
            and what it computes on the host need not be done again in later runs.
        deterministic : bool
            Gives equal bits for equal inputs.
        strided : bool
            Takes inputs that are not compact row-major.
        prefers : mapping of str to value, optional
            Attribute values with which the kernel is at its best, ``{"data_format": "NHWC"}``: a
            hint for passes, which may bring the operator into that form. The kernel is chosen as
            if it were not there.
        find_refusal : str, optional
            ``"module:attribute"`` of a function without arguments, or of ``options``, that says why
            the kernel would refuse on this machine, whatever it is asked to compute, or returns
            None: an optional library that is not installed. Only commands that show kernels call
            it.

        Raises
        ------
        RegistrationError
            For anything malformed, or a key added twice.
        """
        self._check_open(op_type)
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
    """What ``opwright_devices`` is given."""

    def add(self, name: str, target: str, *, arrays: str | None = None) -> None:
        """Add one device.

        Parameters
        ----------
        name : str
            Device type.
        target : str
            ``"module:attribute"`` of the device object, an `opwright.device.PythonDevice`; of an
            `opwright.device.PythonDevices`, which opens them by number; or the path of a library
            in the package, ``"opwright_acme/libacme.so"``, that has a device of this name.
        arrays : str, optional
            Only for a device in a library: ``"module:attribute"`` of an
            `opwright.device.DeviceArrays`, which makes the arrays that kernels written in Python
            get there. It is imported when the first such kernel is chosen; without it such
            kernels are refused.

        Raises
        ------
        RegistrationError
            For a malformed name or target, or a name added twice.
        """
        self._check_open(name)
        check_target(target, name, libraries=True)
        self._enter(make.make_device(name, target, arrays), [name])


class PassRegistrar(_Registrar[PassRegistration]):
    """What ``opwright_passes`` is given."""

    def add(self, name: str, *, phase: str, function: str, device: str = ANY) -> None:
        """Add one pass.

        Parameters
        ----------
        name : str
            By which it is switched; one name for all plugins.
        phase : str
            When it runs: canonicalize, fuse, layout or memory.
        function : str
            ``"module:attribute"`` of the function.
        device : str
            For which device it runs, ``"*"`` for any.

        Raises
        ------
        RegistrationError
            For anything malformed, or a name added twice.
        """
        self._check_open(name)
        check_target(function, name)
        self._enter(make.make_pass(name, phase, function, device), [name])


class OptionRegistrar(_Registrar[OptionRegistration]):
    """What ``opwright_options`` is given."""

    def add(self, name: str, *, default: bool | int | float | str, comment: str) -> None:
        """Add one option, which users choose for a plan as ``"<plugin>.<name>"``.

        Parameters
        ----------
        name : str
            Without the plugin's: ``"allow_tf32"``.
        default : bool, int, float or str
            Its value where none is chosen; every other must be of the same type.
        comment : str
            What it does.

        Raises
        ------
        RegistrationError
            For anything malformed, or a name added twice.
        """
        self._check_open(name)
        registration = make.make_option(name, default, comment, self.package)
        self._enter(registration, [registration.name])


@hookspec
def opwright_ops(registry: OpRegistrar) -> None:
    """Name the operators that the plugin provides."""


@hookspec
def opwright_kernels(registry: KernelRegistrar) -> None:
    """Name the kernels that the plugin provides, for any plugin's operators."""


@hookspec
def opwright_devices(registry: DeviceRegistrar) -> None:
    """Name the devices that the plugin provides."""


@hookspec
def opwright_passes(registry: PassRegistrar) -> None:
    """Name the passes that the plugin provides."""


@hookspec
def opwright_options(registry: OptionRegistrar) -> None:
    """Declare what users may choose for a plan, and the plugin's kernels read in ``prepare``."""
