"""Prepares a Python or compiled kernel for one operator, on any device.

Kernels that fail to load at first use are skipped and reported.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.context.context import Context
from opwright.device.opening import find_helper, find_lack_of_arrays, open_device
from opwright.errors import (
    KernelError,
    OpwrightError,
    OutOfMemoryError,
    PluginError,
    RegistrationError,
)
from opwright.foreign import describe_error, text_of_error
from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.values import LoweredOp
from opwright.lowering.kernels.arguments import Arguments
from opwright.lowering.kernels.prepare_context import (
    Complete,
    DeviceCall,
    PrepareContext,
    Refuse,
    Unsupported,
)
from opwright.lowering.request import Target
from opwright.packages import PluginFailure
from opwright.packages.package import advise_command
from opwright.registry import HOST_DEVICE, KernelEntry

if TYPE_CHECKING:
    from opwright.targets.python_layout import PythonLayout


def find_load_failure(entry: KernelEntry, context: Context) -> str | None:
    """Return why a kernel cannot be loaded, or None if it can.

    Discovery neither imports kernels nor opens libraries, so a failing module, or a library that is
    missing, damaged or built for another ABI, is detected here. In that case the kernel is skipped,
    its failure is reported like a discovery failure, and the next candidate is tried. The first
    failed kernel of each module or library causes a warning, since the next candidate may be
    slower. With OPWRIGHT_STRICT=1 the failure is raised instead.
    """
    if entry.is_loaded:
        return None
    key = (entry, "fault")
    known: str | None = context.refusals.get(key)
    if known is not None:
        return known
    try:
        entry.load()
    except (PluginError, RegistrationError) as error:
        if context.settings.strict:
            raise
        known = context.refusals[key] = f"failed to load: {error}"
        advice = advise_command(error, entry.package)
        failure = PluginFailure(entry.package, str(error), "", advice)
        if context.report.quarantine(failure, entry.origin):
            warnings.warn(f"{error}; the kernel is skipped", RuntimeWarning, stacklevel=1)
    return known


def prepare_kernel(
    entry: KernelEntry,
    op: LoweredOp,
    device: str,
    arguments: Arguments,
    target: Target,
    deferred: list[tuple[Complete, Any]] | None = None,
) -> _runtime.Prepared | Refuse:
    """Prepare a kernel for an operator's attributes and metas, or return its refusal.

    `device` is the device type of the operator. The kernel appends work for the end of lowering to
    `deferred`; the result then only describes the kernel. If `deferred` is None, nothing can be
    deferred. Raises OpwrightError if ``prepare`` fails in any way other than a refusal.
    """
    layout = entry.layout
    ignored = None if layout is None else _find_ignored(op, layout.named.__contains__)
    if ignored is not None:
        return ignored
    if device == HOST_DEVICE and entry.package.plugin in target.context.settings.isolated:
        prepare_isolated = target.context.annexes.get("kit", "prepare_isolated").load()
        options = target.options or ()
        given = (arguments.packable, options, target.deterministic)
        return prepare_isolated(entry, op, *given)  # type: ignore[no-any-return]
    if entry.is_native:
        return _prepare_native(entry, op, device, arguments, target)
    if layout is not None:
        return _prepare_function(entry, layout, op, device, target)
    return _prepare_class(entry, op, device, arguments, target, deferred)


def opened_device(device: str, target: Target) -> _runtime.Device | None:
    """Return the runtime device of an operator, or None for the host."""
    return None if device == HOST_DEVICE else open_device(target.device, target.context)


def _find_lack_of_arrays(device: str, target: Target) -> str | None:
    return None if device == HOST_DEVICE else find_lack_of_arrays(target.device, target.context)


def _attributes(op: LoweredOp) -> dict[str, Any]:
    """Return all attributes of an operator, with None for absent attributes."""
    return {attr.name: op.attrs.get(attr.name) for attr in op.definition.proto.attrs}


def _duplicable(op: LoweredOp) -> list[int]:
    proto = op.definition.proto
    return [i for i, slot in enumerate((*proto.inputs, *proto.outputs)) if slot.duplicable]


def _prepare_function(
    entry: KernelEntry, layout: PythonLayout, op: LoweredOp, device: str, target: Target
) -> _runtime.Prepared | Refuse:
    reason = _find_lack_of_arrays(device, target)
    if reason is not None:
        return Refuse(reason)
    attrs = _attributes(op)
    return _runtime.prepare_python(
        entry.load(),
        layout.positional,
        layout.keywords,
        {name: attrs[name] for name in layout.attributes},
        duplicable=_duplicable(op),
        capturable=entry.capturable,
        op_type=op.type,
    )


def _make_context(
    op: LoweredOp, device: str, unread: tuple[int, ...], target: Target
) -> PrepareContext:
    """Return the context that a Python kernel's ``prepare`` receives."""
    proto = op.definition.proto
    metas = signature_of(op)
    inputs = {s.name: m for s, m in zip(proto.inputs, metas.inputs, strict=True)}
    outputs = {s.name: m for s, m in zip(proto.outputs, metas.outputs, strict=True)}
    number = 0 if device == HOST_DEVICE else target.device.number
    options = target.context.options.fill(dict(target.options or ()))
    return PrepareContext(
        op.type,
        inputs,
        outputs,
        _attributes(op),
        device,
        target.n_threads,
        number,
        options,
        target.deterministic,
        frozenset(_slots_of(op, unread)),
    )


