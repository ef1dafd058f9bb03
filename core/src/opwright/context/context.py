"""The Context: the available operators, kernels, devices and passes, and the pins.

The default Context is one of the few globals in opwright. Discovery creates the default Context at
first use. `context_guard` sets another Context for a block, in the thread or task that enters it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self
from weakref import ReferenceType

from opwright import _runtime
from opwright.context.guard import default_epoch, guarded_context, setting
from opwright.discovery.discover import Registries, Settings, discover, make_registries
from opwright.discovery.scan import PluginRecord
from opwright.errors import KernelNotFoundError, PluginError
from opwright.messages.names import hint
from opwright.packages import ANY, PluginFailure
from opwright.registry import KernelEntry

if TYPE_CHECKING:  # importing it takes 10 ms
    from opwright.describe.op_proto import OpProto


class Context:
    """Registries, pins and prepared kernels, which together with a program determine a plan.

    Parameters
    ----------
    registries : Registries, optional
        By default empty, to be filled manually; `Context.discover` fills them from plugins.
    records : sequence of PluginRecord
        The plugins that filled them.

    Attributes
    ----------
    ops, kernels, devices, passes, options, annexes
        The registries.
    report : PluginReport
        The state of every installed plugin.
    records : tuple of PluginRecord
        The registrations of each plugin.
    settings : Settings
        The environment variables for plugins, as read when the Context was made or last refreshed.
    epoch : Epoch
        Incremented by additions to registries, changes of pins or of the number of threads, and
        `refresh`. Plans are compared with it when they are looked up.
    prepared : dict
        Weak references to the kernels prepared for plans, by the keys of `lower`.
    refusals : dict
        The reasons why kernels were not prepared, by the same keys.
    functions : dict
        The operator functions by type prefix, see `opwright.ops`.
    """

    def __init__(
        self, registries: Registries | None = None, records: Sequence[PluginRecord] = ()
    ) -> None:
        self._pins: Mapping[str, str] = MappingProxyType({})
        self._chosen_options: Mapping[str, Any] = MappingProxyType({})
        self._pin_lock = threading.Lock()
        self._paths: Sequence[str] | None = None
        self.settings = Settings.from_environment()
        self.prepared: dict[Any, ReferenceType[_runtime.Prepared]] = {}
        self.refusals: dict[Any, Any] = {}
        self.functions: dict[Any, dict[str, Any]] = {}
        registries = registries or make_registries()
        self.epoch = registries.report.epoch
        self._set(registries, records)

    @classmethod
    def discover(cls, paths: Sequence[str] | None = None) -> Self:
        """Return a Context with all installed plugins.

        Parameters
        ----------
        paths : sequence of str, optional
            Where to look; by default ``sys.path``.

        Raises
        ------
        SettingError
            For an unknown name in OPWRIGHT_PLUGINS.
        PluginError
            With OPWRIGHT_STRICT=1 for the first plugin that fails. Without it such a plugin is
            quarantined, see `failures`.
        """
        context = cls()
        context._paths = paths
        context._discover()
        return context

    def _discover(self) -> None:
        if _discovering.get():
            raise PluginError(
                "discovery: a plugin used the registries while they were being filled; a hook "
                "module must only register names, so import modules that use operators at first use"
            )
        with setting(_discovering, True):
            self._set(*discover(self._paths, self.settings))
        self.report.epoch = self.epoch

    def _set(self, registries: Registries, records: Sequence[PluginRecord]) -> None:
        self.ops, self.kernels, self.devices, self.passes = registries[:4]
        self.options, self.annexes, self.report = registries[4:]
        self.records = tuple(records)

    def refresh(self) -> None:
        """Discover plugins again, after a package was installed or removed.

        Modules that were imported before are not imported again.
        """
        importlib.invalidate_caches()
        self.settings = Settings.from_environment()
        self._discover()
        self.prepared = {}  # independent of Contexts from `with_pins`
        self.refusals = {}
        for functions in self.functions.values():
            functions.clear()  # in place: the runtime looks names up in it
        self.epoch.advance()

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugins that are quarantined, each with its reason and traceback."""
        return self.report.failures

    @property
    def pins(self) -> Mapping[str, str]:
        """The pinned library of each operator type, and of ``"*"`` if it is pinned."""
        return self._pins

    @property
    def chosen_options(self) -> Mapping[str, Any]:
        """The options chosen by `with_options` that differ from their defaults, by name."""
        return self._chosen_options

    def pin(self, op_type: str, library: str) -> contextlib.AbstractContextManager[None]:
        """Choose the library whose kernels compute an operator, regardless of their priority.

        The pin takes effect at once, for every thread that uses this Context. Used as a context
        manager, the pin lasts until the end of the block. For one thread only, use `with_pins`.

        Parameters
        ----------
        op_type : str
            For an operator type, only kernels of this library are used, on every device, and an
            error is raised if none fits. For ``"*"``, kernels of the library come first for every
            operator that it supports; other libraries compute the rest.
        library : str
            A library name, such as ``"numpy"`` or ``"onednn"``, or the name of a plugin.

        Raises
        ------
        KernelNotFoundError
            If the library provides no kernel for it.
        """
        self._check_pin(op_type, library)
        return self._unpin_after(op_type, self._set_pin(op_type, library))

    def _set_pin(self, op_type: str, library: str | None) -> str | None:
        """Set or remove a pin, and return the previously pinned library."""
        with self._pin_lock:
            before = self._pins.get(op_type)
            pins = {key: value for key, value in self._pins.items() if key != op_type}
            self._pins = MappingProxyType(pins if library is None else {**pins, op_type: library})
            self.epoch.advance()
        return before

    @contextlib.contextmanager
    def _unpin_after(self, op_type: str, before: str | None) -> Iterator[None]:
        try:
            yield
        finally:
            self._set_pin(op_type, before)

    def unpin(self, op_type: str) -> None:
        """Remove the pin of an operator type or of ``"*"``, if it exists."""
        self._set_pin(op_type, None)

    def with_pins(self, pins: Mapping[str, str]) -> Context:
        """Return a Context with the same registries, but only these pins.

        >>> with context_guard(current_context().with_pins({"*": "numpy"})):
        ...     pass
        """
        for op_type, library in pins.items():
            self._check_pin(op_type, library)
        return self._twin(pins, self._chosen_options)

    def with_options(self, options: Mapping[str, Any]) -> Context:
        """Return a Context with the same registries and pins, but only these options.

        The options apply to eager calls and to networks compiled or run under this Context;
        ``Network.compile(options=...)`` sets options for one network.

        Parameters
        ----------
        options : mapping of str to value
            By name, such as ``{"cuda.allow_tf32": True}``; `options` lists all of them.

        Raises
        ------
        SettingError
            For an unknown option, with the most similar name, and for a value of the wrong type.
        """
        return self._twin(self._pins, self.options.check("Context.with_options", options))

    def _twin(self, pins: Mapping[str, str], options: Mapping[str, Any]) -> Context:
        twin = copy.copy(self)
        twin.functions = {}
        twin._pins = MappingProxyType(dict(pins))
        twin._chosen_options = MappingProxyType(dict(options))
        return twin

    def _check_pin(self, op_type: str, library: str) -> None:
        if op_type != ANY:
            self.ops.get(op_type)
        libraries = self.kernels.libraries_of(op_type)
        if library not in libraries:
            raise KernelNotFoundError(
                f"{op_type}: pin must name a library that provides a kernel for it, "
                f"got {library!r}{hint(library, libraries, 'libraries')}"
            )

    def candidates(self, op_type: str, device: str, dtype: str) -> tuple[KernelEntry, ...]:
        """Return the kernels that fit, best first, with the pins applied."""
        return self.kernels.candidates(op_type, device, dtype, self._pins)


