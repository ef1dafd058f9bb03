"""`opwright check` tests ONNX rows in both directions, also for third-party operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import opwright as ow
import opwright_onnx
from opwright.op import OpMaker, same_shape_as
from opwright.packages import Package
from opwright.packages.registrations import AnnexRegistration
from opwright.plugin import PluginRecord, Source
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.subjects import PackageSubject
from opwright_kit.testing.rules import annexes

ACME = Package("acme", "opwright-acme", "1.0")
SLOPED = (
    OpMaker("acme.sloped")
    .add_comment("x, and slope times x below 0.")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("slope", float, "below 0")
    .default(0.01)
    .build(infer_shape=same_shape_as("x"))
)


def sloped(x: Any, out: Any, *, slope: float) -> None:
    out[...] = np.where(x < 0, slope * x, x)


@pytest.fixture
def context() -> Iterator[ow.Context]:
    """Yield a context with a third-party operator."""
    with ow.context_guard(ow.Context.discover()) as made:
        made.ops.add("acme.sloped", SLOPED, ACME)
        made.kernels.add(
            "acme.sloped",
            device="cpu",
            dtypes=["float32"],
            kernel=sloped,
            library="acme",
            priority=1,
            package=ACME,
        )
        yield made


def find_faults(context: ow.Context, rows: dict[str, Any]) -> list[str]:
    """Return the findings of the rule for a package with these rows."""
    context.annexes.add("onnx", "rows.zz", rows, ACME)
    source = Source("acme", "opwright_acme.plugin", "opwright-acme", "1.0", "", 0)
    record = PluginRecord(source, annexes=(AnnexRegistration("onnx", "rows.zz", "a:b"),))
    subject = PackageSubject("opwright-acme", "1.0", (record,), ())
    return [finding.message for finding in annexes.check(subject, CheckContext(context))]


def test_one_row_translates_a_third_party_operator(context: ow.Context, tmp_path: Path) -> None:
    rows = {"acme::Sloped": (1, "acme.sloped", {"alpha": "slope"})}
    assert find_faults(context, rows) == []
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [None, 3], is_data=True)
    block.append_op("acme.sloped", {"x": "x"}, {"out": "y"}, {"slope": 0.5})
    report = opwright_onnx.save(tmp_path / "m.onnx", program, ow.Scope(), fetch=["y"])
    (node,) = onnx.load(tmp_path / "m.onnx").graph.node
    assert (node.domain, node.op_type, node.attribute[0].name) == ("acme", "Sloped", "alpha")
    assert not report.own_nodes
    x = np.array([[-2, 0, 4]], np.float32)
    np.testing.assert_array_equal(opwright_onnx.load(tmp_path / "m.onnx")(x)[0], [[-1, 0, 4]])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            {"HardSigmoid": (6, "acme.sloped", {"alpha": "slope"})},
            "reference evaluator must compute the same",
        ),
        ({"LeakyRelu": (6, "acme.sloped", {"slope": "slope"})}, "ONNX must have the attribute"),
        ({"acme::S": (1, "acme.sloped", {"alpha": "slop"})}, "acme.sloped must have the attribute"),
        ({"acme::S": (1, "acme.slopd", {})}, "its operator must exist"),
    ],
)
def test_a_wrong_row_is_reported(context: ow.Context, rows: dict[str, Any], fault: str) -> None:
    faults = find_faults(context, rows)
    assert any(fault in each for each in faults), faults


def test_a_correct_row_for_an_onnx_operator_passes(context: ow.Context) -> None:
    assert find_faults(context, {"LeakyRelu": (6, "acme.sloped", {"alpha": "slope"})}) == []
