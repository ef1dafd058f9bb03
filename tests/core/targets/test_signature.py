"""The signature of a Python kernel must match the slots and attributes of its operator."""

from __future__ import annotations

import functools

import pytest

from opwright.errors import RegistrationError
from opwright.kernel import PythonLayout, check_signature
from opwright.op import OpMaker, no_gradient, same_shape_as


def make_definition():
    maker = OpMaker("acme.blend").add_comment("Blends.")
    maker.add_input("x", "first").add_input("y", "second").as_optional()
    maker.add_input("like", "its shape").as_shape_only()
    maker.add_output("out", "out").same_dtype_as("x")
    maker.add_attr("alpha", float, "weight").default(1.0)
    maker.add_attr("axis", int, "axis")
    return maker.build(same_shape_as("x"), no_gradient("a test"))


DEFINITION = make_definition()


def layout(function, **options):
    return check_signature(function, DEFINITION, **options)


def test_slots_are_passed_by_position_in_the_order_of_the_kernel_parameters():
    assert layout(lambda out, y, x, *, alpha, axis: None) == PythonLayout(
        (3, 1, 0), (), ("alpha", "axis"), ("alpha", "axis")
    )


def test_keyword_slots_are_passed_by_keyword():
    assert layout(lambda x, *, out, y, alpha, axis: None) == PythonLayout(
        (0,), (("out", 3), ("y", 1)), ("alpha", "axis"), ("alpha", "axis")
    )


def test_attributes_are_passed_by_keyword_at_any_position():
    found = layout(lambda x, alpha, y, axis, out: None)
    assert found == PythonLayout((0,), (("y", 1), ("out", 3)), ("alpha", "axis"), ("alpha", "axis"))


def test_a_double_star_parameter_receives_all_attributes():
    found = layout(lambda x, y, out, **attrs: None)
    assert found == PythonLayout((0, 1, 3), (), ("alpha", "axis"))
    assert layout(lambda x, y, out, *, axis, **attrs: None).attributes == ("axis", "alpha")


def test_a_star_parameter_receives_all_slots_in_order():
    assert layout(lambda *slots, **attrs: None).positional == (0, 1, 2, 3)
    assert layout(lambda y, *slots, **attrs: None).positional == (1, 0, 2, 3)


def test_a_parameter_for_a_shape_only_slot_is_accepted():
    assert layout(lambda x, y, like, out, **attrs: None).positional == (0, 1, 2, 3)


def test_positional_only_slots_are_accepted():
    assert layout(lambda x, y, out, /, **attrs: None).positional == (0, 1, 3)


def test_an_additional_parameter_with_an_underscore_and_a_default_is_accepted():
    assert layout(lambda x, y, out, _cache=(), **attrs: None).positional == (0, 1, 3)


def test_the_result_of_prepare_accepts_only_slots():
    assert layout(lambda x, y, out: None, with_attributes=False).attributes == ()
    with pytest.raises(RegistrationError, match="got 'alpha' in"):
        layout(lambda x, y, out, alpha: None, with_attributes=False)


def test_methods_partials_and_callable_objects_are_accepted():
    class Kernel:
        def __call__(self, x, y, out, **attrs):
            raise NotImplementedError

    assert layout(Kernel()).positional == (0, 1, 3)
    assert layout(Kernel().__call__).positional == (0, 1, 3)
    partial = functools.partial(lambda table, x, y, out, **attrs: None, {})
    assert layout(partial).positional == (0, 1, 3)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, out, *, alpha, axis: None, r"without 'y'; .* \(absent is None\)"),
        (
            lambda x, y, *, alpha, axis: None,
            "every slot, .* without 'out'; add the parameter 'out'",
        ),
        (lambda x, y, out, *, alpha: None, "every attribute, .* without 'axis'; add the keyword"),
        (lambda x, y, out, *, alfa, axis: None, r"got 'alfa' in .*; did you mean 'alpha'\?"),
        (lambda x, y, out, extra=3, **attrs: None, "got 'extra' in"),
        (lambda x, y, out, _extra, **attrs: None, "got '_extra' in"),
        (lambda x, y, out, axis, /, *, alpha: None, "got 'axis' in"),
        (lambda x, y, **attrs: None, "without 'out'"),
    ],
)
def test_a_kernel_with_a_mismatched_signature_is_refused(function, words):
    with pytest.raises(RegistrationError, match=f"^acme.blend: kernel .*{words}"):
        layout(function)


def test_the_error_names_the_kernel_and_its_signature():
    def blend(x, out):
        raise NotImplementedError

    with pytest.raises(RegistrationError, match=r"^mine: .* got blend\(x, out\) without 'y'"):
        layout(blend, who="mine")


def test_the_error_for_a_callable_without_a_signature_suggests_wrapping_it():
    with pytest.raises(RegistrationError, match="signature that Python can read, .*; wrap it"):
        layout(type)
