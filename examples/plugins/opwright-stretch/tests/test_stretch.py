"""Compares the body with the formula, and runs opwright's conformance checks."""

import numpy as np

import opwright as ow
from opwright_kit.testing import check_package


def test_stretch_matches_its_formula():
    x = np.linspace(-6, 6, 25)
    expected = np.arcsinh(x / 0.5) / np.arcsinh(2)
    np.testing.assert_allclose(ow.ops.sky.stretch(x, softness=0.5), expected, rtol=1e-12)


def test_the_package_conforms():
    card = check_package("opwright-stretch")
    assert card.ok, card.format_findings(card.findings)
