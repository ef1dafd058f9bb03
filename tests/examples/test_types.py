"""Pyright and mypy --strict do not report errors in the examples."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SOURCES = [
    str(path)
    for pattern in ("core/src", "plugins/*/src", "examples/plugins/*/src")
    for path in sorted(ROOT.glob(pattern))
]

SCRIPT = """
import numpy as np

import opwright as ow
import opwright_nn as nn

model = nn.Model()
h = model.conv2d("img", 8, 3, paddings="same", param_attr=nn.initializer.Kaiming())
h = model.batch_norm(h, activation="relu", name="norm")
scores = model.fc_layer(model.flatten(h), size=10, bias_attr=nn.ParamAttr(trainable=False))
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
model.minimize(loss + 1e-4 * model.l2("*_w_param"), nn.optimizer.AdamW(nn.schedule.cosine(1e-3, 9)))
model.freeze("norm_*")
train, test = nn.datasets.digits.load()
x: np.ndarray = train.images.reshape(-1, 1, 8, 8)
history = nn.train(
    model,
    (x, train.labels),
    epochs=2,
    metrics={"f1": nn.metrics.F1(scores, "label")},
    callbacks=[nn.EarlyStopping(patience=2), nn.TensorBoard("logs", histograms="*_w_param")],
)
model.export("folder", [scores])
loaded = ow.load("folder", fetch="norm_out", trainable=False)
(features,) = loaded(img=x)
program: ow.Program = loaded.program
print(history["loss"][-1], features.shape, model.predict(scores, img=x).argmax(1))
print(ow.ops.softmax(np.zeros((2, 3), np.float32), axis=-1).sum())
"""
"""A script with the most common calls."""

pytestmark = pytest.mark.skipif(
    find_spec("basedpyright") is None or find_spec("starlette") is None,
    reason="basedpyright or starlette is not installed; make test-examples installs them",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a folder with a user script, and the stubs of the installed operators."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "script.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "opwright", "stubs", "--output", str(folder / "typings")]
    subprocess.run(words, check=True, capture_output=True)
    return folder


def check_with_pyright(project, paths, with_stubs):
    """Return the errors of Pyright, by file and line; scripts in one folder import each other."""
    roots = [str(EXAMPLES / "serving"), str(EXAMPLES / "models"), str(EXAMPLES), str(project)]
    settings = {
        "include": [str(path) for path in paths],
        "exclude": [str(EXAMPLES / "first_week/keras")],
        "typeCheckingMode": "standard",
        "executionEnvironments": [{"root": root, "extraPaths": SOURCES} for root in roots],
        "pythonVersion": "3.11",
        "stubPath": str(project / ("typings" if with_stubs else "none")),
    }
    file = project / "pyrightconfig.json"
    file.write_text(json.dumps(settings))
    words = [sys.executable, "-m", "basedpyright", "-p", str(file), "--pythonpath", sys.executable]
    done = subprocess.run([*words, "--outputjson"], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] >= len(paths), done.stdout
    return [
        f"{item['file']}:{item['range']['start']['line'] + 1}: {item['message']}"
        for item in report["generalDiagnostics"]
        if item["severity"] == "error"
    ]


FOLDERS = ["first_week", "models", "serving"]
SINGLE = sorted(EXAMPLES.glob("*.py"))


def test_pyright_finds_no_errors_without_stubs(project):
    assert check_with_pyright(project, [project / "script.py"], with_stubs=False) == []


def test_pyright_reports_only_mistakes(project):
    wrong = project / "wrong.py"
    wrong.write_text("import opwright as ow\now.ops.softmax([1.0], axes=1)\now.Programm()\n")
    paths = [project / "script.py", wrong, *SINGLE, *(EXAMPLES / name for name in FOLDERS)]
    errors = check_with_pyright(project, paths, with_stubs=True)
    in_wrong = [error for error in errors if str(wrong) in error]
    assert [error for error in errors if error not in in_wrong] == []
    assert len(in_wrong) == 2
    assert "axes" in in_wrong[0]
    assert "Programm" in in_wrong[1]


@pytest.mark.parametrize("path", ["script", "single", *FOLDERS])
def test_mypy_strict_finds_no_errors(project, path):
    files = {"script": [project / "script.py"], "single": SINGLE}.get(path)
    files = files or sorted((EXAMPLES / path).glob("*.py"))
    words = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports"]
    words += ["--config-file", "", "--cache-dir", str(project / "cache"), *map(str, files)]
    paths = {"MYPYPATH": ":".join([str(files[0].parent), *SOURCES]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=paths)
    own = [line for line in done.stdout.splitlines() if str(files[0].parent) in line]
    assert done.returncode == 0 or (done.returncode == 1 and not own), done.stdout + done.stderr
