"""Several real processes can train, normalize, save and resume opwright-nn models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.grid(6)

HEAD = """
import sys
from pathlib import Path
import numpy as np
import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

r, n = dist.rank(), dist.size()
ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


def build(parallel, sync=None):
    model = nn.Model(data_parallel=parallel)
    hidden = model.fc_layer("x", 16)
    if sync:
        hidden = model.batch_norm(hidden, sync=sync)
    hidden = model.dropout(model.tanh(hidden), 0.3)
    error = model.fc_layer(hidden, 1) - model.input("y")
    model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
    return model


def values(model):
    return [model.scope.var(p.name).numpy() for p in model.parameters]


def same_on_all(arrays):
    every = dist.gather(b"".join(array.tobytes() for array in arrays))
    assert len(set(every)) == 1, "the processes differ"


def close(arrays, wanted, rtol=1e-4):
    for own, whole in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(own, whole, rtol=rtol, atol=1e-5)
"""

TRAINING = """
choice = nn.DataParallel(unequal_rows=sys.argv[1])
size = 10 if sys.argv[1] == "weight" else 12
whole = build(None, None)
wanted = nn.train(whole, DATA, epochs=3, batch_size=size, seed=2, validation=DATA, progress=False)
model = build(choice)
if r == 1:
    model.initialize_parameters(seed=99, x=ROWS[:4])  # replaced by the parameters of rank 0
else:
    model.initialize_parameters(x=ROWS[:4])
history = nn.train(model, DATA, epochs=3, batch_size=size, seed=2, validation=DATA, progress=False)
same_on_all(values(model))
close(values(model), values(whole))
for name in ("loss", "validation_loss"):
    close([history[name]], [wanted[name]])
    same_on_all([np.array(history[name])])
batches = nn.batches(DATA, size, epochs=3, seed=2, shard="world")
model = build(choice)
for batch in batches:
    model.fill("x", batch["x"])
    model.fill("y", batch["y"])
    model.run()
