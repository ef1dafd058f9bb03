"""Weights of other frameworks are mapped by name, transposed on request, and checked."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, FileMissingError, FormatError, ProgramError
from opwright_nn.checkpoint import transposed

RNG = np.random.default_rng(2)
NAMES = {"fc_0_w_param": transposed("0.weight"), "fc_0_b_param": "0.bias"}


@pytest.fixture
def weights(tmp_path):
    """A file with the weights of a PyTorch nn.Linear(5, 3), in the layout [out, in]."""
    arrays = {
        "0.weight": RNG.normal(size=(3, 5)).astype(np.float32),
        "0.bias": RNG.normal(size=3).astype(np.float32),
    }
    save_file(arrays, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors", arrays


def make_model():
    model = nn.Model()
    scores = model.fc_layer("x", size=3)
    return model, scores


@pytest.mark.parametrize("requested", [True, False])
def test_a_model_with_loaded_weights_matches_the_other_framework(weights, requested):
    path, arrays = weights
    model, scores = make_model()
    if requested:
        model.initialize_parameters(seed=1)  # deferred; must not undo the loading
    model.load_weights(path, NAMES)
    x = RNG.normal(size=(4, 5)).astype(np.float32)
    expected = x @ arrays["0.weight"].T + arrays["0.bias"]
    np.testing.assert_allclose(model.predict(scores, x=x), expected, rtol=1e-5, atol=1e-6)


def test_load_weights_sets_the_variables_of_a_program(weights):
    path, arrays = weights
    model, _ = make_model()
    nn.checkpoint.load_weights(path, model.program, model.scope, NAMES)
    value = model.scope.var("fc_0_w_param").numpy()
    np.testing.assert_array_equal(value, arrays["0.weight"].T)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrower_floats_are_converted_exactly(tmp_path, dtype):
    bias = np.array([1.5, -2.25, 1e-3]).astype(dtype)
    save_file({"bias": bias}, tmp_path / "half.safetensors")
    model, _ = make_model()
    model.load_weights(tmp_path / "half.safetensors", {"fc_0_b_param": "bias"}, strict=False)
    value = model.scope.var("fc_0_b_param").numpy()
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, bias.astype(np.float32))


def test_load_tensors_returns_all_arrays(weights):
    path, arrays = weights
    tensors = ow.load_tensors(path)
    assert tensors.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name], array)


def test_the_error_names_a_missing_or_invalid_file(tmp_path):
    with pytest.raises(FileMissingError, match="no.safetensors: must be a safetensors file"):
        ow.load_tensors(tmp_path / "no.safetensors")
    (tmp_path / "text.safetensors").write_text("no tensors, but enough of them")
    with pytest.raises(FormatError, match="truncated, or not a safetensors file"):
        ow.load_tensors(tmp_path / "text.safetensors")
    with pytest.raises(AttributeTypeError, match="load_tensors: path must be"):
        ow.load_tensors(3)


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        ({**NAMES, "fc_0_w_parm": "0.bias"}, "got 'fc_0_w_parm'; did you mean 'fc_0_w_param'"),
        ({**NAMES, "fc_0_b_param": "0.bais"}, "got '0.bais' for .*; did you mean '0.bias'"),
        ({"fc_0_w_param": transposed("0.weight")}, "none for 'fc_0_b_param'; none to '0.bias'"),
        (
            {**NAMES, "fc_0_b_param": "0.weight"},
            r"'fc_0_b_param' from '0.weight' as float32\[3, 5\] instead of float32\[3\]",
        ),
    ],
)
def test_a_wrong_name_is_refused_and_changes_nothing(weights, names, rule):
    model, _ = make_model()
    strict = "none for" in rule
    with pytest.raises(ProgramError, match=rf"checkpoint\.load_weights: .*{rule}"):
        model.load_weights(weights[0], names, strict=strict)
    assert not any(model.scope.var(p.name).is_set for p in model.parameters)


def test_the_error_for_a_weight_of_transposed_shape_suggests_transposing(weights):
    model, _ = make_model()
    model.initialize_parameters(x=np.zeros((1, 5), np.float32))
    with pytest.raises(ProgramError, match=r"\[5, 3\]; write transposed\('0.weight'\)"):
        model.load_weights(weights[0], {**NAMES, "fc_0_w_param": "0.weight"})


def test_a_wider_float_is_refused(tmp_path):
    save_file({"bias": np.zeros(3)}, tmp_path / "double.safetensors")
    model, _ = make_model()
    with pytest.raises(ProgramError, match="as float64 instead of float32; convert it first"):
        model.load_weights(tmp_path / "double.safetensors", {"fc_0_b_param": "bias"}, strict=False)


def test_names_must_be_a_mapping(weights):
    model, _ = make_model()
    with pytest.raises(AttributeTypeError, match="load_weights: names must be a mapping"):
        model.load_weights(weights[0], ["0.weight"])


def test_the_pytorch_buffer_num_batches_tracked_is_ignored(tmp_path):
    model = nn.Model()
    model.batch_norm(model.input("x", [None, 2]))
    values = np.arange(1, 3, dtype=np.float32)
    names = {"w_param": "weight", "b_param": "bias"}
    names |= {"mean": "running_mean", "variance": "running_var"}
    arrays = {f"1.{name}": values for name in names.values()}
    arrays |= {"1.num_batches_tracked": np.array(7)}
    path = tmp_path / "norm.safetensors"
    save_file(arrays, path)
    model.load_weights(path, {f"batch_norm_0_{own}": f"1.{name}" for own, name in names.items()})
    np.testing.assert_array_equal(model.scope.var("batch_norm_0_variance").numpy(), values)
