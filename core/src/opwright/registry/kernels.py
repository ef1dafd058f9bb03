"""The kernels of installed packages, and the order in which they are tried.

Commands use this module to report why a kernel would refuse on this machine. The kernel itself
refuses when it is prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from opwright._runtime import Epoch
from opwright.errors import KernelNotFoundError, PluginError, RegistrationError
from opwright.foreign import describe_error
from opwright.messages.names import find_nearest
from opwright.packages.package import Package, advise_command
from opwright.packages.quarantine import PluginReport, advise_plugin
from opwright.packages.registrations import ANY, KernelRegistration, fits_dtype, key_text
from opwright.packages.rules import check_kernel
from opwright.registry.devices import HOST_DEVICE
from opwright.registry.kernel_entry import KernelEntry
from opwright.registry.operators import OpRegistry
from opwright.targets.opening import load_target

REFUSED: Final = "refused: "
"""Prefix of the report on a kernel that declined, as opposed to one that failed to load."""

WOULD_REFUSE = "would refuse: "
"""Prefix of the report on a kernel whose prepare was not called."""

_SHOWN_KEYS = 12


class KernelRegistry:
    """Kernels by operator type, device, dtype and library.

    Kernels find their operator in `ops`. Errors about missing kernels quote `report`, whose epoch
    is incremented by every addition.
    """

    noun: ClassVar = "kernel"

    def __init__(self, ops: OpRegistry | None = None, report: PluginReport | None = None) -> None:
        self._report = report or PluginReport()
        self._ops = OpRegistry(self._report) if ops is None else ops
        self._registered: dict[str, list[tuple[KernelRegistration, Package]]] = {}
        # Entries are created from the registrations at first use and kept, since they have imported
        # kernels.
        self._entries: dict[str, list[KernelEntry]] = {}
        self._candidates: dict[tuple[str, str, str], tuple[KernelEntry, ...]] = {}

    def add(self, op_type: str, *, kernel: object, package: Package, **fields: Any) -> None:
        """Add one kernel for one or several dtypes.

        `kernel` is ``"module:attribute"`` of a function or class, or the object itself; `fields`
        are the other fields of `KernelRegistration`. Raises RegistrationError for a key that is
        taken, or anything malformed.
        """
        registration = check_kernel(KernelRegistration(op_type, target=kernel, **fields))
        clash = self.find_clash([registration])
        if clash is not None:
            raise RegistrationError(
                f"{clash[0]}: kernel is registered twice, by {clash[1].label} and "
                f"{package.label}; uninstall one of them, or rename the library of one"
            )
        self.enter([registration], package)

    @property
    def epoch(self) -> Epoch:
        """The counter that every addition increments."""
        return self._report.epoch

    def enter(self, registrations: Sequence[KernelRegistration], package: Package) -> None:
        """Add registrations that have already been checked."""
        for registration in registrations:
            op_type = registration.op_type
            self._registered.setdefault(op_type, []).append((registration, package))
            if op_type in self._entries:
                self._entries[op_type] += self._make_entries(registration, package)
        self._candidates.clear()
        self.epoch.advance()

    def find_clash(self, registrations: Iterable[KernelRegistration]) -> tuple[str, Package] | None:
        """Return the first key that is taken, as text, with its package; None if all are free."""
        # Every process calls this for thousands of kernels, and nearly all are the only kernels of
        # their type. So comparing registrations is faster than filling a table of all keys.
        for new in registrations:
            for other, package in self._registered.get(new.op_type, ()):
                if other.library == new.library and other.device == new.device:
                    for dtype in new.dtypes:
                        if dtype in other.dtypes:
                            return new.key_for(dtype), package
        return None

    def _make_entries(
        self, registration: KernelRegistration, package: Package
    ) -> list[KernelEntry]:
        dtypes = registration.dtypes
        return [KernelEntry(registration, dtype, package, self._ops) for dtype in dtypes]

    def candidates(
        self, op_type: str, device: str, dtype: str, pins: Mapping[str, str] | None = None
    ) -> tuple[KernelEntry, ...]:
        """Return the suitable kernels, best first; if one refuses, the next is tried.

        `pins` maps operator types to libraries; only kernels of the pinned library are returned.
        For ``"*"``, kernels of the library come first, for every operator that is not pinned
        itself.

        The order is by priority. At equal priority, an exact device comes before ``"*"``, then an
        exact dtype before ``"*"``, and then the library name decides.
        """
        try:
            entries = self._candidates[op_type, device, dtype]
        except KeyError:
            entries = self._find_candidates(op_type, device, dtype)
        return _apply_pins(entries, op_type, pins) if pins else entries

    def _find_candidates(self, op_type: str, device: str, dtype: str) -> tuple[KernelEntry, ...]:
        before = self.epoch.now
        fitting = (
            entry
            for entry in self.entries(op_type)
            if entry.device in (device, ANY) and fits_dtype((entry.dtype,), dtype)
        )
        candidates = tuple(self.sort(fitting))
        if before == self.epoch.now:  # no thread has added a kernel meanwhile
            self._candidates[op_type, device, dtype] = candidates
        return candidates

    @staticmethod
    def sort(entries: Iterable[KernelEntry]) -> list[KernelEntry]:
        """Return kernels in the order in which they are tried, see `candidates`."""
        return sorted(
            entries, key=lambda e: (-e.priority, e.device == ANY, e.dtype == ANY, e.library)
        )

    def entries(self, op_type: str) -> list[KernelEntry]:
        """Return all kernels of an operator type, with an entry for each dtype, as registered."""
        entries = self._entries.get(op_type)
        if entries is None:
            registered = self._registered.get(op_type, ())
            made = [entry for item in registered for entry in self._make_entries(*item)]
            entries = self._entries.setdefault(op_type, made)
        return entries

    def registrations(self) -> list[tuple[KernelRegistration, Package]]:
        """Return all registrations, sorted by operator type; does not import kernels."""
        return [item for op_type in self.op_types() for item in self._registered[op_type]]

    def op_types(self) -> list[str]:
        """Return the operator types that have a kernel, sorted."""
        return sorted(self._registered)

    def devices_of(self, op_type: str) -> tuple[str, ...]:
        """Return the devices for which an operator has a kernel, sorted."""
        return tuple(sorted({r.device for r, _ in self._registered.get(op_type, ())}))

    def libraries_of(self, op_type: str) -> tuple[str, ...]:
        """Return the libraries with kernels of an operator, or any operator for ``"*"``, sorted."""
        types = self._registered if op_type == ANY else (op_type,)
        return tuple(sorted({r.library for t in types for r, _ in self._registered.get(t, ())}))

    def not_found(
        self,
        op_type: str,
        device: str,
        dtype: str,
        refusals: Iterable[tuple[KernelEntry, str]] = (),
        pinned: str | None = None,
        devices: Iterable[str] = (),
    ) -> KernelNotFoundError:
        """Return the error for an operator that no kernel can compute on a device.

        `refusals` are the candidates that were tried, each with ``"refused: …"`` or ``"failed to
        load: …"``. `pinned` is the only library that the Context allows. If `device` is not among
        the existing `devices`, the error suggests a similar device.
        """
        refused = list(refusals)
        broken = {e.package for e, reason in refused if not reason.startswith(REFUSED)}
        what = "every kernel refused" if refused else "no kernel registered"
        if broken:
            what = "no kernel can be used"
        if pinned is not None:
            what += f" in the library {pinned!r}, to which the Context pins it"
        nearest = None if device in (known := set(devices)) else find_nearest(device, known)
        if nearest is not None:
            what += f"; did you mean the device {nearest!r}?"
        lines = [f"{key_text(op_type, device, dtype)}: {what}"]
        lines += [f"  {e.library} of {e.package.label} {reason}" for e, reason in refused]
        lines += [f"  available: {text}" for text in self._available(op_type)]
        lines += [f"  {line}" for line in self._report.lines(without=broken)]
        failures = [f for f in self._report.failures if f.package in broken]
        fixes = dict.fromkeys((f.package, f.advice) for f in failures)
        lines += [f"  to fix {package.label}: {advice}" for package, advice in fixes]
        advice = self._advise(op_type, device)
        if advice is not None:
            lines.append(f"  to get it: {advice}")
        return KernelNotFoundError("\n".join(lines))

    def _advise(self, op_type: str, device: str) -> str | None:
        if {device, ANY}.intersection(self.devices_of(op_type)):
            return None  # the device has kernels for other dtypes; no package fixes that
        if device == HOST_DEVICE and "." in op_type:
            return None  # the plugin of the host provides kernels for standard operators
        return advise_plugin(device, self._report)

    def _available(self, op_type: str) -> list[str]:
        libraries: dict[tuple[str, str], list[str]] = {}
        for entry in sorted(self.sort(self.entries(op_type)), key=lambda e: e.device):
            libraries.setdefault((entry.device, entry.dtype), []).append(entry.library)
        dtypes: dict[tuple[str, str], list[str]] = {}  # dtypes that the same libraries support
        for (device, dtype), names in libraries.items():
            dtypes.setdefault((device, ", ".join(names)), []).append(dtype)
        texts = [
            f"{key_text(op_type, device, ' | '.join(names))} ({served_by})"
            for (device, served_by), names in dtypes.items()
        ]
        if len(texts) > _SHOWN_KEYS:
            more = len(texts) - _SHOWN_KEYS
            texts = [*texts[:_SHOWN_KEYS], f"{more} more; see: opwright kernels {op_type}"]
        return texts or [f"nothing, on any device, for {op_type!r}"]


def _apply_pins(
    entries: tuple[KernelEntry, ...], op_type: str, pins: Mapping[str, str]
) -> tuple[KernelEntry, ...]:
    library = pins.get(op_type)
    if library is not None:
        return tuple(entry for entry in entries if entry.library == library)
    library = pins.get(ANY)
    return tuple(sorted(entries, key=lambda entry: entry.library != library))


def find_refusal(target: str, package: Package, options: Mapping[str, Any]) -> str | None:
    """Call a plugin function that returns why kernels would refuse on this machine, or None.

    `target` is ``"module:attribute"`` of a function without arguments, or of ``options`` (the value
    of every option), which returns a string or None. The reason is one line. Raises PluginError if
    the function cannot be imported, raises, or returns anything else.
    """
    from inspect import signature  # only if a function is queried

    function: Any = load_target(target, "find_refusal", package)
    try:
        has_options = "options" in signature(function).parameters
        reason = function(options=options) if has_options else function()
    except (Exception, SystemExit) as error:
        raise _broken(target, package, describe_error(error), error) from error
    if reason is None:
        return None
    if not isinstance(reason, str) or not reason.strip():
        raise _broken(target, package, repr(reason), TypeError())
    return " ".join(map(str.strip, reason.strip().splitlines()))


def _broken(target: str, package: Package, got: str, error: BaseException) -> PluginError:
    advice = advise_command(error, package)
    return PluginError(
        f"find_refusal: {target!r} of {package.label} must return a reason or None, got {got}; "
        f"{advice}",
        advice=advice,
    )


def find_refusals(
    targets: Iterable[tuple[str, Package]], options: Mapping[str, Any]
) -> tuple[dict[tuple[str, Package], str], list[str]]:
    """Query each function once, like `find_refusal`; empty targets are skipped.

    Returns the reasons, and the errors of failed functions; their kernels are assumed to work.
    """
    reasons: dict[tuple[str, Package], str] = {}
    faults = []
    for target, package in dict.fromkeys(targets):
        try:
            reason = find_refusal(target, package, options) if target else None
        except PluginError as error:
            faults.append(str(error))
            continue
        if reason is not None:
            reasons[target, package] = reason
    return reasons, faults