close(values(model), values(whole))
print("good")
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("unequal_rows", ["refuse", "weight"])
def test_training_a_model_matches_one_process(run, ranks: int, unequal_rows: str) -> None:
    script = HEAD + f"sys.argv[1:] = [{unequal_rows!r}]" + TRAINING
    done = run(script, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


OPTIONS = """
def build_with(parallel, precision=None):
    model = nn.Model(data_parallel=parallel, mixed_precision=precision)
    out = model.fc_layer(model.dropout(model.fc_layer("x", 16), 0.3), 1)
    adam = nn.optimizer.Adam(0.01, clip=nn.clip.ClipByGlobalNorm(0.5))
    loss = model.mean(model.mse(out, "y"))
    model.minimize(loss, nn.optimizer.Accumulate(adam, steps=2))
    return model


whole, model, narrow = build_with(None), build_with(True), build_with(True, "float16")
for each in (whole, model, narrow):
    nn.train(each, DATA, epochs=2, batch_size=10, seed=2, progress=False)
same_on_all(values(model))
close(values(model), values(whole), rtol=1e-3)
same_on_all(values(narrow))  # an overflow in one process counts as one in all
assert all(np.isfinite(array).all() for array in values(narrow))
print("good")
"""


def test_accumulated_clipped_and_scaled_gradients_match_one_process(run) -> None:
    done = run(HEAD + OPTIONS, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_unequal_batches_are_refused_if_requested(run) -> None:
    script = """
model = build(nn.DataParallel(unequal_rows="refuse"))
try:
    nn.train(model, DATA, epochs=1, batch_size=25, seed=2, progress=False)
except ow.errors.OpwrightError as error:
    print(error)
"""
    done = run(HEAD + script, 2)
    assert "rows=12" in done.stdout, done.stdout + done.stderr
    assert "rows=13" in done.stdout


def test_training_with_a_custom_step_can_be_resumed(run) -> None:
    script = """
def make():
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        x, y = nn.layers.data("x", [None, 6]), nn.layers.data("y", [None, 1])
        error = nn.layers.fc(nn.layers.dropout(nn.layers.fc(x, 16), 0.2), 1) - y
        loss = nn.layers.mean(error * error)
        pairs = nn.optimizer.Adam(0.01).minimize(loss, data_parallel="world")
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(feed=[x, y], fetch=[loss], scope=scope)
    return main, step, scope, pairs


def train(folder, epochs):
    main, step, scope, pairs = make()
    batches = nn.batches(DATA, 12, seed=2, epochs=epochs, shard="world")
    saver = nn.Checkpoint(Path(__file__).parent / folder, program=main)
    nn.train(step, batches, epochs, callbacks=[saver], resume="latest", progress=False)
    return [scope.find_var(p.name).numpy() for p, _ in pairs]


train("parts", 1)
parts, whole = train("parts", 3), train("whole", 3)
same_on_all(parts)
for one, other in zip(parts, whole, strict=True):
    np.testing.assert_array_equal(one, other)
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


NORMALIZATION = """
def normalize(rows, grads, parallel, sync, **more):
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x = nn.layers.data("x", [None, 3, 4])
        weight = nn.layers.data("weight", [None, 3, 4])
        out = nn.layers.batch_norm(x, sync=sync, momentum=0.7, **more)
        loss = nn.layers.mean(out * out * weight)
        pairs = ow.append_backward([loss], parameters=[x, *main.parameters()])
        trained = [pair for pair in pairs if pair[0] is not x]
        x_grad = next(grad for variable, grad in pairs if variable is x)
        if parallel is not None:
            trained = dist.data_parallel(trained, **parallel)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    fetch = [out, x_grad, *(grad for _, grad in trained)]
    step = ow.Network(main.global_block()).compile(feed=[x, weight], fetch=fetch, scope=scope)
    results = step(x=rows, weight=grads)
    states = [v.name for v in main.global_block().vars.values() if v.persistable]
    return results, [scope.find_var(name).numpy() for name in sorted(states)]


rng = np.random.default_rng(5)
X = (rng.normal(size=(16, 3, 4)) * 3 + 40).astype(np.float32)
W = rng.normal(size=(16, 3, 4)).astype(np.float32)
whole, states = normalize(X, W, None, None)
cut = [0, *(3 + 2 * k for k in range(n - 1)), 16]
for part, unequal in (
    (slice(r * 16 // n, (r + 1) * 16 // n), "refuse"),
    (slice(cut[r], cut[r + 1]), "weight"),
):
    sync = nn.DataParallel(unequal_rows=unequal)
    own, own_states = normalize(X[part], W[part], {"unequal_rows": unequal}, sync)
    share = (part.stop - part.start) / 16
    close([own[0]], [whole[0][part]])
    close([own[1] * share], [whole[1][part]])  # gradients of the mean over this process
    close(own[2:], whole[2:])
    close(own_states, states)
    same_on_all(own_states)
    unbiased = normalize(X[part], W[part], {"unequal_rows": unequal}, sync, unbiased=True)[1]
    close(unbiased, normalize(X, W, None, None, unbiased=True)[1])
print("good")
"""


@pytest.mark.parametrize("ranks", [2, 1, 4])
def test_batch_norm_uses_the_batch_of_all_processes(run, ranks: int) -> None:
    done = run(HEAD + NORMALIZATION, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_a_model_with_batch_norm_over_processes_predicts_in_a_single_process(run) -> None:
    script = """
model = build(True, True)
nn.train(model, DATA, epochs=1, batch_size=12, progress=False)
out = model.program.global_block().ops[0].output("out")[0]
if r == 0:
    model.predict(model.program.global_block().var(out), x=ROWS)
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("good") == 2, done.stdout + done.stderr


RESUMING = """
folder = Path(__file__).parent / "checkpoints"
model = build(True, True)
history = nn.train(
    model, DATA, epochs=int(epochs), batch_size=12, seed=2, progress=False, resume="latest",
    callbacks=[nn.Checkpoint(folder, keep=20, every_steps=3)],
)
same_on_all(values(model))
model.save(folder.parent / "saved")
kept = len(list((folder / "generations").iterdir()))
if r == 0:
    print("saves", kept, "loss", *(format(loss, ".5e") for loss in history["loss"]))
    np.savez(Path(__file__).parent / f"{n}_{epochs}.npz", *values(model))
"""


def test_training_continues_with_a_different_number_of_processes(run, tmp_path: Path) -> None:
    def train(ranks: int, epochs: int) -> str:
        done = run(HEAD + f"epochs = {epochs}\n" + RESUMING, ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    first = train(2, 1)
    # An epoch has 5 steps; checkpoints are saved after the third step and at the end of the epoch.
    assert "saves 2 " in first
    train(4, 2)
    last = train(1, 3)
    (tmp_path / "checkpoints").rename(tmp_path / "before")
    alone = train(1, 3)
    losses = [[float(word) for word in text.split("loss ")[1].split()] for text in (last, alone)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_processes_with_different_folders_are_reported(run) -> None:
    script = """
model = build(True)
model.initialize_parameters(x=ROWS, y=DATA["y"])
folder = Path(__file__).parent / "saved"
model.save(folder)
try:
    model.resume(folder if r == 0 else folder.parent / "other", missing_ok=True)
except ow.errors.ProgramError as error:
    print(error)
assert model.resume(folder)
print("good")
"""
    done = run(HEAD + script, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("must read the same saved model, got the one with the checksum") == 2
    assert done.stdout.count("good") == 2


def test_a_failed_save_is_reported_by_all_processes(run) -> None:
    script = """
model = build(True)
model.initialize_parameters(x=ROWS, y=DATA["y"])
Path(__file__).with_name(f"file_{r}").write_text("in the way")
try:
    model.save(Path(__file__).with_name("file_0") / "folder")
except (OSError, dist.DistError, ow.errors.OpwrightError) as error:
    print("told", r, type(error).__name__)
print("good")
"""
    done = run(HEAD + script, 2)
    assert "told 0" in done.stdout, done.stdout + done.stderr
    assert "told 1 DistError" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("good") == 2
