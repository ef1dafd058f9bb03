"""The context of a kernel's ``prepare``: attributes, metas and threads, before any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from opwright.describe.meta import Meta
from opwright.errors import KernelError, OpwrightError
from opwright.messages.names import hint
from opwright.records import NamedTuple


class Refuse(OpwrightError):  # noqa: N818 - a decision of the kernel, not a fault
    """Raised in ``prepare`` by a kernel that declines, so that the next candidate is tried.

    Attributes
    ----------
    reason : str
        Why, in a few words; `explain` and errors show it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)  # plugins pass other objects, too


class Unsupported(Refuse):
    """Raised by a kernel in ``prepare`` if the machine lacks a feature that the kernel needs.

    The next candidate is tried, as after any refusal, and reports name the machine as the cause.

    Attributes
    ----------
    lack : str
        The missing feature, in a few words.
    reason : str
        A sentence that says that this machine lacks the feature.
    """

    def __init__(self, lack: str) -> None:
        super().__init__(f"this machine lacks what the kernel needs: {lack}")
        self.lack = str(lack)


class Attributes(dict[str, Any]):
    """The attributes of an operator, with the names that a kernel has read in `read`."""

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        super().__init__(attrs)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default if the operator lacks it."""
        self.read.add(name)
        return super().get(name, default)


class DeviceCall(NamedTuple):
    """Returned by ``prepare`` to run a compiled kernel of the device's library without Python.

    The kernel then consists of data: Python decides the launches once, in ``prepare``, and the
    kernel of the library executes them in every run.

    Attributes
    ----------
    kernel : str
        Operator type under which the device's library has that kernel.
    attrs : dict
        Arguments for its prepare: int, float, bool, str, bytes (read as a string), or a list of int
        or of str.
    """

    kernel: str
    attrs: Mapping[str, Any]


Complete: TypeAlias = Callable[[Sequence[Any]], None]
"""Does the deferred work of several kernels at the end of lowering, see `PrepareContext.defer`."""


class PrepareContext:
    """Describes everything that is known about one operator when a plan is made.

    Attributes
    ----------
    op_type : str
        Operator type.
    inputs, outputs : dict of str to list of Meta
        Shapes and dtypes by slot; an empty list for an absent slot. A dimension that is known
        only at run time is -1.
    attrs : dict
        Every attribute, None if absent.
    device : str
        Device type.
    device_number : int
        The number of the device among devices of that type.
    n_threads : int
        The number of threads that the kernel may use.
    deterministic : bool
        Whether every run must be bitwise identical: then `n_threads` is the same on every machine,
        and no decision may depend on a measurement.
    unread : frozenset of str
        Output slots that nothing reads, because only a gradient would need them. The kernel need
        not write them, although they have memory.
    options : dict
        The value of every option that a plugin declares, by name: ``"acme.fast_exp"``.
    workspace_bytes : int
        The bytes requested by `workspace`.
    packs : dict of str to callable
        The functions requested by `pack`.
    deferred : list of (callable, object) or None
        The work collected by `defer`; None if nothing can be deferred.
    """

    def __init__(
        self,
        op_type: str,
        inputs: Mapping[str, Sequence[Meta]],
        outputs: Mapping[str, Sequence[Meta]],
        attrs: Mapping[str, Any],
        device: str = "cpu",
        n_threads: int = 1,
        device_number: int = 0,
        options: Mapping[str, Any] = MappingProxyType({}),
        deterministic: bool = False,
        unread: frozenset[str] = frozenset(),
    ) -> None:
        self.op_type = op_type
        self.inputs = {slot: list(metas) for slot, metas in inputs.items()}
        self.outputs = {slot: list(metas) for slot, metas in outputs.items()}
        self.attrs, self.options = Attributes(attrs), dict(options)
        self.device = device
        self.n_threads = n_threads
        self.device_number = device_number
        self.deterministic = deterministic
        self.unread = unread
        self.workspace_bytes = 0
        self.packs: dict[str, Callable[[Any], object]] = {}
        self.deferred: list[tuple[Complete, Any]] | None = None

    def refuse(self, reason: str) -> NoReturn:
        """Decline this operator by raising `Refuse`; the next candidate is tried."""
        raise Refuse(reason)

    def lack(self, what: str) -> NoReturn:
        """Decline by raising `Unsupported`, because this machine lacks something.

        The next candidate is tried. If no other kernel should be used instead, raise
        `opwright.errors.MissingRequirementError` with the package to install.
        """
        raise Unsupported(what)

    def workspace(self, size_bytes: int) -> None:
        """Request scratch memory for each run; the largest of several requests is used."""
        if type(size_bytes) is not int or size_bytes < 0:
            raise KernelError(
                f"{self.op_type}: workspace must be a number of bytes, got {size_bytes!r}; "
                "give an int of at least 0"
            )
        self.workspace_bytes = max(self.workspace_bytes, size_bytes)

    def pack(self, slot: str, function: Callable[[Any], object]) -> None:
        """Request that ``function(array)`` replaces an input that the plan never writes.

        The plan keeps the result and recomputes it when the variable has been set. If the input
        is not such a variable, the kernel gets the array unchanged.
        """
        if len(self.inputs.get(slot, ())) != 1:
            known = [name for name, metas in self.inputs.items() if len(metas) == 1]
            raise KernelError(
                f"{self.op_type}: pack takes an input slot that holds one variable, got {slot!r}"
                f"{hint(str(slot), known, 'such inputs')}"
            )
        self.packs[slot] = function

    def defer(self, complete: Complete, work: Any) -> bool:
        """Defer slow work, such as compiling; return False if it must be done now.

        If it returns True, the object that this call of ``prepare`` returns is checked and used to
        lay out the plan, but never runs. Once all kernels of the plan are chosen, `complete` is
        called with the deferred work of the kernels in the plan. Then ``prepare`` is called again.
        This second call must not defer work, and must make the same decisions.

        Parameters
        ----------
        complete : callable
            Takes a list with the `work` of all kernels that passed this function. It must not raise
            if some work fails; the second ``prepare`` of the kernel concerned raises instead.
        work : object
            The work of this kernel.
        """
        if self.deferred is None:
            return False
        self.deferred.append((complete, work))
        return True