def _slots_of(op: LoweredOp, unread: tuple[int, ...]) -> Iterator[str]:
    """Yield the output slots whose flat arguments are all in `args`."""
    flat = sum(map(len, op.inputs))
    for slot, values in zip(op.definition.proto.outputs, op.outputs, strict=True):
        numbers = range(flat, flat + len(values))
        if values and unread and all(number in unread for number in numbers):
            yield slot.name
        flat += len(values)


def _prepare_class(
    entry: KernelEntry,
    op: LoweredOp,
    device: str,
    arguments: Arguments,
    target: Target,
    deferred: list[tuple[Complete, Any]] | None,
) -> _runtime.Prepared | Refuse:
    ctx = _make_context(op, device, arguments.unread, target)
    ctx.deferred = deferred
    try:
        ready = entry.load().prepare(ctx)
        ignored = _find_ignored(op, ctx.attrs.read.__contains__)
        if ignored is not None:
            return ignored
        if isinstance(ready, DeviceCall):
            return _prepare_call(ready, op, device, target)
        reason = _find_lack_of_arrays(device, target)
        if reason is not None:
            return Refuse(reason)
        function = getattr(ready, "bind", ready)
        layout = entry.check_prepared(function)
    except Refuse as refusal:  # without traceback, which would keep the plan alive in the cache
        if isinstance(refusal, Unsupported):
            return Unsupported(refusal.lack)
        return Refuse(refusal.reason)
    except Exception as error:  # noqa: BLE001 - raised as the cause of another
        raise _failed(entry, op, error, "call ctx.refuse(reason) to decline")  # noqa: B904
    packs = {flat: pack for flat, pack in _packs(op, ctx).items() if flat in arguments.packable}
    return _runtime.prepare_python(
        ready,
        layout.positional,
        layout.keywords,
        duplicable=_duplicable(op),
        bind=function is not ready,
        packs=packs,
        n_threads=target.n_threads,
        capturable=entry.capturable,
        op_type=op.type,
    )


def _prepare_call(
    call: DeviceCall, op: LoweredOp, device: str, target: Target
) -> _runtime.Prepared | Refuse:
    """Prepare the compiled kernel of the device library that a Python kernel delegates to."""
    opened = open_device(target.device, target.context)  # first: its error is more specific
    helper = find_helper(device, call.kernel, target.context)
    metas = signature_of(op)
    try:
        return helper.prepare_call(
            op.definition.proto, (metas.inputs, metas.outputs), call.attrs, opened
        )
    except _runtime.RefusedError as refusal:
        return _refusal(refusal)


def _prepare_native(
    entry: KernelEntry, op: LoweredOp, device: str, arguments: Arguments, target: Target
) -> _runtime.Prepared | Refuse:
    signature = signature_of(op)
    prepare = functools.partial(
        entry.load().prepare,
        op.definition.proto,
        (signature.inputs, signature.outputs),
        op.attrs,
        packable=arguments.packable,
        unread=arguments.unread,
        n_threads=target.n_threads,
        device=opened_device(device, target),
        deterministic=target.deterministic,
    )
    try:
        prepared: _runtime.Prepared = prepare()
    except _runtime.RefusedError as refusal:
        return _refusal(refusal)
    except OpwrightError as error:
        raise _failed(entry, op, error, "return OW_REFUSED to decline")  # noqa: B904 - it has the cause

    def reads(name: str) -> bool:
        try:
            prepare(untyped=name)
        except _runtime.RefusedError:
            return True
        except OpwrightError as error:
            return not isinstance(error, OutOfMemoryError)
        return False

    return _find_ignored(op, reads) or prepared


def _find_ignored(op: LoweredOp, reads: Callable[[str], bool]) -> Refuse | None:
    """Return a refusal if the kernel is older than an attribute and does not read it."""
    for attr in op.definition.proto.attrs:
        if not attr.added:
            continue
        value = op.attrs.get(attr.name)
        if value not in (None, attr.default) and not reads(attr.name):
            return Refuse(f"it is older than {attr.name}={value!r}, and does not read {attr.name}")
    return None


def _refusal(error: _runtime.RefusedError) -> Refuse:
    kind = Unsupported if isinstance(error, _runtime.UnsupportedError) else Refuse
    return kind(str(error) or "gave no reason")


def _failed(entry: KernelEntry, op: LoweredOp, error: Exception, way_out: str) -> OpwrightError:
    """Return the error for a failed ``prepare``, of the raised class if it is an opwright class."""
    ours = type(error).__module__ == OpwrightError.__module__
    kind = type(error) if isinstance(error, OpwrightError) and ours else KernelError
    if isinstance(error, MemoryError):
        kind = OutOfMemoryError
    is_ours = isinstance(error, OpwrightError)
    reason = text_of_error(error) if is_ours else describe_error(error)
    text = f"{entry.who}: prepare failed for operator {op.index}, got {reason}; {way_out}"
    failure = kind(text)
    failure.__cause__ = error
    return failure


def _packs(op: LoweredOp, ctx: PrepareContext) -> dict[int, Callable[[Any], object]]:
    """Return the pack functions of the kernel by flat argument."""
    packs = {}
    flat = 0
    for slot, values in zip(op.definition.proto.inputs, op.inputs, strict=True):
        if slot.name in ctx.packs:
            packs[flat] = ctx.packs[slot.name]
        flat += len(values)
    return packs
