"""Processor time of a whole process that computes the first result of a saved network.

C programs open a bundle with libopwright, or a model with ONNX Runtime's C interface. In Python,
the time includes importing NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from native import compile_program, find_packaged
from networks.images import RESNET18
from networks.mlp import SIZES
from networks.onnx_models import LSTM_SHAPE, make_image_network, make_lstm, make_mlp
from workload import Goal, NotAvailableError, Timed, Workload
from workloads.load import IMAGE, append_mlp, append_resnet, make_feed

ROOT = Path(__file__).parents[2]
RUNS_A_ROUND = 5

LOAD = """
import sys
import numpy as np
x = np.frombuffer(sys.stdin.buffer.read(), "float32").reshape([int(dim) for dim in sys.argv[2:]])
"""

OPWRIGHT = f"""{LOAD}
import opwright
sys.stdout.buffer.write(opwright.load(sys.argv[1])(x=x)[0].tobytes())
"""

ONNXRUNTIME = f"""{LOAD}
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
sys.stdout.buffer.write(session.run(None, {{"x": x}})[0].tobytes())
"""


def time_processes(
    folder: tempfile.TemporaryDirectory[str],
    command: list[str],
    feed: np.ndarray,
    variables: Mapping[str, str] | None = None,
) -> Timed:
    """Return the processor time in ns of new processes that read inputs and write results."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= variables or {}

    def run(_kept: object = folder) -> tuple[float, list[float]]:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(feed.tobytes())
            process.stdin.close()
            results = np.frombuffer(process.stdout.read(), "float32")
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return 1e9 * (usage.ru_utime + usage.ru_stime), results.tolist()

    _, values = run()  # the first process can write bytecode and the plugin index
    return Timed(measure=lambda: [run()[0] for _ in range(RUNS_A_ROUND)], values=values)


def opwright(shape: tuple[int, ...], append: Any, kind: str) -> Timed:
    """Return the time with a bundle in C or Python, or with a saved folder in Python."""
    import opwright as ow
    from opwright_nn import layers

    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    bundle, saved = Path(folder.name) / "model.owb", Path(folder.name) / "saved"
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        result, values = append(layers.data("x", shape=[None, *shape[1:]]))
    scope = ow.Scope()
    for name, value in values.items():
        scope.var(name).set(value)
    ow.save(saved, main, scope, [result])
    ow.load(saved).bundle(bundle, {"x": [None, *shape[1:]]}, batch=(1, 1))
    dims = [str(dim) for dim in shape]
    if kind == "python":
        command = [sys.executable, "-c", OPWRIGHT, str(saved), *dims]
    elif kind == "python-bundle":
        command = [sys.executable, "-c", OPWRIGHT, str(bundle), *dims]
    else:
        command = command_in_c(bundle)
    return time_processes(folder, command, make_feed(shape))


def opwright_onnx(shape: tuple[int, ...], make: Callable[[], bytes]) -> Timed:
    """Return the time with the bundle of an ONNX model in C."""
    from peers import find_peers

    find_peers()
    import opwright_onnx

    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    bundle = Path(folder.name) / "model.owb"
    opwright_onnx.load(make()).bundle(bundle)
    return time_processes(folder, command_in_c(bundle), make_feed(shape))


def command_in_c(bundle: Path) -> list[str]:
    """Return the command line of a C program that runs a bundle on one example."""
    import opwright as ow
    import opwright_cpu

    built = list((ROOT / "core" / "build").glob("*/libopwright.so"))
    if not built:
        raise NotAvailableError("core/build does not contain libopwright.so")
    library = max(built, key=os.path.getmtime)
    source = ROOT / "tests" / "bundles" / "run_bundle.c"
    flags = ["-I", ow.get_include(), "-DOPEN_FLAGS=0", str(library)]
    program = compile_program(source, *flags, f"-Wl,-rpath,{library.parent}")
    return [str(program), str(bundle), os.pathsep.join(opwright_cpu.__path__), "1"]


def onnxruntime(shape: tuple[int, ...], make: Callable[[], bytes], kind: str) -> Timed:
    """Return the time with an ONNX Runtime session in C or Python."""
    import onnx

    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    path = Path(folder.name) / "saved.onnx"
    path.write_bytes(make())
    dims = [str(dim) for dim in shape]
    if kind == "python":
        return time_processes(
            folder, [sys.executable, "-c", ONNXRUNTIME, str(path), *dims], make_feed(shape)
        )
    import onnxruntime as installed

    name = f"libonnxruntime.so.{installed.__version__}"
    library = find_packaged("onnxruntime", name) / name
    program = compile_program(ROOT / "benchmarks" / "native" / "first_result_onnxruntime.c", "-ldl")
    [output] = onnx.load(path).graph.output
    command = [str(program), str(library), str(path), "x", output.name, *dims]
    return time_processes(folder, command, make_feed(shape))


def make_implementations(shape: tuple[int, ...], append: Any, make: Any) -> dict[str, Any]:
    """Return the implementations, by name."""
    return {
        "opwright": partial(opwright, shape, append, "c"),
        "opwright-python-bundle": partial(opwright, shape, append, "python-bundle"),
        "opwright-python": partial(opwright, shape, append, "python"),
        "onnxruntime": partial(onnxruntime, shape, make, "c"),
        "onnxruntime-python": partial(onnxruntime, shape, make, "python"),
    }


WORKLOADS = [
    Workload(
        "serve-mlp",
        "processor time of a program in C from its start to the first result of 784-200-200-10",
        "ms",
        make_implementations((1, SIZES[0]), append_mlp, make_mlp),
        {"opwright": [Goal(figure=7), Goal(ratio=0.34, of="onnxruntime")]},
    ),
    Workload(
        "serve-lstm",
        "the same of an LSTM, 64 wide, for 16 steps, from an ONNX file, without oneDNN",
        "ms",
        {
            "opwright": partial(opwright_onnx, LSTM_SHAPE, make_lstm),
            "onnxruntime": partial(onnxruntime, LSTM_SHAPE, make_lstm, "c"),
        },
        {"opwright": [Goal(figure=3), Goal(ratio=0.34, of="onnxruntime")]},
    ),
    Workload(
        "serve-resnet18",
        "the same of ResNet-18",
        "ms",
        make_implementations(IMAGE, append_resnet, partial(make_image_network, RESNET18)),
        {"opwright": [Goal(ratio=0.45, of="onnxruntime")]},
        tolerance=1e-3,
    ),
]
