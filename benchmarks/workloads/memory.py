"""Peak resident memory of training steps, excluding the memory of imports."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from networks.images import RESNET18
from workload import Goal, Timed, Workload
from workloads import gpt, images, recurrent

STEPS = 3


def read_status(key: str) -> int:
    """Return a size of this process in bytes: ``VmRSS`` is current, ``VmHWM`` is the peak."""
    found = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"/proc/self/status: must have {key}, got none")
    return 1024 * int(found[1])


def peak(prepare: Callable[[], Timed], modules: str) -> Timed:
    """Prepare and run a step; the figure is the peak during both, including parameters."""
    for module in modules.split():
        importlib.import_module(module)
    before = read_status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the recorded peak
    timed = prepare()
    assert timed.call is not None
    for _ in range(STEPS):
        timed.call()
    size_bytes = float(read_status("VmHWM") - before)
    return Timed(values=timed.values, measure=lambda: [size_bytes])


def workload(
    name: str, title: str, implementations: Mapping[str, Callable[[], Timed]], tolerance: float
) -> Workload:
    """Return the row of one training step."""
    modules = {"opwright": "opwright opwright_nn opwright_cpu", "torch": "torch torch.optim"}
    inputs = "numpy.random"  # creates the inputs, and loads OpenSSL if torch has not
    return Workload(
        f"memory-{name}",
        f"peak memory: {title}",
        "MiB",
        {
            kind: partial(peak, prepare, f"{modules[kind.split()[0]]} {inputs}")
            for kind, prepare in implementations.items()
        },
        {"opwright": [Goal(ratio=0.5, of="torch")]},
        tolerance=tolerance,
        tolerances={"opwright bfloat16": 0.1},
    )


_SIZES = {"batch": 8, "size": 224}

WORKLOADS = [
    workload(
        "lstm-train",
        "LSTM of 2 layers, 256 wide, 64 steps, batch 32",
        {
            "opwright": partial(recurrent.opwright, "lstm"),
            "torch": partial(recurrent.torch_step, "lstm"),
        },
        1e-3,
    ),
    workload(
        "gpt-train",
        "GPT, 3 blocks, 128 wide, batch 32 of 64 characters",
        {"opwright": gpt.opwright, "torch": gpt.torch_step},
        1e-3,
    ),
    workload(
        "resnet18-train-8",
        "ResNet-18, batch 8, 224×224",
        {
            "opwright": partial(images.opwright_step, RESNET18, **_SIZES),
            "opwright bfloat16": partial(images.opwright_step, RESNET18, mixed=True, **_SIZES),
            "torch": partial(images.torch_step, RESNET18, **_SIZES),
            "torch channels_last": partial(
                images.torch_step, RESNET18, channels_last=True, **_SIZES
            ),
        },
        1e-2,
    ),
]
