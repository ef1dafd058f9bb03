"""Plugins declare options, users set them for a network or Context, and kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelNotFoundError, RegistrationError, SettingError
from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright.packages import Package
from opwright.plugin import OptionRegistrar

TOY = Package("toy", "opwright-toy", "1.0")
X = np.arange(3.0)


class Rounding:
    """A kernel that multiplies by 1 + digits, so the result depends on its options."""

    prepared = ()

    @staticmethod
    def prepare(ctx):
        Rounding.prepared += ((ctx.n_threads, ctx.options),)
        if ctx.options["toy.refuse"]:
            ctx.refuse("toy.refuse is set")
        factor = 1.0 + ctx.options["toy.digits"]

        def run(x, out):
            np.multiply(x, factor, out=out)

        return run


@pytest.fixture
def context():
    """Create a Context with one operator, one kernel and two options, and make it current."""
    made = ow.Context()
    maker = OpMaker("toy.scale").add_comment("out = x * (1 + digits).")
    maker.add_input("x", "any shape, float").add_output("out", "that of x").same_dtype_as("x")
    definition = maker.build(infer_shape=same_shape_as("x"), gradient=no_gradient("a test"))
    made.ops.add("toy.scale", definition, TOY)
    made.kernels.add(
        "toy.scale", device="cpu", dtypes="*", kernel=Rounding, library="toy", package=TOY
    )
    made.options.add("digits", default=0, comment="What is added to 1.", package=TOY)
    made.options.add("refuse", default=False, comment="Refuse to compute.", package=TOY)
    Rounding.prepared = ()
    with ow.context_guard(made):
        yield made


@pytest.fixture
def network(context):
    return ow.Network([ow.Operator("toy.scale", x="x", out="out")])


def factor(network, **arguments):
    [out] = network.compile(["x"], ["out"], **arguments)(x=X)
    return out[1]


def test_an_option_of_compile_reaches_the_kernel_and_selects_the_plan(network):
    assert factor(network) == 1.0
    assert factor(network, options={"toy.digits": 2}) == 3.0
    assert factor(network, options={"toy.digits": 4}) == 5.0
    assert factor(network) == 1.0


def test_equal_options_share_prepared_kernels(network):
    for options in (None, {"toy.digits": 0}, {}, {"toy.digits": 2}, {"toy.digits": 2}):
        factor(network, options=options)
    keys = [(n_threads, options["toy.digits"]) for n_threads, options in Rounding.prepared]
    assert {digits for _, digits in keys} == {0, 2}
    assert len(keys) == len(set(keys))
    assert Rounding.prepared[0][1] == {"toy.digits": 0, "toy.refuse": False}


def test_context_options_apply_to_eager_calls_and_networks(context, network):
    with ow.context_guard(context.with_options({"toy.digits": 2})):
        assert ow.ops.toy.scale(X)[1] == 3.0
        assert factor(network) == 3.0
        assert factor(network, options={"toy.digits": 0}) == 1.0
        scope = ow.Scope()
        scope.var("x").set(X)
        network.run(scope)
        assert scope.var("out").numpy()[1] == 3.0
    assert ow.ops.toy.scale(X)[1] == 1.0
    network.run(scope)
    assert scope.var("out").numpy()[1] == 1.0


def test_compiled_networks_keep_their_options(context, network):
    compiled = network.compile(["x"], ["out"], options={"toy.digits": 2})
    with ow.context_guard(context.with_options({"toy.digits": 4})):
        assert compiled(x=X)[0][1] == 3.0


def test_setting_pins_keeps_options_and_vice_versa(context):
    both = context.with_options({"toy.digits": 2}).with_pins({"toy.scale": "toy"})
    assert dict(both.chosen_options) == {"toy.digits": 2}
    assert dict(both.with_options({}).pins) == {"toy.scale": "toy"}


def test_a_kernel_can_refuse_because_of_an_option(network):
    with pytest.raises(KernelNotFoundError, match="refused: toy.refuse is set"):
        factor(network, options={"toy.refuse": True})
    assert factor(network) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"toy.digts": 1}, r"unknown option, got 'toy.digts'; did you mean 'toy.digits'\?"),
        ({"digits": 1}, "unknown option, got 'digits'; did you mean 'toy.digits'"),
        ({3: 1}, "unknown option, got 3; options are 'toy.digits', 'toy.refuse'"),
        ({"toy.digits": True}, "option 'toy.digits' must be an int, got True; What is added to 1."),
        ({"toy.refuse": "yes"}, "option 'toy.refuse' must be a bool, got 'yes'; Refuse to"),
        (["toy.refuse"], r"options must be a dict of names and values, got \['toy.refuse'\]"),
    ],
)
def test_the_error_for_an_unknown_option_suggests_the_nearest_name(
    context, network, options, message
):
    with pytest.raises(SettingError, match=f"Network.compile: {message}"):
        network.compile(["x"], ["out"], options=options)
    with pytest.raises(SettingError, match=f"Context.with_options: {message}"):
        context.with_options(options)


@pytest.mark.parametrize(
    ("name", "default", "comment", "message"),
    [
        ("Digits", 0, "x", "Digits: option must be lower_snake"),
        ("more", [1], "x", r"toy.more: default of an option must be a bool, int, float or str"),
        ("more", 0, " ", "toy.more: comment of an option must describe it, got ' '"),
    ],
)
def test_a_malformed_option_is_refused(name, default, comment, message):
    with pytest.raises(RegistrationError, match=message):
        OptionRegistrar(TOY).add(name, default=default, comment=comment)


def test_an_option_that_is_declared_twice_is_refused(context):
    registrar = OptionRegistrar(TOY)
    registrar.add("digits", default=0, comment="Something.")
    with pytest.raises(RegistrationError, match="toy.digits: registered twice by opwright-toy"):
        registrar.add("digits", default=1, comment="Something else.")
    with pytest.raises(
        RegistrationError, match="toy.digits: option is registered twice, by opwright"
    ):
        context.options.add("digits", default=1, comment="Something else.", package=TOY)
