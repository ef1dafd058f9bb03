"""Training complete models on a GPU, replayed as one graph per step, matches the CPU."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from training import (
    ConvolutionStep,
    assert_same_losses,
    digits_batches,
    make_digits_model,
    parameters_of,
    train,
)

import opwright as ow

pytestmark = pytest.mark.cuda_kernels

STEPS = 4


def test_training_on_digits_matches_the_cpu() -> None:
    batches = digits_batches(STEPS)
    on_gpu, on_cpu = (make_digits_model(device)[0] for device in ("cuda", "cpu"))
    losses = [train(model, batches) for model in (on_gpu, on_cpu)]
    placement = on_gpu.network.placement()
    assert placement.graph_refusal == ""
    assert placement.python_steps == 0
    assert {name.partition("/")[0] for name in placement.kernels} == {"cuda"}
    assert_same_losses(*losses, relative=1e-4)
    wanted = parameters_of(on_cpu)
    for name, value in parameters_of(on_gpu).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_dropout_layer_drops_the_same_elements_as_on_the_cpu_in_every_step() -> None:
    batches = digits_batches(STEPS)
    losses = [train(make_digits_model(device, drop=0.5)[0], batches) for device in ("cuda", "cpu")]
    # A different mask would change the losses by a tenth.
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert len(set(losses[1])) == STEPS


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_training_on_the_device_matches_the_cpu(dtype: str) -> None:
    if not ow.current_context().kernels.candidates("conv2d", "cpu", dtype):
        pytest.skip(f"opwright-cpu was built without oneDNN: it has no conv2d of {dtype}")
    batches = digits_batches(STEPS)
    steps = [ConvolutionStep(device, dtype) for device in ("cuda", "cpu")]
    losses = [step.train(batches) for step in steps]
    assert {n.partition("/")[0] for n in steps[0].network.placement().kernels} == {"cuda"}
    # In 16 bits, sums in a different order may be rounded to a different neighbor.
    assert_same_losses(*losses, relative=0.03)
    if dtype == "float16":
        scales = [step.scope.var("loss_scale").numpy() for step in steps]
        np.testing.assert_array_equal(*scales)


def test_a_learning_rate_that_is_set_between_steps_applies_to_the_next_step() -> None:
    batches, losses = digits_batches(2 * STEPS), []
    for device in ("cuda", "cpu"):
        model, _ = make_digits_model(device)
        begun = train(model, batches[:STEPS])
        model.set_learning_rate(0.01)
        losses.append(begun + train(model, batches[STEPS:]))
    assert_same_losses(*losses, relative=1e-4)


def test_filled_or_loaded_parameters_are_used_in_the_next_step() -> None:
    batches, losses = digits_batches(3 * STEPS), []
    for device in ("cuda", "cpu"):
        model, _ = make_digits_model(device)
        other, _ = make_digits_model("cpu")
        seen = train(model, batches[:STEPS])
        for name, value in parameters_of(model).items():
            model.fill(name, 0.5 * value)
        seen += train(model, batches[STEPS : 2 * STEPS])
        with tempfile.TemporaryDirectory() as folder:
            other.save(folder)
            model.load_parameter(folder)
        losses.append(seen + train(model, batches[2 * STEPS :]))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_the_graph_is_rerecorded_if_a_variable_is_replaced_on_the_device() -> None:
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    scope, x = ow.Scope(), np.arange(6, dtype=np.float32) - 2
    scope.var("w").set(x)
    call = network.compile(feed=["x"], fetch=["w"], device="cuda", scope=scope)
    results = [call(x=x)[0] for _ in range(3)]
    # Change the size and restore it; the variable has different memory each time.
    scope.var("w").set(np.ones((2, 6), np.float32))
    results += [call(x=x)[0] for _ in range(3)]
    scope.var("w").set(10 * x)
    results += [call(x=x)[0] for _ in range(3)]
    ones = np.ones((2, 6), np.float32)
    wanted = [(n + 2) * x for n in range(3)]
    wanted += [ones + (n + 1) * x for n in range(3)]
    wanted += [(n + 11) * x for n in range(3)]
    for got, number in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(got, number)


def test_a_model_trained_on_a_gpu_can_be_loaded_on_the_cpu() -> None:
    batches = digits_batches(STEPS)
    model, prob = make_digits_model("cuda")
    train(model, batches)
    on_gpu = model.predict(prob, img=batches[0][0])
    fresh, prob = make_digits_model("cpu")
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        fresh.load_parameter(folder)
    on_cpu = fresh.predict(prob, img=batches[0][0])
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(train(model, batches), train(fresh, batches), rtol=1e-4)


def test_each_batch_size_has_its_own_graph() -> None:
    batches = [(images[:size], labels[:size]) for images, labels in digits_batches(3)
               for size in (64, 5, 64, 5)]  # fmt: skip
    losses = [train(make_digits_model(device)[0], batches) for device in ("cuda", "cpu")]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_two_models_can_run_alternately() -> None:
    batches = digits_batches(STEPS)
    first, second = (make_digits_model("cuda")[0] for _ in range(2))
    losses: list[list[float]] = [[], []]
    for batch in batches:
        losses[0] += train(first, [batch])
        losses[1] += train(second, [batch])
    assert losses[0] == losses[1]
    np.testing.assert_allclose(losses[0], train(make_digits_model("cpu")[0], batches), rtol=1e-4)


def test_training_a_convolutional_network_matches_the_cpu() -> None:
    batches = [(images[:16], labels[:16]) for images, labels in digits_batches(STEPS)]
    steps = [ConvolutionStep(device) for device in ("cuda", "cpu")]
    losses = [step.train(batches) for step in steps]
    assert steps[0].network.placement().graph_refusal == ""
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
