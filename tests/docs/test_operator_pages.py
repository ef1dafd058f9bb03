"""Operator pages: formulas, plots of computed values, and measured times."""

from __future__ import annotations

import ast
import importlib
import math
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import opwright as ow

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"

NAMES = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "exp": np.exp,
    "ln": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "e": np.e,
    "sum": np.sum,
    "max": np.max,
}
CURVED = ["abs", "elu", "erf", "exp", "gelu", "log", "relu", "sigmoid", "silu", "sqrt", "tanh"]


def load(name: str) -> ModuleType:
    """Import a module from the sources of the site."""
    sys.path.insert(0, str(SITE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(SITE))


formulas, curves, timings = load("formulas"), load("curves"), load("timings")
markup, operators, subjects = load("markup"), load("operators"), load("subjects")


def read(comment: str) -> list[str]:
    """Return the formulas in an operator comment, as Python expressions."""
    proto = SimpleNamespace(comment=comment, outputs=[SimpleNamespace(name="out")])
    return [
        " ".join(filter(None, [ast.unparse(f.target), "=", ast.unparse(f.value), f.note]))
        for f in formulas.find_formulas(proto)
    ]


@pytest.mark.parametrize("op_type", [*CURVED, "negative", "reciprocal", "softplus", "square"])
def test_a_formula_matches_its_operator(op_type: str) -> None:
    proto = ow.op_proto(op_type)
    found = formulas.find_formulas(proto)
    if op_type == "erf":
        assert not found  # its integral is only in the text
        return
    (formula,) = found
    x = np.linspace(-2.0, 2.0, 33) if op_type not in {"log", "sqrt"} else np.linspace(0.1, 2, 33)
    x = x[x != 0]
    names = {**NAMES, **{attr.name: attr.default for attr in proto.attrs}, "x": x}
    value = eval(ast.unparse(formula.value), names)
    if formula.otherwise is not None:
        value = np.where(x > 0, value, eval(ast.unparse(formula.otherwise), names))
    np.testing.assert_allclose(getattr(ow.ops, op_type)(x), value, rtol=1e-12, atol=1e-12)


def test_the_formula_of_softmax_comes_with_its_definitions() -> None:
    value, largest = formulas.find_formulas(ow.op_proto("softmax"))
    x = np.linspace(-1.0, 1.0, 5)
    names = {**NAMES, "x": x}
    names["m"] = eval(ast.unparse(largest.value), names)
    got = eval(ast.unparse(value.value), names)
    np.testing.assert_allclose(ow.ops.softmax(x), got, rtol=1e-12)


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("Sum, out = x + y.", ["out = x + y"]),
        ("Sign, out = -1, 0 or 1; NaN stays NaN.", []),
        ("out = x where condition is true, else y.", []),
        ("out = true_outputs of true_block where condition holds.", []),
        ("out = 2 * integral of exp(-t**2) from 0 to x.", []),
        ("out[i] = the mean of x.", []),
        (
            "In training, out = mask * x, where so. Otherwise out = x.",
            ["out = mask * x in training", "out = x otherwise"],
        ),
        ("out = x @ w for rows, and z = 3 * x.", ["out = x @ w for rows"]),
    ],
)
def test_an_invalid_formula_is_not_shown(comment: str, expected: list[str]) -> None:
    assert read(comment) == expected


def test_formulas_are_mathml_without_external_resources() -> None:
    n_shown = 0
    for op_type in (name for name in ow.list_ops() if "." not in name):
        block = formulas.typeset(formulas.find_formulas(ow.op_proto(op_type)))
        if block:
            root = ElementTree.fromstring(block)
            assert {element.tag for element in root} == {"math"}
            assert "script" not in block
            n_shown += 1
    assert n_shown > 40


def test_parentheses_appear_if_the_meaning_requires_them() -> None:
    (formula,) = formulas.find_formulas(ow.op_proto("mse"))
    assert re.sub(r"<[^>]+>", "", formulas.typeset([formula])).strip() == "out=(x−label)2"
    (formula,) = formulas.find_formulas(ow.op_proto("sgd"))
    text = re.sub(r"<[^>]+>", "", formulas.typeset([formula])).strip()
    assert text == "param_out=param−learning_rate·(grad+weight_decay·param)"


@pytest.mark.parametrize("op_type", CURVED)
def test_element_wise_functions_have_a_plot_of_their_values(op_type: str) -> None:
    picture = curves.draw_operator(ow.op_proto(op_type), ow.current_context())
    svg = ElementTree.fromstring(picture).find("svg")
    assert svg is not None
    paths = {path.get("class"): path.get("d") or "" for path in svg.iter("path")}
    assert paths["value"].count("L") > 50
    assert paths["derivative"].count("L") > 50
    assert len(picture) < 10_000


@pytest.mark.parametrize("op_type", ["softmax", "sum", "reshape", "add", "dropout", "assign"])
def test_an_operator_that_is_not_element_wise_has_no_plot(op_type: str) -> None:
    assert curves.draw_operator(ow.op_proto(op_type), ow.current_context()) == ""


