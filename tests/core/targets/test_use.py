"""Operators and kernels of compiled libraries are used in the same way as Python operators."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright.op import Meta

X = np.array([1.0, 2.5, -3.0])


def test_a_compiled_operator_is_a_function_with_signature_and_docstring(acme, plain_library):
    acme.use(plain_library)
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)
    out = ow.ops.acme.scale(X.astype("float32"), factor=3.0)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, 3 * X.astype("float32"))
    assert str(inspect.signature(ow.ops.acme.scale)).startswith("(x, *, factor=2.0")
    assert "A multiple, out = factor * x." in ow.ops.acme.scale.__doc__


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (0, 4)])
def test_shapes_without_elements_or_axes_are_supported(acme, plain_library, shape):
    acme.use(plain_library)
    x = np.ones(shape)
    np.testing.assert_array_equal(ow.ops.acme.scale(x), 2 * x)


def test_attributes_are_checked_and_the_library_can_refuse_shapes(acme, plain_library):
    acme.use(plain_library)
    with pytest.raises(AttributeValueError, match=r"acme.scale: factor must be in \(0, inf\)"):
        ow.ops.acme.scale(X, factor=-1.0)
    with pytest.raises(ShapeError, match=r"^acme.scale: x must not have 3 dimensions\n"):
        ow.ops.acme.scale(np.ones((2, 3, 4)))


def test_the_shape_rule_of_a_library_supports_unknown_dimensions(acme, plain_library):
    context = acme.use(plain_library)
    definition = context.ops.get("acme.scale")
    metas = ((ow.op.Meta((-1, 4), "float32"),),)
    attrs = definition.proto.fill_attrs({})
    assert definition.infer(metas, attrs, (1,)) == metas


def test_append_backward_uses_the_gradient_operator_declared_by_the_library(acme, plain_library):
    acme.use(plain_library)
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        x = program.global_block().create_var("x", shape=[3], dtype="float64")
        y = ow.ops.acme.scale(x, factor=4.0)
        [(_, grad)] = ow.append_backward([y], parameters=[x])
    run = ow.Network(program.global_block()).compile(feed=["x"], fetch=[y.name, grad.name])
    out, gradient = run(x=X)
    np.testing.assert_array_equal(out, 4 * X)
    np.testing.assert_array_equal(gradient, np.full(3, 4.0))


def test_the_gradient_accepts_only_consistent_values(acme, plain_library):
    acme.use(plain_library)
    block = ow.Program().global_block()
    block.create_var("x", shape=[3], dtype="float64")
    block.create_var("longer", shape=[5], dtype="float64")
    block.create_var("deeper", shape=[1, 1, 3], dtype="float64")
    outputs = {"x_grad": ["x_grad"]}
    message = r"acme.scale_grad: out_grad must be float64\[3\], as acme.scale makes out, got floa"
    with pytest.raises(ShapeError, match=message):
        block.append_op("acme.scale_grad", {"x": "x", "out_grad": "longer"}, outputs)
    message = r"acme.scale_grad: its inputs must fit acme.scale, got acme.scale: x must not"
    with pytest.raises(ShapeError, match=message):
        block.append_op("acme.scale_grad", {"x": "deeper", "out_grad": "deeper"}, outputs)


def test_the_placement_contains_no_python_steps_and_explain_names_the_library(acme, plain_library):
    acme.use(plain_library)
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        x = program.global_block().create_var("x", shape=[3], dtype="float64")
        y = ow.ops.acme.scale(ow.ops.acme.scale(x))
    network = ow.Network(program.global_block())
    run = network.compile(feed=["x"], fetch=[y.name])
    np.testing.assert_array_equal(run(x=X)[0], 4 * X)
    placement = network.placement()
    assert placement.python_steps == 0
    assert placement.kernels == {"cpu/acme": 2}
    explanation = ow.explain("acme.scale", "cpu", "float64")
    assert explanation.chosen is not None
    assert explanation.chosen.target == "opwright_acme/libacme.so"
    assert explanation.chosen.may_reuse == (("out", "x"),)


def test_discovery_does_not_open_libraries(acme, plain_library):
    acme.install(plain_library)
    text = acme.python(
        "from opwright.context.context import current_context\n"
        "context = current_context()\n"
        "assert 'acme.scale' in context.ops.types()\n"
        "maps = lambda: 'libacme' in open('/proc/self/maps').read()\n"
        "before = maps()\n"
        "context.ops.get('acme.scale')\n"
        "print(before, maps())"
    )
    assert text.split() == ["False", "True"]


def test_symbols_of_libraries_stay_local(acme, plain_library):
    acme.install(plain_library)
    text = acme.python(
        "import ctypes, numpy, opwright\n"
        "opwright.ops.acme.scale(numpy.ones(2))\n"
        "print(hasattr(ctypes.CDLL(None), 'opwright_plugin_v1'))"
    )
    assert text.split() == ["False"]


def test_doctor_opens_the_library(acme, plain_library):
    library = acme.install(plain_library)
    assert acme.doctor().returncode == 0
    library.write_bytes(b"no library")
    done = acme.doctor()
    assert done.returncode == 1
    assert "'acme' of opwright-acme 1.0 names unusable objects" in done.stdout
    assert "a library must be a shared object (ELF), got a file of another kind" in done.stdout


def test_the_shape_rule_refuses_symbolic_sizes(acme, plain_library):
    acme.use(plain_library)
    scale = ow.current_context().ops.get("acme.scale")
    symbol = type("Symbol", (), {"__index__": lambda self: 3})()
    with pytest.raises(ShapeError, match="requires int sizes, got other types"):
        scale.infer(((Meta((symbol,), "float64"),),), scale.proto.fill_attrs({}), (1,))
