"""Full-length training on a GPU matches the CPU, and its models can be used on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training import assert_same_losses, digits_batches, make_digits_model, train

import opwright_nn as nn

pytestmark = pytest.mark.cuda

ON_CPU = """
import sys
import numpy as np
from training import make_digits_model
import opwright_nn as nn
model, prob = make_digits_model("cpu")
model.load_parameter(sys.argv[1])
_, test = nn.datasets.digits.load(seed=1)
np.save(sys.argv[1] + "/predicted.npy", model.predict(prob, img=test.images))
"""


def test_full_length_training_on_digits_matches_the_cpu_and_the_model_loads_there(
    tmp_path: Path,
) -> None:
    n_epochs = 20
    batches = digits_batches(n_epochs * 22)
    model, prob = make_digits_model("cuda")
    losses = train(model, batches)
    reference = train(make_digits_model("cpu")[0], batches)
    # Rounding differences grow, so the first losses match closely, and later losses only roughly.
    assert_same_losses(losses[:50], reference[:50], relative=1e-3)
    np.testing.assert_allclose(losses[-20:], reference[-20:], rtol=0.1)
    _, test = nn.datasets.digits.load(seed=1)
    predicted = model.predict(prob, img=test.images)
    assert nn.metrics.accuracy(predicted, test.labels) > 0.95
    model.save(tmp_path)
    folder = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(folder)!r})\n{ON_CPU}",
         str(tmp_path)],
        check=True, timeout=100,
    )  # fmt: skip
    on_cpu = np.load(tmp_path / "predicted.npy")
    np.testing.assert_allclose(predicted, on_cpu, rtol=1e-3, atol=1e-5)


def test_two_runs_are_bitwise_identical() -> None:
    batches = digits_batches(60)
    runs = [train(make_digits_model("cuda", drop=0.3)[0], batches) for _ in range(2)]
    assert runs[0] == runs[1]


def test_dropout_during_full_length_training_matches_the_cpu() -> None:
    batches = digits_batches(100)
    losses = [train(make_digits_model(d, drop=0.3)[0], batches) for d in ("cuda", "cpu")]
    assert_same_losses(losses[0][:40], losses[1][:40], relative=1e-3)


def test_a_model_accepts_arrays_on_the_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    batches: list[Any] = digits_batches(20)
    on_gpu = [(cupy.asarray(images), cupy.asarray(labels)) for images, labels in batches]
    losses = [train(make_digits_model("cuda")[0], given) for given in (batches, on_gpu)]
    assert losses[0] == losses[1]
