"""The cost of `import opwright` beyond NumPy and pluggy; for peers, the complete import."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from workload import Goal, Timed, Workload

RUNS_A_ROUND = 3

TIMED = """
import time
{before}
began = time.perf_counter_ns()
{timed}
print(time.perf_counter_ns() - began)
"""


def imports(timed: str, before: str = "") -> Timed:
    """Run Python code in new processes; return its durations in ns."""
    command = [sys.executable, "-c", TIMED.format(timed=timed, before=before)]
    # An installed package has bytecode; without it, compilation would dominate the measurement.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        return float(done.stdout)

    run()  # the first process can write bytecode and the plugin index
    return Timed(measure=lambda: [run() for _ in range(RUNS_A_ROUND)])


def peer(name: str) -> Timed:
    """Return the import time of a peer, which must be installed."""
    __import__(name)
    return imports(f"import {name}")


WORKLOADS = [
    Workload(
        "import",
        "import opwright beyond NumPy and pluggy (peers: the whole import)",
        "ms",
        {
            "opwright": partial(imports, "import opwright", "import numpy, pluggy"),
            "opwright, first operator": partial(
                imports,
                "opwright.ops.add(numpy.ones(3), numpy.ones(3))",
                "import numpy, opwright",
            ),
            **{name: partial(peer, name) for name in ("torch", "jax", "onnxruntime")},
        },
        {"opwright": [Goal(figure=20)]},
    ),
]
