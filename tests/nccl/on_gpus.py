"""Checks and measures opwright-nccl on the GPUs of this machine: ``python tests/nccl/on_gpus.py``.

With one GPU, it checks that a process connects to itself; with two or more, it checks and measures
everything else. The last line is a summary in JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from launching import run_script
from scripts import (
    ALONE,
    EXACT,
    MODEL,
    MOVEMENTS,
    PRODUCTS,
    REDUCTIONS,
    ROWS,
    SHARDS,
    STATES_IN_PARTS,
    STATES_OF_MODELS,
    TABLES,
    TRAINING,
    VALUES,
)

from opwright_cuda.services import count_gpus
from opwright_nccl.doctor import examine

LATE = """
import time
import numpy as np
import opwright as ow
import opwright_dist as dist

network = ow.Network([ow.Operator("dist.all_reduce", x="x", out="out")])
call = network.compile(feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())
for _ in range(3):
    call(x=np.ones(8, np.float32))
dist.set_deadline(3)
if dist.rank() == 1:
    time.sleep(60)
try:
    call(x=np.ones(8, np.float32))
except ow.errors.OpwrightError as error:
    print("good" if "rank 1 did not arrive within 3 s" in str(error) else error, flush=True)
raise SystemExit(1)
"""
"""The watcher terminates an NCCL kernel that waits in a replayed graph."""

TIMES = """
import json
import time
import numpy as np
import opwright as ow
import opwright_dist as dist

times = {}
for size in (1 << 8, 1 << 18, 25 << 20):
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[size], dtype="float32", persistable=True)
    block.append_op("dist.all_reduce", {"x": x}, {"out": x}, attrs={"reduce": "mean"})
    scope = ow.Scope()
    scope.var("x").set(np.ones(size, np.float32))
    network = ow.Network(block)
    call = network.compile(feed=[], fetch=[], device="cuda", scope=scope)
    rounds = []
    for _ in range(12):
        begin = time.perf_counter()
        for _ in range(50):
            call()
        scope.var("x").numpy()  # waits for the GPU
        rounds.append((time.perf_counter() - begin) / 50)
    assert network.placement().graph_refusal == "", network.placement()
    times[size * 4] = sorted(rounds[2:])[5]
if dist.rank() == 0:
    print("TIMES " + json.dumps(times))
print("good")
"""


def main() -> int:
    """Run all checks; return the number of failures."""
    n = count_gpus()
    print(f"{n} GPUs", *examine(), sep="\n", flush=True)
    work = [("alone", ALONE, 1, None)]
    for ranks in sorted({2, n}) if n > 1 else ():
        work += [
            (f"reductions on {ranks}", VALUES + REDUCTIONS, ranks, None),
            (f"exact values on {ranks}", VALUES + EXACT, ranks, None),
            (f"movements on {ranks}", VALUES + MOVEMENTS, ranks, None),
            (f"shards on {ranks}", VALUES + SHARDS, ranks, None),
            (f"rows on {ranks}", VALUES + ROWS, ranks, None),
            (f"training on {ranks}", TRAINING, ranks, None),
            (f"model on {ranks}", MODEL, ranks, None),
            (f"table on {ranks}", TABLES, ranks, None),
            (f"late rank of {ranks}", LATE, ranks, ranks - 1),
            (f"times on {ranks}", TIMES, ranks, None),
        ]
    if n > 1:  # bitwise results need 2 ranks, since NCCL may add more terms in any order
        work.append(("states in parts on 2", STATES_IN_PARTS + STATES_OF_MODELS, 2, None))
        work.append(("products on 2", PRODUCTS, 2, None))
    summary = {}
    for name, script, ranks, wanted in work:
        summary[name] = check(name, script, ranks, ranks if wanted is None else wanted)
    print(json.dumps(summary))
    return sum(not each["passed"] for each in summary.values())


def check(name: str, script: str, ranks: int, wanted: int) -> dict[str, object]:
    """Run a script; it passes if `wanted` processes print "good"."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script)
        done = run_script(path, "nccl", ranks, {})
    passed = done.stdout.count("good") == wanted
    seconds = round(time.perf_counter() - begin, 1)
    print(f"{'passed' if passed else 'FAILED'}  {name}  {seconds} s", flush=True)
    if not passed:
        print(done.stdout + done.stderr, flush=True)
    result: dict[str, object] = {"passed": passed, "seconds": seconds}
    for line in done.stdout.splitlines():
        if "TIMES " in line:
            result["all_reduce_s_by_bytes"] = json.loads(line.partition("TIMES ")[2])
    return result


if __name__ == "__main__":
    sys.exit(main())
