"""The time from a saved network to its first result in a new process, excluding NumPy's import.

All installed packages affect the time. The time includes importing the library, loading the file,
and one call. opwright finds its plans in the cache folder; in the variants named "first process",
it finds only the plugin index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from networks.images import RESNET18
from networks.mlp import SIZES
from networks.onnx_models import make_image_network, make_mlp
from workload import Goal, Timed, Workload

RUNS_A_ROUND = 3

TIMED = """
import json, sys, time
import numpy as np
feed = np.load(sys.argv[2])
began = time.perf_counter_ns()
{code}
print(json.dumps([time.perf_counter_ns() - began, result.ravel().tolist()]))
"""

OPWRIGHT = """
import opwright
result = opwright.load(sys.argv[1])(x=feed)[0]
"""

ONNXRUNTIME = """
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
result = session.run(None, {"x": feed})[0]
"""


def make_feed(shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 numbers for one example."""
    return np.random.default_rng(28).standard_normal(shape, dtype="float32")


def time_loading(
    code: str, folder: tempfile.TemporaryDirectory[str], path: Path, *, keep: bool = True
) -> Timed:
    """Return the time in ns that new processes take to load a path and compute the first result."""
    command = [sys.executable, "-c", TIMED.replace("{code}", code)]
    command += [str(path), str(Path(folder.name) / "feed.npy")]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["OPWRIGHT_KEEP_PLANS"] = str(int(keep))

    def run(_kept: object = folder) -> tuple[float, list[float]]:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        ns, values = json.loads(done.stdout)
        return ns, values

    _, values = run()  # the first process can write bytecode, the plugin index and plans
    return Timed(measure=lambda: [run()[0] for _ in range(RUNS_A_ROUND)], values=values)


def append_mlp(x: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Append the MLP; return its result and its parameters by name."""
    import opwright as ow
    from networks.mlp import make_parameters
    from opwright_nn import layers

    h = x
    for size, activation in zip(SIZES[1:], ("sigmoid", "sigmoid", "softmax"), strict=True):
        h = layers.fc(h, size=size, activation=activation)
    names = [parameter.name for parameter in ow.default_main_program().parameters()]
    return h, dict(zip(names, make_parameters(), strict=True))


def append_resnet(x: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Append ResNet-18 for inference; return its logits and its parameters by name."""
    from networks.image_programs import append_network

    return append_network(RESNET18, x, training=False)


def opwright(shape: tuple[int, ...], append: Any, *, keep: bool = True) -> Timed:
    """Return the time to load a path with `opwright.load` and to call the result once."""
    import opwright as ow
    from opwright_nn import layers

    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    np.save(Path(folder.name) / "feed.npy", make_feed(shape))
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        result, values = append(layers.data("x", shape=[None, *shape[1:]]))
    scope = ow.Scope()
    for name, value in values.items():
        scope.var(name).set(value)
    ow.save(Path(folder.name) / "saved", main, scope, [result])
    return time_loading(OPWRIGHT, folder, Path(folder.name) / "saved", keep=keep)


def onnxruntime(shape: tuple[int, ...], make: Callable[[], bytes]) -> Timed:
    """Return the time to create a session from a file and run it once."""
    folder = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    np.save(Path(folder.name) / "feed.npy", make_feed(shape))
    path = Path(folder.name) / "saved.onnx"
    path.write_bytes(make())
    return time_loading(ONNXRUNTIME, folder, path)


IMAGE = (1, 3, 224, 224)

WORKLOADS = [
    Workload(
        "load-mlp",
        "from the saved 784-200-200-10 to its first result, beyond NumPy's import",
        "ms",
        {
            "opwright": partial(opwright, (1, SIZES[0]), append_mlp),
            "opwright-first": partial(opwright, (1, SIZES[0]), append_mlp, keep=False),
            "onnxruntime": partial(onnxruntime, (1, SIZES[0]), make_mlp),
        },
        {"opwright": [Goal(figure=20)], "opwright-first": [Goal(figure=60)]},
    ),
    Workload(
        "load-resnet18",
        "from the saved ResNet-18 to its first result, beyond NumPy's import",
        "ms",
        {
            "opwright": partial(opwright, IMAGE, append_resnet),
            "opwright-first": partial(opwright, IMAGE, append_resnet, keep=False),
            "onnxruntime": partial(onnxruntime, IMAGE, partial(make_image_network, RESNET18)),
        },
        {
            "opwright": [Goal(ratio=1.0, of="onnxruntime")],
            "opwright-first": [Goal(ratio=1.2, of="onnxruntime")],
        },
        tolerance=1e-3,
    ),
]
