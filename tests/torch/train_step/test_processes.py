"""Several processes train one model, with the MPI library in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import opwright_dist as dist
import torch
from torch import nn
from torch.nn import functional
import opwright_torch

torch.set_num_threads(1)
r, n = dist.rank(), dist.size()


def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def data(i):
    generator = torch.Generator().manual_seed(i)
    return torch.randn(8, 6, generator=generator), torch.arange(8) % 4


model, whole = build(r), build(0)  # all begin with what rank 0 has
optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, whole)]
step = opwright_torch.train_step(
    model, functional.cross_entropy, optimizers[0],
    data_parallel=True, clip_norm=0.5, accumulate=2,
)
for i in range(6):
    x, y = data(i)
    own = slice(4 * r, 4 * r + 4)
    step(x[own], y[own])
    (functional.cross_entropy(whole(x), y) / 2).backward()
    if i % 2:
        nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        optimizers[1].step()
        optimizers[1].zero_grad()
for a, b in zip(model.parameters(), whole.parameters(), strict=True):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
every = dist.gather(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
assert len(set(every)) == 1
try:
    step(x[: 4 - r], y[: 4 - r])
except Exception as error:
    assert "all processes must build the same program" in str(error), error
    shapes = f"the batch of this process has the shapes [{4 - r}, 6], [{4 - r}];"
    assert shapes in error.__notes__[-1], error.__notes__
    print("refused", flush=True)
"""


def test_gradients_are_averaged_and_unequal_batches_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    start = "import sys; from opwright_mpi.launcher import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, "run", "-n", "2", str(script)],
        env=os.environ | {"OPWRIGHT_DIST_DEADLINE": "60"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == 2
