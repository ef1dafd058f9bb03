"""Discovery of 400 distributions, 100 of which are plugins with 20 operators each.

Each figure is measured in a new process with an existing plugin index. The peer only searches for
entry points; it does not import them and has no operators.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from workload import Goal, Timed, Workload

RUNS_A_ROUND = 3
DISTRIBUTIONS = 400
PLUGINS = 100
OPERATORS = 20

HOOKS = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    for number in range(OPERATORS):
        registry.add(f"NAME.op{number}", f"PACKAGE.operators:OP{number}")

@plugin.hookimpl
def opwright_kernels(registry):
    for number in range(OPERATORS):
        registry.add(f"NAME.op{number}", device="cpu", dtypes=["float32", "float64"],
                     kernel="PACKAGE.operators:twice")
"""

MODULE = """
import numpy as np
from opwright.op import OpMaker, no_gradient, same_shape_as

def twice(x, out):
    np.add(x, x, out=out)

def make(type):
    return (
        OpMaker(type).add_comment("Twice.").add_input("x", "any shape")
        .add_output("out", "as x").same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("a benchmark"))
    )

for number in range(OPERATORS):
    globals()[f"OP{number}"] = make(f"NAME.op{number}")
"""

TIMED = """
import time
{before}
began = time.perf_counter_ns()
{timed}
print(time.perf_counter_ns() - began)
"""


def install(folder: Path) -> None:
    """Write the distributions as pip would install them."""
    for number in range(DISTRIBUTIONS):
        name = f"p{number}" if number < PLUGINS else f"thing{number}"
        package = f"opwright_{name}"
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata)
        if number < PLUGINS:
            entry = f"[opwright.plugins]\n{name} = {package}.plugin\n"
            (info / "entry_points.txt").write_text(entry)
            (folder / package).mkdir()
            for module, text in {"__init__": "", "plugin": HOOKS, "operators": MODULE}.items():
                body = text.replace("NAME", name).replace("PACKAGE", package)
                body = body.replace("OPERATORS", str(OPERATORS))
                (folder / package / f"{module}.py").write_text(body)
    for path in folder.rglob("*.py"):  # files written very recently are not indexed
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))


def time_process(timed: str, before: str) -> Timed:
    """Run code in new processes with the distributions on their path; return durations in ns."""
    kept = tempfile.TemporaryDirectory(prefix="opwright-bench-")
    folder = Path(kept.name)
    install(folder)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(folder), "OPWRIGHT_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", TIMED.format(timed=timed, before=before)]

    def run(_kept: object = kept) -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        return float(done.stdout)

    run()  # writes the index and bytecode
    return Timed(measure=lambda: [run() for _ in range(RUNS_A_ROUND)])


WORKLOADS = [
    Workload(
        "discovery",
        "listing the operators of 100 plugins among 400 distributions (peer: entry points only)",
        "ms",
        {
            "opwright": partial(
                time_process,
                f"assert len(opwright.list_ops()) >= {PLUGINS * OPERATORS}",
                "import numpy, opwright",
            ),
            "opwright, discovery alone": partial(
                time_process,
                "current_context()",
                "from opwright.context.context import current_context",
            ),
            "opwright, first operator": partial(
                time_process,
                "opwright.ops.p7.op3(numpy.ones(3))",
                "import numpy, opwright",
            ),
            "importlib.metadata": partial(
                time_process,
                f"assert len(entry_points(group='opwright.plugins')) >= {PLUGINS}",
                "from importlib.metadata import entry_points",
            ),
        },
        {
            "opwright": [Goal(figure=50)],
            "opwright, discovery alone": [Goal(ratio=1, of="importlib.metadata")],
        },
    ),
]
