"""The operator registry imports or derives operators on demand, and explains missing operators."""

from __future__ import annotations

import sys

import pytest

from opwright.errors import OperatorNotFoundError, PluginError, RegistrationError
from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright.packages import PluginReport
from opwright.registry import OpRegistry
from swish_operators import ACME, FAILED, OTHER, STD, SWISH, make_ops

HERE = "swish_operators"


def test_the_first_lookup_of_an_operator_imports_it():
    ops = OpRegistry()
    ops.add("acme.swish", f"{HERE}:SWISH", ACME)
    assert ops.find("acme.swish") is SWISH
    assert ops.get("acme.swish") is SWISH
    assert ops.package_of("acme.swish") == ACME


def test_adding_an_operator_does_not_import_modules():
    ops = OpRegistry()
    ops.add("acme.swish", "not_there.at_all:SWISH", ACME)
    assert ops.types() == ["acme.swish"]
    assert "not_there" not in sys.modules


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("not_there.at_all:X", "No module named 'not_there'; install 'not_there', which"),
        (f"{HERE}:GONE", f"AttributeError: module '{HERE}' has no attribute 'GONE'; pip install"),
    ],
)
def test_the_error_for_a_failed_import_names_the_package_and_the_fix(target, reason):
    ops = OpRegistry()
    ops.add("acme.swish", target, ACME)
    with pytest.raises(PluginError, match="opwright-acme 1.0 failed to load, got") as caught:
        ops.find("acme.swish")
    assert reason in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_target_that_is_not_a_definition_is_refused():
    ops = OpRegistry()
    ops.add("acme.swish", f"{HERE}:NUMBER", ACME)
    with pytest.raises(RegistrationError, match="must be a result of OpMaker.build, got 3 from"):
        ops.find("acme.swish")


def test_a_definition_whose_type_differs_from_the_registered_type_is_refused():
    ops = OpRegistry()
    ops.add("acme.swoosh", f"{HERE}:SWISH", ACME)
    with pytest.raises(RegistrationError, match="acme.swoosh: .* got one of 'acme.swish' from"):
        ops.find("acme.swoosh")


def test_the_gradient_operator_is_derived_from_the_forward_operator():
    ops = make_ops()
    derived = ops.get("acme.swish_grad")
    assert derived is ops.find("acme.swish_grad")
    assert list(derived.proto.input_slots) == ["x", "out_grad"]
    assert list(derived.proto.output_slots) == ["x_grad"]
    assert ops.package_of("acme.swish_grad") == ACME
    assert ops.types(all=True) == ["acme.swish"]


def test_a_registered_gradient_operator_is_not_derived():
    ops = make_ops()
    maker = OpMaker("acme.swish_grad").add_comment("Own.").add_input("x", "x")
    own = maker.add_output("out", "out").build(same_shape_as("x"), no_gradient("test"))
    ops.add("acme.swish_grad", own, ACME)
    assert ops.get("acme.swish_grad") is own


@pytest.mark.parametrize("type", ["acme.gone_grad", "_grad", "acme.swish_grad_grad"])
def test_a_gradient_operator_is_not_derived_without_a_rule(type):
    assert make_ops().find(type) is None


def test_the_error_for_an_unknown_type_suggests_the_nearest():
    expected = r"acme.swich: no operator of this type is registered; did you mean 'acme.swish'\?"
    with pytest.raises(OperatorNotFoundError, match=expected):
        make_ops().get("acme.swich")
    assert make_ops().find("acme.swich") is None


def test_the_error_for_a_type_without_similar_names_does_not_list_all_types():
    ops = OpRegistry()
    for i in range(100):
        ops.add(f"acme.op{i}", "m:A", ACME)
    with pytest.raises(OperatorNotFoundError) as caught:
        ops.get("qqqqq")
    assert "; see: opwright ops" in str(caught.value)
    assert "acme.op" not in str(caught.value)


def test_the_error_for_a_missing_operator_lists_load_failures_and_packages():
    report = PluginReport((ACME,), (FAILED,), (OTHER,))
    with pytest.raises(OperatorNotFoundError, match="relu") as caught:
        make_ops(report).get("relu")
    assert str(caught.value).splitlines()[1:] == [
        "  plugin 'cuda' failed to load: ModuleNotFoundError: No module named 'cupy'",
        "  installed, but not named in OPWRIGHT_PLUGINS: 'other'",
        "  to get it: pip install opwright-std",
    ]


def test_opwright_std_is_not_suggested_if_it_is_loaded():
    ops = make_ops(PluginReport(loaded=(STD,)))
    with pytest.raises(OperatorNotFoundError, match="relu") as caught:
        ops.get("relu")
    assert "to get it" not in str(caught.value)


def test_the_error_for_a_type_with_an_unknown_prefix_names_the_package():
    with pytest.raises(OperatorNotFoundError, match="package that provides the plugin 'zeta'"):
        make_ops().get("zeta.op")


@pytest.mark.parametrize(
    ("type", "package", "words"),
    [
        ("relu", ACME, "unprefixed operator types belong to opwright-std"),
        ("other.relu", ACME, "must begin with the plugin name 'acme', got 'other'"),
        ("acme.Relu", ACME, "lower_snake"),
        ("acme.a.b", ACME, "lower_snake"),
        ("acme.lambda", ACME, "Python keyword"),
        ("", STD, "lower_snake"),
    ],
)
def test_a_type_that_the_package_may_not_provide_is_refused(type, package, words):
    ops = OpRegistry()
    before = ops.epoch.now
    with pytest.raises(RegistrationError, match=words):
        ops.add(type, "m:A", package)
    assert ops.types(all=True) == []
    assert ops.epoch.now == before


def test_a_duplicate_operator_is_refused():
    with pytest.raises(
        RegistrationError,
        match="registered twice, by opwright-acme 1.0 and opwright-acme 1.0",
    ):
        make_ops().add("acme.swish", "m:A", ACME)


@pytest.mark.parametrize("target", ["m", "m.A", ":A", "m:", "m:A:B", "m:A()", "a b:c", ""])
def test_a_target_must_name_a_module_and_an_attribute(target):
    with pytest.raises(RegistrationError, match="target must be a string 'module:attribute'"):
        OpRegistry().add("acme.x", target, ACME)


def test_hidden_operators_are_listed_only_on_request():
    ops = make_ops()
    ops.add("acme.helper", "m:A", ACME, hidden=True)
    assert ops.types() == ["acme.swish"]
    assert ops.types(all=True) == ["acme.helper", "acme.swish"]
    assert ops.is_hidden("acme.helper")
    assert not ops.is_hidden("acme.swish")


def test_every_addition_advances_the_epoch():
    ops = OpRegistry()
    before = ops.epoch.now
    ops.add("acme.a", "m:A", ACME)
    ops.add("acme.b", "m:A", ACME)
    assert ops.epoch.now == before + 2