def test_plots_of_derivatives_have_gaps_at_kinks() -> None:
    function = curves.find_function(ow.op_proto("relu"), ow.current_context())
    x = np.linspace(-1.0, 1.0, 5)
    np.testing.assert_allclose(
        curves.estimate_derivatives(function, x), [0, 0, np.nan, 1, 1], atol=1e-6
    )
    function = curves.find_function(ow.op_proto("tanh"), ow.current_context())
    np.testing.assert_allclose(
        curves.estimate_derivatives(function, x), 1 - np.tanh(x) ** 2, rtol=1e-5
    )


def test_a_curve_is_interrupted_where_the_function_jumps() -> None:
    picture = curves.draw_operator(ow.op_proto("sign"), ow.current_context())
    (line,) = re.findall(r'class="value" d="([^"]+)"', picture)
    heights = [{point.split()[1] for point in part.split("L")} for part in line.split("M") if part]
    assert all(len(found) == 1 for found in heights)


def measured_times() -> dict[str, Any]:
    """Return times in the format that the benchmark writes."""
    row = {"size": 1000, "layout": "", "opwright_s": 1e-6, "torch_s": 2e-6}
    rows = [{**row, "gradient": False, "numpy_s": 4e-6}, {**row, "gradient": True}]
    slow = {**row, "layout": "rows", "gradient": False, "torch_s": 5e-7, "reason": "it is stable"}
    return {
        "machine": {"date": "2026-11-01", "processor": "A_Processor", "threads": 2},
        "torch": "2.13",
        "numpy": "2.4",
        "limit": 1.3,
        "summary": {"all": 0.79, "1000": 0.79},
        "operators": {
            "exp": {"kernel": "native of p", "times": rows},
            "sort": {"kernel": "native of p", "times": [slow]},
        },
    }


def test_times_are_shown_with_date_and_processor_and_only_if_measured() -> None:
    text = timings.describe_timings("exp", measured_times())
    assert "2026-11-01 on A\\_Processor" in text
    assert "| 1,000 | forward | 1 µs | 2 µs | 0.50 | 4 µs |" in text
    assert "| 1,000 | with gradient | 1 µs | 2 µs | 0.50 |  |" in text
    assert timings.describe_timings("conv2d", measured_times()) == ""


def test_the_timing_page_states_reasons_for_slow_operators() -> None:
    page = timings.make_page(measured_times())
    slow = page[page.index("## Above 1.3") : page.index("## All")]
    assert "it is stable" in slow
    assert "`exp`" not in slow
    assert page.count("<circle") == 3
    picture = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    assert "exp with gradient: 0.50" in "".join(ElementTree.fromstring(picture).itertext())


def test_every_standard_operator_has_exactly_one_subject_in_the_index() -> None:
    modules = [module for subject in subjects.SUBJECTS for module in subject.modules.split()]
    assert len(modules) == len(set(modules))
    own = {
        type for type in ow.list_ops() if ow.current_context().ops.package_of(type).plugin == "std"
    }
    assert set(subjects.find_subjects()) == own


def test_the_index_shows_subjects_with_a_sentence_and_packages_with_their_distribution() -> None:
    index = operators._make_index(["relu", "dist.barrier"], ow.current_context())
    sentence = "Functions that are applied between layers, element by element."
    assert f"## Activations\n\n{sentence}\n\n| operator |" in index
    assert "## `opwright.ops.dist`\n\nOperators of opwright-dist.\n\n| operator |" in index
    assert "## Losses" not in index


def test_the_page_of_an_operator_shows_a_call_that_runs() -> None:
    page = operators.make_page("adaptive_max_pool2d", ow.current_context(), measured_times())
    [call] = re.findall(r"## Example\n\n```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(call, names)
    shapes = f"x {list(names['x'].shape)} -> out {list(names['out'].shape)}"
    assert f"`{shapes}" in page


def test_empty_columns_are_omitted_from_tables() -> None:
    rows = [("x", "", "1"), ("y", "", "")]
    assert markup.table(("a", "b", "c"), rows) == "| a | c |\n|---|---|\n| x | 1 |\n| y |  |"
    assert markup.table(("a", "b"), []) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5e-7, "250 ns"), (1.234e-5, "12.3 µs"), (0.0123, "12.3 ms")]
)
def test_times_have_three_significant_digits_and_a_unit(seconds: float, text: str) -> None:
    assert timings.format_time(seconds) == text


def test_a_site_without_measurements_does_not_show_times(tmp_path: Path) -> None:
    missing = timings.load_timings(tmp_path / "operator_times.json")
    assert timings.describe_timings("exp", missing) == ""


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["sofmax", "--peers", sys.executable], "unknown ['sofmax']; there are: abs, acos"),
        (["exp", "--peers", "/nowhere"], "--peers must name an interpreter, got /nowhere"),
    ],
)
def test_the_script_refuses_unknown_arguments(words: list[str], error: str) -> None:
    script = ROOT / "benchmarks" / "operator_times.py"
    command = [sys.executable, str(script), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert error in done.stderr
