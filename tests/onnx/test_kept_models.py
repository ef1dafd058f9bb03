"""A later process finds stored models by their content, without protobuf."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SCRIPT = """
import sys
import numpy as np
import opwright_onnx
(result,) = opwright_onnx.load(sys.argv[1])(np.linspace(-1, 1, 64, dtype="float32").reshape(1, 64))
heavy = {"onnx", "google.protobuf", "opwright_onnx.loading", "opwright.lowering"}
print(result.tobytes().hex(), len(heavy & {*sys.modules}), "google.protobuf" in sys.modules)
"""

UNNEEDED = {
    "opwright.lowering.building.continuing",
    "opwright.lowering.cut",
    "opwright.program.deserialize",
    "opwright.program.indexing",
    "opwright.program.text",
    "opwright.run.bundles.opening",
    "opwright.run.loading",
    "opwright_onnx.translate.own",
}

CHANGED = """
import sys
import numpy as np
import opwright_onnx
model = opwright_onnx.load(sys.argv[1])
model.scope.var("w").set(np.zeros((64, 32), "float32"))
print(model(np.ones((1, 64), "float32"))[0].any())
"""


def save(path: Path, scale: float, external: bool = False) -> Path:
    """Save a matrix product."""
    weight = numpy_helper.from_array(np.full((64, 32), scale, np.float32), "w")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d]) for n, d in IO]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    where = {"location": "weights.bin", "size_threshold": 0} if external else {}
    onnx.save(model, path, save_as_external_data=external, **where)
    return path


IO = (("x", 64), ("y", 32))


@pytest.mark.parametrize("external", [False, True])
def test_a_second_process_uses_protobuf_only_for_a_model_with_external_data(
    external: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    model = save(tmp_path / "model.onnx", 1.5, external)
    command = [sys.executable, "-c", SCRIPT, str(model)]
    texts = []
    for scale in (1.5, 1.5, 2.5):
        save(model, scale, external)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        texts.append(done.stdout.split())
    first, second, third = texts
    assert first[0] == second[0] != third[0]
    assert (first[1] != "0", second[1] == "0", third[1] != "0") == (True, not external, True)
    assert {first[2], second[2], third[2]} == {"False"}


def test_the_first_process_does_not_import_modules_that_only_other_models_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPWRIGHT_KEEP_PLANS", "0")
    script = f"{SCRIPT}print(sorted({UNNEEDED} & {{*sys.modules}}))"
    command = [sys.executable, "-c", script, str(save(tmp_path / "model.onnx", 1.5))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_a_model_that_was_changed_before_its_first_call_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    model = str(save(tmp_path / "model.onnx", 1.5))
    texts = []
    for script in (CHANGED, SCRIPT):
        command = [sys.executable, "-c", script, model]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        texts.append(done.stdout.split())
    assert texts[0] == ["False"]
    assert texts[1][1] != "0"
    assert any(bytes.fromhex(texts[1][0]))
