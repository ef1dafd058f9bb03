"""A model becomes a program with equal predictions; its parameters can be loaded back."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparing import NEAR, distance
from torch import Tensor, nn
from torch.export import Dim

import opwright as ow
import opwright_nn
import opwright_torch
from c_programs import compile_runner, run_bundle
from every_case import EVERY
from opwright.errors import OperatorNotFoundError, OpwrightError, SettingError, ShapeError


class Tied(nn.Module):
    """A model with parameters and buffers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.unread = nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.full((6,), 2.0), persistent=False)
        self.shift = torch.arange(6.0)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(torch.relu(self.first(x)))
        out: Tensor = self.norm(self.second(hidden)) * self.scale + self.shift
        return out


class Images(nn.Module):
    """A small U-Net, which downsamples, upsamples and concatenates features."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        half = torch.relu(self.down(image))
        quarter = torch.nn.functional.max_pool2d(torch.relu(self.deep(half)), 2)
        again = torch.nn.functional.interpolate(quarter, size=half.shape[2:], mode="nearest")
        wide = self.up(again + half)
        skip = torch.nn.functional.interpolate(half, size=wide.shape[2:], mode="bilinear")
        return OrderedDict(mask=self.out(torch.cat([wide, skip], 1)), features=quarter)


class Windows(nn.Module):
    """A model that computes positions, paddings and factors from lengths."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        padded = torch.nn.functional.pad(x, (0, 0, 0, -length % 4))
        windows = padded.view(batch * (padded.shape[1] // 4), 4, width)
        positions = torch.arange(length) + (batch - 1)
        mask = torch.ones(length, length).tril() / length
        return windows.mean(1), (mask @ x) * positions[:, None]


def build(kind: type[nn.Module], training: bool = False) -> nn.Module:
    torch.manual_seed(1)
    return kind().train(training)


def test_calls_match_the_model() -> None:
    model = build(Tied)
    program = opwright_torch.to_program(model, (torch.randn(4, 6),))
    assert [feed.name for feed in program.feeds] == ["x"]
    assert [fetch.name for fetch in program.fetches] == ["output"]
    assert distance(model, program, torch.randn(4, 6)) < NEAR


def test_a_saved_program_runs_without_importing_pytorch(tmp_path: Path) -> None:
    model = build(Images)
    program = opwright_torch.to_program(model, (torch.randn(2, 3, 16, 16),), dynamic=True)
    program.save(tmp_path / "model")
    image = torch.randn(3, 3, 20, 24)
    np.save(tmp_path / "image.npy", image.numpy())
    script = (
        "import sys, numpy as np, opwright as ow\n"
        "class Refused:\n"
        "    def find_spec(self, name, *_):\n"
        "        assert name.split('.')[0] not in ('torch', 'opwright_torch.programs'), name\n"
        "sys.meta_path.insert(0, Refused())\n"
        "loaded = ow.load('model')\n"
        "np.save('mask.npy', loaded(np.load('image.npy'))['mask'])\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    with torch.no_grad():
        wanted = model(image)["mask"].numpy()
    np.testing.assert_allclose(np.load(tmp_path / "mask.npy"), wanted, rtol=1e-4, atol=1e-5)


class Patches(nn.Module):
    """A vision transformer with one layer, for images of 16 x 16 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.score = nn.Conv2d(3, 32, 4, 4), nn.Linear(32, 5)
        self.place = nn.Parameter(torch.randn(1, 16, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        patches = self.embed(image).flatten(2).transpose(1, 2) + self.place
        return self.score(self.layer(patches)[:, 0])


@pytest.mark.parametrize("kind", [Images, Patches])
def test_a_bundle_of_a_model_gives_bitwise_identical_results_in_c(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    program = opwright_torch.to_program(
        build(kind), (torch.randn(2, 3, 16, 16),), {"image": {0: "batch"}}
    )
    program.bundle(tmp_path / "model.owb", batch=(1, 4))
    runner = compile_runner(tmp_path)
    for n, n_sessions in ((1, 1), (3, 4)):
        images = torch.randn(n, 3, 16, 16).numpy()
        got = run_bundle(runner, tmp_path / "model.owb", n, [images], n_sessions)
        expected = np.concatenate([result.reshape(-1) for result in program(images)])
        np.testing.assert_array_equal(got, expected)


@pytest.mark.skipif(not EVERY, reason="compiles kernels: OPWRIGHT_EVERY_CASE=1")
def test_a_saved_program_runs_on_cuda(tmp_path: Path) -> None:
    pytest.importorskip("opwright_cuda_emulator")
    model = build(Tied)
    program = opwright_torch.to_program(model, (torch.randn(4, 6),), {"x": {0: "batch"}})
    program.save(tmp_path / "model")
    x = torch.randn(3, 6)
    np.save(tmp_path / "x.npy", x.numpy())
    script = (
        "import numpy as np, opwright as ow, opwright_cuda_emulator\n"
        "driver = opwright_cuda_emulator.start()\n"
        "loaded = ow.load('model', device='cuda')\n"
        "np.save('out.npy', np.asarray(loaded(np.load('x.npy'))[0]))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    wanted = model(x).detach().numpy()
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 3, 12, 20), (5, 3, 8, 40)])
def test_one_program_supports_different_batch_and_image_sizes(shape: tuple[int, ...]) -> None:
    model = build(Images)
    program = opwright_torch.to_program(model, (torch.randn(2, 3, 32, 32),), dynamic=True)
    assert program.feeds[0].shape == (None, 3, None, None)
    assert distance(model, program, torch.randn(shape)) < NEAR


@pytest.mark.parametrize("shape", [(3, 10, 5), (2, 4, 5), (4, 7, 5)])
def test_numbers_derived_from_lengths_are_computed(shape: tuple[int, ...]) -> None:
    model = build(Windows)
    dynamic = {"x": {0: "batch", 1: Dim("length", min=2, max=64)}}
    program = opwright_torch.to_program(model, (torch.randn(3, 10, 5),), dynamic)
    assert [fetch.name for fetch in program.fetches] == ["output.0", "output.1"]
    assert distance(model, program, torch.randn(shape)) < NEAR


def test_results_have_the_keys_of_a_dict() -> None:
    program = opwright_torch.to_program(build(Images), (torch.randn(1, 3, 16, 16),))
    results = program(image=np.zeros((1, 3, 16, 16), np.float32))
    assert results.names == ("mask", "features")
    assert results["features"].shape == (1, 4, 4, 4)


class Nested(nn.Module):
    def forward(self, x: Tensor, more: Any, times: int = 1, mask: Any = None) -> Tensor:
        out = (x + more["a"][1]) * times
        return out if mask is None else out * mask


def test_feeds_are_named_by_arguments_and_the_paths_in_them() -> None:
    more = {"a": [torch.ones(1), torch.ones(2)]}
    given = {"x": torch.zeros(2), "more": more, "times": 3, "mask": torch.ones(2)}
    program = opwright_torch.to_program(Nested(), given)
    assert [feed.name for feed in program.feeds] == ["x", "more.a.1", "mask"]
    found = program(
        {"x": np.ones(2, np.float32), "more.a.1": np.ones(2, np.float32)}
        | {"mask": np.ones(2, np.float32)}
    )
    np.testing.assert_array_equal(found[0], [6, 6])


def test_parameters_keep_their_names_and_can_be_loaded_into_the_model() -> None:
    model = build(Tied)
    program = opwright_torch.to_program(model, (torch.randn(4, 6),))
    assert {"first.weight", "norm.running_mean"} <= program.parameters().keys()
    back = build(Tied)
    nn.init.zeros_(back.first.weight)
    back.load_state_dict(opwright_torch.to_state_dict(program))
    for name, value in model.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name


def test_tied_parameters_stay_tied() -> None:
    program = opwright_torch.to_program(build(Tied, training=True), (torch.randn(4, 6),))
    names = [parameter.name for parameter in program.program.parameters()]
    assert "first.weight" in names
    assert "second.weight" not in names


def test_the_program_has_a_copy_of_the_parameters() -> None:
    model = build(Tied)
    program = opwright_torch.to_program(model, (torch.randn(4, 6),))
    nn.init.zeros_(model.first.bias)
    assert program.parameters()["first.bias"].any()


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Tied()

    def forward(self, x: Tensor, label: Tensor) -> dict[str, Tensor]:
        out = self.model(x)
        return {"loss": nn.functional.mse_loss(out, label), "out": out}


def test_a_model_in_training_mode_is_trained_in_opwright_and_then_in_pytorch(
    tmp_path: Path,
) -> None:
    model = build(WithLoss, training=True)
    example = (torch.randn(4, 6), torch.randn(4, 6))
    dynamic = {"x": {0: "batch"}, "label": {0: "batch"}}
    program = opwright_torch.to_program(model, example, dynamic)
    program.save(tmp_path / "model")
    loaded = ow.load(tmp_path / "model")
    data = {"x": torch.randn(64, 6).numpy(), "label": torch.randn(64, 6).numpy()}
    before = loaded.parameters()
    opwright_nn.train(
        loaded,
        data,
        epochs=3,
        batch_size=16,
        loss="loss",
        optimizer=opwright_nn.optimizer.SGD(0.01),
        progress=False,
    )
    model.load_state_dict(opwright_torch.to_state_dict(loaded))
    assert (before["model.first.weight"] != loaded.parameters()["model.first.weight"]).any()
    assert (before["model.norm.running_var"] != loaded.parameters()["model.norm.running_var"]).any()
    assert model.model.norm.num_batches_tracked == 12
    assert distance(model.eval(), loaded, torch.randn(9, 6), torch.randn(9, 6)) < NEAR


def test_parameters_without_requires_grad_are_not_trained() -> None:
    model = build(Tied, training=True)
    model.first.requires_grad_(False)
    program = opwright_torch.to_program(model, (torch.randn(4, 6),))
    assert "first.bias" not in [parameter.name for parameter in program.program.parameters()]


def test_a_model_in_evaluation_mode_is_trained_on_request() -> None:
    model = build(Tied)
    assert not list(opwright_torch.to_program(model, (torch.randn(4, 6),)).program.parameters())
    program = opwright_torch.to_program(model, (torch.randn(4, 6),), trainable=True)
    assert "norm.weight" in [parameter.name for parameter in program.program.parameters()]


class Foreign(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        waves = torch.fft.rfft(x)
        roots = torch.linalg.eigvalsh(x @ x.T)
        return waves.abs().sum() + roots.sum()


def test_the_error_lists_all_operators_without_a_counterpart_with_their_lines() -> None:
    with pytest.raises(OperatorNotFoundError, match="to_program: every operator must") as caught:
        opwright_torch.to_program(Foreign(), (torch.randn(4, 4),))
    for part in ("fft_rfft", "linalg_eigvalsh", "waves = torch.fft.rfft(x)", "roots = torch.lin"):
        assert part in str(caught.value)


class Deciding(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] >= 3 else x


def test_a_branch_on_a_size_is_checked_for_each_shape() -> None:
    program = opwright_torch.to_program(Deciding(), (torch.randn(4, 2),), {"x": {0: "batch"}})
    np.testing.assert_array_equal(program(np.ones((3, 2), np.float32))[0], np.full((3, 2), 2))
    with pytest.raises(ShapeError, match="reshape: shape must have as many elements") as caught:
        program(np.ones((2, 2), np.float32))
    assert "x with x.shape[0] >= 3" in "".join(caught.value.__notes__)


def test_bounds_of_a_dimension_are_checked() -> None:
    dynamic = {"x": {1: Dim("width", max=8)}}
    program = opwright_torch.to_program(Nested(), _nested(), dynamic)
    program({"x": np.ones((1, 8), np.float32), "more.a.1": np.ones(1, np.float32)})
    with pytest.raises(ShapeError, match="reshape: shape must have as many elements"):
        program({"x": np.ones((1, 9), np.float32), "more.a.1": np.ones(1, np.float32)})


def _nested() -> dict[str, Any]:
    return {"x": torch.zeros(1, 3), "more": {"a": [torch.ones(1), torch.ones(1)]}}


def test_a_dimension_that_the_model_fixes_is_refused() -> None:
    with pytest.raises(SettingError, match="to_program: dimension 1 of x must be 6 for this model"):
        opwright_torch.to_program(build(Tied), (torch.randn(4, 6),), {"x": {1: "width"}})


def test_the_error_for_a_fixed_dimension_names_the_line_that_fixes_it() -> None:
    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.new_zeros(len(x)) + x.sum(1)

    message = r"dimension 0 of x must be 4 for this model.*\n.*in forward\n.*zeros\(len\(x\)\)"
    with pytest.raises(SettingError, match=message):
        opwright_torch.to_program(Counts(), (torch.ones(4, 6),), {"x": {0: "batch"}})


FLOATS_OF_SIZES = {
    "written by PyTorch": lambda x: torch.nn.functional.layer_norm(x, (2,), eps=x.shape[0] * 1e-3),
    "left in the graph": lambda x: torch.nn.functional.leaky_relu(x, x.shape[0] / 8),
    "a size again": lambda x: x[: int(x.shape[0] * 0.5)],
}


@pytest.mark.parametrize("use", FLOATS_OF_SIZES.values(), ids=FLOATS_OF_SIZES)
def test_a_float_computed_from_a_dynamic_size_is_refused_with_its_line(use: Any) -> None:
    class Uses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return use(x)

    text = r"from dimension 0 of x must be integers(.|\n)*test_programs.py\", line \d+, in"
    with pytest.raises(SettingError, match=text):
        opwright_torch.to_program(Uses(), (torch.randn(5, 2),), {"x": {0: "batch"}})


def test_dynamic_must_name_inputs() -> None:
    with pytest.raises(SettingError, match="to_program: dynamic must name inputs.*got 'y'"):
        opwright_torch.to_program(build(Tied), (torch.randn(4, 6),), {"y": {0: "batch"}})


def test_dynamic_sizes_with_inputs_passed_as_kwargs_are_refused() -> None:
    class Takes(nn.Module):
        def forward(self, x: Tensor, **others: Tensor) -> Tensor:
            return x + others["y"]

    given = {"x": torch.ones(2, 3), "y": torch.ones(3)}
    with pytest.raises(SettingError, match=r"got 'y', which is passed through \*\*.* x, others"):
        opwright_torch.to_program(Takes(), given, {"x": {0: "batch"}})


def test_example_inputs_must_be_a_tuple_or_a_dict() -> None:
    with pytest.raises(SettingError, match="to_program: example_inputs must be a tuple"):
        opwright_torch.to_program(build(Tied), torch.randn(4, 6))


def test_a_model_must_return_tensors() -> None:
    class Number(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, int]:
            return x + 1, 5

    with pytest.raises(SettingError, match="to_program: the model must return tensors, got out"):
        opwright_torch.to_program(Number(), (torch.randn(4),))


def test_to_state_dict_refuses_programs_that_are_not_from_models() -> None:
    with pytest.raises(SettingError, match="to_state_dict: loaded must be a program from"):
        opwright_torch.to_state_dict(ow.LoadedProgram(ow.Program(), None, []))


def test_a_model_must_be_a_module() -> None:
    with pytest.raises(SettingError, match=r"to_program: model must be a torch\.nn\.Module"):
        opwright_torch.to_program(lambda x: x, (torch.randn(4),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"dynamc": True}, "to_program: unknown argument, got 'dynamc'; did you mean 'dynamic'"),
        ({"dynamic": "batch"}, r"dynamic must be True, or a dict.*write dynamic=\{'input': "),
        ({"dynamic": {"input": {7: "n"}}}, r"dynamic must name axes in \[-2, 2\) of input, got 7"),
        ({"trainable": "yes"}, "trainable must be True, False or None, got 'yes'"),
    ],
)
def test_the_error_names_a_wrong_argument(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OpwrightError, match=text):
        opwright_torch.to_program(nn.Linear(4, 3), (torch.zeros(2, 4),), **given)