_discovering: ContextVar[bool] = ContextVar("opwright_discovering", default=False)

_default: Context | None = None
_default_lock = threading.Lock()


def current_context() -> Context:
    """Return the Context of the innermost `context_guard`, otherwise the default one.

    Discovery creates the default Context at first use.
    """
    return guarded_context.get() or _default or _make_default()


def _make_default() -> Context:
    global _default  # noqa: PLW0603 - one of the few globals there are
    # No lock is held while hook modules are imported. Otherwise a thread that imports a hook module
    # and needs the Context would deadlock with this thread, which waits for the import lock of that
    # module. If two threads are here at once, both run discovery, and the first Context is kept.
    context = Context.discover()
    context.epoch = context.report.epoch = default_epoch
    with _default_lock:
        if _default is None:
            _default = context
        return _default


def context_guard(context: Context) -> contextlib.AbstractContextManager[Context]:
    """Make `context` the current Context in this thread or task, within a block."""
    return setting(guarded_context, context)


def list_ops(all: bool = False) -> list[str]:
    """Return the sorted types of all operators; with `all`, gradient operators are included."""
    return current_context().ops.types(all=all)


def op_proto(type: str) -> OpProto:
    """Return the description of an operator: slots, attributes, defaults and ranges.

    Raises
    ------
    OperatorNotFoundError
        With the most similar type, and the package to install.
    """
    return current_context().ops.get(type).proto
