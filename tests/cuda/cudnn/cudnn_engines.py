"""Queries the real cuDNN for engines of convolutions on given GPUs, even without these GPUs.

``cudnn_engines.py FOLDER`` prints, as JSON, the engine chosen for each graph of each convolution,
or the reason why no engine was found. If there is no driver library, a substitute of the same
name is written to FOLDER, which is enough for cuDNN.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.errors import KernelError
from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda import cudnn, native
from opwright_cuda.cudnn import OperationGraph
from opwright_cuda.kernels import cudnn_convolution
from opwright_cuda.launch import LaunchPlan
from opwright_cuda.options import EngineChoice

BATCH: Final = 64
DTYPES: Final = ("float32", "float16", "bfloat16")
FORMATS: Final = ("NHWC", "NCHW")

MISSING: Final = 77
"""Exit status if cuDNN or cuBLASLt is not installed."""

GPUS: Final = {
    "A100": {"deviceVer": 800, "multiProcessorCount": 108, "maxSharedMemoryPerBlockOptin": 166912,
             "l2CacheSize": 40 * 2**20, "smClockRateKHz": 1410000, "memClockRateKHz": 1215000,
             "memoryBusWidth": 5120, "totalGlobalMem": 40 * 2**30},
    "H100": {"deviceVer": 900, "multiProcessorCount": 132, "maxSharedMemoryPerBlockOptin": 232448,
             "l2CacheSize": 50 * 2**20, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
             "memoryBusWidth": 5120, "totalGlobalMem": 80 * 2**30},
    "B200": {"deviceVer": 1000, "multiProcessorCount": 148, "maxSharedMemoryPerBlockOptin": 232448,
             "l2CacheSize": 126 * 2**20, "smClockRateKHz": 1965000, "memClockRateKHz": 3996000,
             "memoryBusWidth": 8192, "totalGlobalMem": 180 * 2**30},
}  # fmt: skip
"""Properties that differ between GPUs, in the cuDNN format."""

COMMON: Final = {
    "maxGridSize": [2**31 - 1, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "smCountOrigin": 0, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
    "oversizedSharedMemoryPerBlock": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
    "cudaDeviceId": 0, "driverVer": 13000,
}  # fmt: skip


class Layer(NamedTuple):
    """A convolution of square images."""

    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    paddings: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: int = 1
    groups: int = 1

    @property
    def out(self) -> tuple[int, int]:
        """Return the numbers of windows along height and width."""
        reach = (self.kernel - 1) * self.dilation + 1
        top, bottom, left, right = self.paddings
        return tuple(
            (self.size + padding - reach) // self.stride + 1
            for padding in (top + bottom, left + right)
        )


LENET: Final = (Layer(1, 28, 20, 5), Layer(20, 12, 50, 5))
RESNET18: Final = (
    Layer(3, 224, 64, 7, 2, (3, 3, 3, 3)),
    *(Layer(c, s, c, 3, 1, (1, 1, 1, 1)) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    *(Layer(c, s, 2 * c, 3, 2, (1, 1, 1, 1)) for c, s in ((64, 56), (128, 28), (256, 14))),
    *(Layer(c, s, 2 * c, 1, 2) for c, s in ((64, 56), (128, 28), (256, 14))),
)
AWKWARD: Final = (
    Layer(32, 14, 32, 3, 1, (1, 1, 1, 1), groups=32),
    Layer(6, 14, 9, 3, 1, (1, 1, 1, 1), groups=3),
    Layer(5, 13, 7, 3, 2, (0, 1, 2, 1)),
    Layer(16, 20, 8, 3, 1, (2, 2, 2, 2), dilation=2),
)
LAYERS: Final = {"lenet": LENET, "resnet18": RESNET18, "awkward": AWKWARD}


def describe(gpu: str) -> str:
    """Return the description of a GPU in the cuDNN format."""
    return json.dumps({**COMMON, **GPUS[gpu], "deviceName": gpu})


class Recorder(LaunchPlan):
    """A launch plan that records operation graphs without a GPU."""

    graphs: list[OperationGraph]

    def __init__(self, ctx: PrepareContext) -> None:
        super().__init__(ctx)
        self.graphs = []

    def operations(self, graph: OperationGraph) -> None:
        self.graphs.append(graph)


def graphs_of(layer: Layer, dtype: str, data_format: str) -> Iterator[tuple[str, OperationGraph]]:
    """Yield the graphs of a convolution without and with a bias, and of its gradients.

    The kernels themselves build the graphs, so these are the graphs that networks use.
    """

    def images(channels: int, height: int, width: int) -> Meta:
        last = data_format == "NHWC"
        shape = (height, width, channels) if last else (channels, height, width)
        return Meta((BATCH, *shape), dtype)

    x, out = images(layer.channels, layer.size, layer.size), images(layer.filters, *layer.out)
    weight = Meta(
        (layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel), dtype
    )
    bias = Meta((layer.filters,), dtype)
    attrs = {
        "strides": (layer.stride,) * 2,
        "paddings": layer.paddings,
        "dilations": (layer.dilation,) * 2,
        "groups": layer.groups,
        "data_format": data_format,
    }
    forward = {"x": [x], "weight": [weight]}
    for name, listed in (("forward", []), ("with bias", [bias])):
        ctx = PrepareContext("conv2d", {**forward, "bias": listed}, {"out": [out]}, attrs)
        plan = Recorder(ctx)
        cudnn_convolution._fill_in(ctx, plan)
        yield name, plan.graphs[0]
    outputs = {"x_grad": [x], "weight_grad": [weight], "bias_grad": []}
    ctx = PrepareContext("conv2d_grad", {**forward, "out_grad": [out]}, outputs, attrs)
    plan = Recorder(ctx)
    cudnn_convolution._fill_in_grad(ctx, plan)
    yield from zip(("gradient of x", "gradient of weight"), plan.graphs, strict=True)


def ask(tf32: bool) -> Iterator[dict[str, Any]]:
    """Yield the answer of cuDNN for every graph."""
    choice = EngineChoice(allows_tf32=tf32)
    for gpu in GPUS:
        properties = describe(gpu)
        for network, layers in LAYERS.items():
            for dtype in ("float32",) if tf32 else DTYPES:
                for data_format in FORMATS:
                    for layer in layers:
                        said = {"gpu": gpu, "network": network, "dtype": dtype, "tf32": tf32}
                        said |= {"format": data_format, "layer": list(layer)}
                        for name, graph in graphs_of(layer, dtype, data_format):
                            try:
                                chosen = cudnn.choose_engine(graph, properties, choice)._asdict()
                            except KernelError as error:
                                chosen = {"refused": str(error)}
                            yield {**said, "graph": name, **chosen}


SYMBOLS: Final = (
    "CtxGetCurrent CtxGetLimit CtxPopCurrent CtxPushCurrent DeviceGet DeviceGetCount "
    "DriverGetVersion GetErrorName GetErrorString KernelGetAttribute KernelGetFunction "
    "KernelSetAttribute LaunchCooperativeKernel LaunchKernel LaunchKernelEx LibraryGetKernel "
    "LibraryLoadData LibraryLoadFromFile LibraryUnload LinkAddData LinkComplete LinkCreate "
    "LinkDestroy ModuleGetFunction ModuleLoadData ModuleUnload OccupancyMaxPotentialClusterSize "
    "StreamGetCtx TensorMapEncodeIm2col TensorMapEncodeTiled"
)
"""Symbols that cuDNN looks up in the driver when its engines are loaded."""


def stand_in_for_the_driver(folder: Path) -> None:
    """If there is no driver, load a library of the same name in which all functions fail."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        file, library = folder / "driver.c", folder / "libcuda.so.1"
        file.write_text(
            "".join(f"int cu{name}(void) {{ return 100; }}\n" for name in SYMBOLS.split())
        )
        name = "-Wl,-soname,libcuda.so.1"
        command = ["cc", "-w", "-shared", "-fPIC", name, str(file), "-o", str(library)]
        subprocess.run(command, check=True)
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def main() -> int:
    """Print all answers as JSON."""
    refusal = cudnn.find_refusal()
    if refusal is not None:
        print(refusal)
        return MISSING
    stand_in_for_the_driver(Path(sys.argv[1]))
    native.describe_gpu = lambda number: native.GpuInfo("none", (9, 0), 1, 0)
    answers = [answer for tf32 in (False, True) for answer in ask(tf32)]
    print(json.dumps({"version": native.cudnn_version(), "answers": answers}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
