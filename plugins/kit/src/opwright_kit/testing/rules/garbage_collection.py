"""The garbage collector may run inside every function of a device, and free values on it.

Python can run the collector whenever an object is created, even while a device holds a lock. A
thread uses the device, and at each line of the plugin's code a reference cycle with a tensor on the
device and an array from `view` is collected.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from opwright import runtime
from opwright.device import DeviceEntry, get_device
from opwright.op import dtype_to_code
from opwright.plugin import is_library
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.tracing import is_of_package, make_tracer
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import PackageSubject

RULE = "garbage-collection"
SUMMARY = "the garbage collector may run inside every function of a device in Python"
SUBJECT = PackageSubject

_COUNT: Final = 64
"""The number of traced lines at which a collection runs."""

_SHAPE: Final = (16,)

_STUCK_S: Final = 5.0
"""A thread that reaches no other line in this time is assumed to hang."""

_in_use: list[object] = []
"""Values on devices that hang, which must not be freed."""


def concerns(subject: PackageSubject) -> bool:
    """Return whether the package has a Python device; compiled code does not start collections."""
    return any(True for _ in _targets(subject))


def check(subject: PackageSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each device that hangs, raises or loses a value."""
    for name in _targets(subject):
        context.need_device(name)
        context.note(f"the device {name}")
        fault = _find_fault(context.context.devices.get(name), context)
        if fault is not None:
            yield Finding(
                RULE,
                subject.name,
                f"{subject.name}: device {name} must work while values on it are collected, got "
                f"{fault}; what a finalizer calls must not take the device's lock",
            )


def _targets(subject: PackageSubject) -> Iterator[str]:
    for record in subject.records:
        for device in record.devices:
            if not is_library(device.target):
                yield device.name


class _Use(threading.Thread):
    """A thread that uses a device once, and collects cycles meanwhile."""

    def __init__(self, device: runtime.Device, package: str) -> None:
        super().__init__(daemon=True)  # it may never return
        self.package = package
        self.n_lines = 0
        self.fault: str | None = None
        self._device = device
        self._values = _make_values(device, _COUNT)

    def run(self) -> None:
        sys.settrace(make_tracer(self.package, self._collect))
        try:
            self.fault = _use(self._device)
        except Exception as error:  # noqa: BLE001 - reported by the checking thread
            self.fault = f"{type(error).__name__}: {error}"
        finally:
            sys.settrace(None)

    def _collect(self) -> None:
        self.n_lines += 1
        if self._values:
            circle: list[object] = [self._values.pop()]
            circle.append(circle)
            del circle
            gc.collect(0)


def _find_fault(entry: DeviceEntry, context: CheckContext) -> str | None:
    use = _Use(get_device(entry.name, context.context), _top_package(entry))
    use.start()
    n_lines = -1
    while use.is_alive() and n_lines != use.n_lines:
        n_lines = use.n_lines
        use.join(_STUCK_S)
    if not use.is_alive():
        return use.fault
    _in_use.append(use)
    return f"a hang in {_find_function(use)}"


def _top_package(entry: DeviceEntry) -> str:
    """Return the top-level package that a device's hook names as its target."""
    target = entry.target if isinstance(entry.target, str) else type(entry.target).__module__
    return target.partition(":")[0].partition(".")[0]


def _find_function(use: _Use) -> str:
    """Return the function of the device that a thread is in."""
    frame = sys._current_frames().get(use.ident or 0)
    name = "a function"
    while frame is not None:
        if is_of_package(frame, use.package):
            name = frame.f_code.co_name
        frame = frame.f_back
    return name


def _make_values(device: runtime.Device, count: int) -> list[object]:
    """Return pairs of a tensor on a device and an array from its `view`."""
    arrays: list[object] = []
    _run_kernel(device, arrays.append, count)
    x = np.zeros(_SHAPE, np.float32)
    return [(runtime.Tensor.from_numpy(x, device), array) for array in arrays]


def _run_kernel(device: runtime.Device, kernel: Callable[..., object], repeat: int) -> None:
    """Run a kernel of one input repeatedly, each time with a new array over the same memory."""
    code = dtype_to_code("float32")
    builder = runtime.PlanBuilder(device, RULE)
    size = 4 * _SHAPE[0]
    if device.has_arena:
        builder.arena(size)
    else:
        builder.buffers([size])
    x = builder.value(code, _SHAPE, runtime.ARENA, 0)
    prepared = runtime.prepare_python(kernel, [0])
    for i in range(repeat):
        builder.kernel(prepared, [x], [0, 1], 1, i)
    builder.build(None).run()


def _use(device: runtime.Device) -> str | None:
    """Call every function of a device; return the first fault of the values."""
    x = np.arange(_SHAPE[0], dtype=np.float32)
    tensor = runtime.Tensor.from_numpy(x, device)
    scope = runtime.Scope()
    scope.var("x").set(tensor, device)
    device.synchronize()
    _run_kernel(device, id, 1)
    same = np.array_equal(scope.var("x").numpy(), x) and np.array_equal(tensor.numpy(), x)
    del scope, tensor
    runtime.free_retired()
    return None if same else "values that differ from the written ones"
