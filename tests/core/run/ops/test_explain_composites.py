"""``explain`` states how operators that do not need a kernel are run."""

from __future__ import annotations

import pytest

import opwright as ow


@pytest.mark.parametrize(("op_type", "text"), [("fc", "a composite"), ("cond", "control flow")])
def test_explain_states_how_operators_without_a_kernel_run(reference_kernels, op_type, text):
    explanation = ow.explain(op_type)
    assert explanation.chosen is None
    assert str(explanation).startswith(f"{op_type}[cpu, any dtype]: {text}")
    assert explanation.to_json()["otherwise"].startswith(text)
