"""The time that the first plan of a GPU training step waits for NVRTC, measured without a GPU.

The GPU is emulated and only runs a kernel that does nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from networks import lenet, mlp
from workload import Timed, Workload

BATCH = 64
EMULATOR = Path(__file__).parents[2] / "build" / "emulator"
NOTHING = '#include "shim.h"\n__global__ void nothing() {}'

Step = tuple[Any, Any, dict[str, Any], Any]
"""A block, its scope, its feeds and the loss name."""


def lenet_step() -> Step:
    """Return the plan of LeNet with Adam."""
    block, scope, loss = lenet.make_opwright_step()
    images, labels = lenet.make_batch()
    return block, scope, {"x": images, "y": labels}, loss


def mlp_step() -> Step:
    """Return the plan of 784-200-200-10 with SGD."""
    model, loss = mlp.make_opwright_model(BATCH)
    images, labels = mlp.make_batch(BATCH)
    return model.program.global_block(), model.scope, {"img": images, "label": labels}, loss


def open_emulator() -> None:
    """Make the emulated GPU load a no-op kernel instead of NVRTC's output."""
    from opwright_cuda import native
    from opwright_cuda.source import Source
    from opwright_cuda_emulator import HostCompiler, start

    folder = Path(os.environ.get("OPWRIGHT_EMULATOR_DIR", EMULATOR))
    start(folder)
    nothing = HostCompiler(folder).compile(Source("nothing.cu", NOTHING), ["nothing"], "")
    load = native.load_kernels
    native.load_kernels = lambda _, names: load(nothing.data, nothing.names * len(names))
    native.parameter_sizes = lambda _: None


def opwright(step: Callable[[], Step], n_threads: int | None, is_kept: bool) -> Timed:
    """Time ``prepare`` of a plan in a separate Context, with a separate cache."""
    import opwright as ow
    from opwright_cuda.compile.image_cache import ImageCache
    from opwright_cuda.compile.nvrtc import Nvrtc
    from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain

    open_emulator()
    ow.set_num_threads(n_threads or ow.get_num_threads())
    cache = tempfile.TemporaryDirectory(prefix="opwright-bench-")

    def first_run() -> float:
        if not is_kept:
            shutil.rmtree(cache.name, ignore_errors=True)
        replace_toolchain(Toolchain(Nvrtc(), ImageCache(Path(cache.name))))
        with ow.context_guard(ow.Context.discover()):
            block, scope, feeds, loss = step()
            network = ow.Network(block)
            network.compile(feed=list(feeds), fetch=[loss], device="cuda", scope=scope)(**feeds)
            return network.placement().prepare_s * 1e9

    first_run()  # opens NVRTC, and fills the cache
    return Timed(measure=lambda: [first_run()])


WORKLOADS = [
    Workload(
        f"cuda-first-run-{name}",
        f"`prepare` of the first CUDA plan of {title}",
        "ms",
        {
            "opwright": partial(opwright, step, None, False),
            "opwright, one at a time": partial(opwright, step, 1, False),
            "opwright, kept on disk": partial(opwright, step, None, True),
        },
    )
    for name, title, step in (
        ("mlp", "an MLP's training step", mlp_step),
        ("lenet", "a LeNet training step", lenet_step),
    )
]
