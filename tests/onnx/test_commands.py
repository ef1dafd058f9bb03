"""``opwright onnx``, and the commands `run`, `graph` and `lock` on ONNX files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import make_model, make_perceptron, node, run_perceptron, tensor

import opwright as ow
import opwright_onnx
from opwright.cli import main

MAIN = "import sys; from opwright.cli import main; sys.exit(main())"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a process."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words], capture_output=True, text=True, check=False
    )


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Write a perceptron to model.onnx in the working directory; return its weights."""
    monkeypatch.chdir(tmp_path)
    model, found = make_perceptron()
    onnx.save(model, "model.onnx")
    return found


def test_a_report_names_rows_kernels_operations_and_memory(weights: dict[str, Any]) -> None:
    done = command("onnx", "report", "model.onnx", "--feed", "input.1=5x4", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    rows = {row["operator"]: (row["nodes"], row["by"][:13]) for row in report["operators"]}
    assert rows == dict.fromkeys(("Gemm", "MatMul", "Relu"), (1, "opwright-onnx"))
    assert report["flops"] == 2 * 5 * (4 * 8 + 8 * 3)
    assert report["parameter_bytes"] == sum(array.nbytes for array in weights.values())
    assert report["memory_bytes"] > 0
    assert {kernel["operator"] for kernel in report["kernels"]} <= {"fc", "matmul", "gemm"}
    text = command("onnx", "report", "model.onnx").stdout
    assert "feeds       input.1 float32[batch, 4]" in text
    assert "results     scores float32[batch, 3]" in text
    assert "FLOPs       112\n" in text


def test_a_report_names_the_packages_of_missing_operators(
    weights: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Frob", ["x"], ["y"], domain="acme"),
        node("ImageDecoder", ["y"], ["z"]),
        node("glow", ["z"], ["w"], domain="opwright.acme"),
    ]
    domains = {"acme": 1, "opwright.acme": 1}
    onnx.save(make_model(nodes, [tensor("x", [1])], [tensor("w", None)], domains=domains), "b.onnx")
    assert main(["onnx", "report", "b.onnx"]) == 1
    text = capsys.readouterr().out
    assert "MISSING: no installed package has a row for it" in text
    assert "MISSING: opwright has no counterpart" in text
    assert "install the package that provides the plugin 'acme'" in text
    assert "it does not load: node 'y' (acme::Frob)" in text


def test_a_model_is_converted_to_a_saved_program_and_back(weights: dict[str, Any]) -> None:
    done = command("onnx", "convert", "model.onnx", "folder")
    assert (done.returncode, done.stdout) == (0, "wrote folder: 4 operators, 3 parameters\n")
    again = command("onnx", "convert", "folder", "again.onnx", "--opset", "22")
    assert again.stdout == "wrote again.onnx: 4 operators, 3 parameters\n"
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    for program in (ow.load("folder"), opwright_onnx.load("again.onnx")):
        np.testing.assert_allclose(program(x)[0], run_perceptron(weights, x), rtol=1e-5)


def test_the_folder_of_a_written_model_must_exist(weights: dict[str, Any]) -> None:
    command("onnx", "convert", "model.onnx", "folder")
    done = command("onnx", "convert", "folder", "gone/model.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith("opwright: onnx: save: ")
    assert "None" not in done.stderr


def test_a_model_is_run_on_arrays_from_files(weights: dict[str, Any]) -> None:
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    np.save("x.npy", x)
    done = command("run", "model.onnx", "--input", "input.1=x.npy", "--output", "out.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("  scores  float32[5, 3]  from ")
    assert done.stdout.endswith("wrote out.npz\n")
    with np.load("out.npz") as results:
        np.testing.assert_allclose(results["scores"], run_perceptron(weights, x), rtol=1e-5)


def test_an_input_that_determines_shapes_is_not_a_feed_of_the_program(
    weights: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["total"], keepdims=0)]
    inputs = [tensor("x", [2, 3]), tensor("axes", [1], onnx.TensorProto.INT64)]
    onnx.save(make_model(nodes, inputs, [tensor("total", None)]), "sum.onnx")
    np.savez("in.npz", x=np.ones((2, 3), np.float32), axes=np.array([1]))
    assert main(["run", "sum.onnx", "--input", "in.npz", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["total"]["values"] == [3.0, 3.0]
    assert main(["onnx", "report", "sum.onnx"]) == 1
    assert "opwright run MODEL --input NAME=FILE.npy gives it" in capsys.readouterr().out


def test_a_model_is_drawn_and_locked(
    weights: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "model.onnx"]) == 0
    assert "4 operators in 1 block" in capsys.readouterr().out
    assert "scores" in Path("model.onnx.html").read_text(encoding="utf-8")
    assert main(["lock", "model.onnx", "--feed", "input.1=2x4"]) == 0
    assert ow.Lock.load("model.onnx.lock").kernels


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["onnx", "convert", "model.onnx"], "convert needs an output path, got none"),
        (["onnx", "convert", "model.onnx", "model.onnx"], "must not exist, got 'model.onnx'"),
        (["onnx", "convert", "model.onnx", "new", "--opset", "21"], "--opset applies only to"),
        (["onnx", "report", "absent.onnx"], "report needs a model file, got 'absent.onnx'"),
        (["onnx", "report", "model.onnx", "--feed", "y=1"], "--feed must name an input"),
        (["onnx", "report", "model.onnx", "--feed", "y"], "--feed must be NAME=SHAPE, got 'y'"),
        (["run", "model.onnx"], "'input.1' must have a shape, got float32[?, 4]"),
        (["run", "model.onnx", "--input", "x.txt"], "--input must be NAME=FILE.npy, or FILE.npz"),
        (["run", "model.onnx", "--input", "x=x.npy"], "--input must contain NumPy arrays, got"),
    ],
)
def test_wrong_usage_exits_with_status_2_and_a_message(
    weights: dict[str, Any], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_a_model_exits_with_status_1(
    weights: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.onnx").write_bytes(b"\xff" * 9)
    for words in (["onnx", "report"], ["run"], ["graph"]):
        assert main([*words, "bad.onnx"]) == 1
        assert "must be an ONNX model" in capsys.readouterr().err
