"""``opwright ops`` lists operators, or shows one operator as a page."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from every_case import EVERY, is_one_in
from opwright import Context, context_guard, current_context
from opwright.op import OpMaker, grad_op, no_gradient, same_shape_as
from opwright.packages import Package
from opwright_kit.commands.page import Page
from sites import OP_HOOK, SWISH

ACME = Package("acme", "opwright-acme", "1.0")


def table(text):
    return [line.split() for line in text.splitlines()]


def sections(text):
    """Return a dict that maps each section title of a page to its lines."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return {lines[0]: lines[1:] for lines in blocks if not lines[0].startswith(" ")}


def test_operators_are_listed_without_importing_them(site):
    hook = OP_HOOK + "registry.add('acme.swish', 'not_there:X')\n    "
    hook += "registry.add('acme.helper', 'not_there:X', hidden=True)\n"
    site.add("acme", hook)
    listed, everything = site.command("ops"), site.command("ops", "--all")
    assert table(listed.stdout)[1] == ["acme.swish", "opwright-acme", "1.0", "-"]
    assert "acme.helper" not in listed.stdout
    assert "acme.helper" in everything.stdout
    data = json.loads(site.command("ops", "--all", "--json").stdout)
    assert [(item["type"], item["hidden"]) for item in data] == [
        ("acme.helper", True),
        ("acme.swish", False),
    ]


def crashing_swish():
    """Return a module whose swish kernel reads unmapped memory."""
    crash = "import ctypes\n    ctypes.string_at(0)\n    np.divide(x, 1 + np.exp"
    return SWISH.replace("np.divide(x, 1 + np.exp", crash)


def test_a_crashing_example_is_reported_with_its_kernel(site):
    site.add("acme", modules={"swish": crashing_swish()})
    done = site.command("ops", "acme.swish")
    where = "crashed with SIGSEGV in kernel acme.swish[cpu, float32, acme] of opwright-acme 1.0"
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"  # the example {where}"
    assert sections(done.stdout)["kernels"]
    assert done.stderr.startswith(
        f"opwright: acme.swish: an example must run, got one that {where}; update that package"
    )


def test_a_crash_is_reported_in_the_json_output(site):
    site.add("acme", modules={"swish": crashing_swish()})
    done = site.command("ops", "acme.swish", "--json")
    assert done.returncode == 1
    assert "SIGSEGV" in json.loads(done.stdout)["example"]["crash"]


def test_the_output_of_a_kernel_is_not_part_of_the_page(site):
    loud = SWISH.replace("np.divide", "print('loud', flush=True); np.divide")
    site.add("acme", modules={"swish": loud})
    done = site.command("ops", "acme.swish")
    assert done.returncode == 0, done.stderr
    assert "loud" not in done.stdout + done.stderr


def test_an_operator_is_shown_as_a_page(site):
    site.add("acme")
    done = site.command("ops", "acme.swish")
    assert done.returncode == 0, done.stderr
    drawn = re.sub(r"\b\d, \d\b", "3, 2", done.stdout).replace("?, 3]", "?, 2]")
    assert drawn == (  # for any lengths of the drawn example
        "acme.swish, version 1, from opwright-acme 1.0\n"
        "\n"
        "Swish, out = x * sigmoid(beta * x).\n"
        "\n"
        "inputs\n"
        "  x  its dtype selects the kernel\n"
        "     any shape, float\n"
        "\n"
        "outputs\n"
        "  out  dtype of x\n"
        "       shape and dtype of x\n"
        "\n"
        "attributes\n"
        "  beta  float, in (0, inf), default 1.0\n"
        "        steepness\n"
        "\n"
        "shapes\n"
        "  Every output has the shape of x.\n"
        "  x [3, 2] -> out [3, 2]\n"
        "  x [?, 2] -> out [?, 2]\n"
        "\n"
        "gradient\n"
        "  acme.swish_grad reads x, out_grad\n"
        "  and gives x_grad\n"
        "\n"
        "kernels\n"
        "  cpu  acme  priority 50  opwright-acme 1.0  float32 float64\n"
        "\n"
        "example\n"
        "  import numpy as np\n"
        "  import opwright as ow\n"
        "\n"
        '  x = np.random.rand(3, 2).astype("float32")\n'
        "  out = ow.ops.acme.swish(x)\n"
        "  # float32[3, 2]\n"
    )


def test_the_page_as_json_contains_proto_gradient_kernels_and_example(site):
    site.add("acme")
    data = json.loads(site.command("ops", "acme.swish", "--json").stdout)
    assert (data["attrs"][0]["default"], data["attrs"][0]["type"]) == (1.0, "float")
    assert data["inputs"][0]["name"] == "x"
    assert data["package"]["version"] == "1.0"
    assert data["gradient"][0] == "acme.swish_grad reads x, out_grad"
    assert [kernel["dtype"] for kernel in data["kernels"]] == ["float32", "float64"]
    assert data["example"]["code"].endswith("\nout = ow.ops.acme.swish(x)")


def test_a_derived_gradient_operator_has_a_page(site):
    site.add("acme")
    page = site.command("ops", "acme.swish_grad").stdout
    assert "\n  out_grad  dtype of x\n            gradient of out\n" in page
    assert "\ngradient\n  none: it has no rule, and append_backward refuses it\n" in page


def test_a_misspelled_option_is_reported(site):
    done = site.command("ops", "--al1")
    assert done.returncode == 2
    assert "ops: unknown argument, got '--al1'; did you mean '--all'?" in done.stderr


def blend():
    """Return an OpMaker for an operator with every kind of slot."""
    return (
        OpMaker("acme.blend")
        .add_comment("A blend.")
        .add_input("x", "arrays of one shape")
        .as_duplicable()
        .add_input("mask", "shape of x")
        .as_optional()
        .dtypes("int64")
        .add_input("like", "shape of x")
        .as_shape_only()
        .add_output("state_out", "shape of mask")
        .aliases("mask")
        .as_optional()
        .add_output("saved", "shape of x")
        .same_dtype_as("x")
        .as_intermediate()
        .add_attr("k", int, "a count")
        .required()
        .at_least(1)
        .add_attr("names", list[str], "of something")
    )


@pytest.fixture
def acme():
    """A Context to which tests add acme operators and kernels."""
    return Context()


def add(context, maker, infer_shape, kernel=None, gradient=None):
    definition = maker.build(infer_shape=infer_shape, gradient=gradient)
    context.ops.add(definition.op_type, definition, ACME)
    if kernel is not None:
        context.kernels.add(
            definition.op_type,
            device="cpu",
            dtypes=["float32", "int64"],
            kernel=kernel,
            library="acme",
            package=ACME,
        )
    return Page(definition.op_type, context)


def test_a_page_shows_every_property_of_slots_and_attributes(acme):
    text = add(acme, blend(), same_shape_as("like")).text()
    assert "  x     takes a list; its dtype selects the kernel\n" in text
    assert "  mask  int64; may be absent\n" in text
    assert "  like  only its shape is read\n" in text
    assert "  state_out  alias: must be the variable of mask; may be absent\n" in text
    assert "  saved      dtype of x; intermediate, for the gradient only\n" in text
    assert "  k      int, in [1, inf), required\n" in text
    assert "  names  list[str], optional\n" in text
    assert sections(text)["kernels"] == ["  none on any device"]
    assert "example" not in sections(text)


def unary(type="acme.f"):
    return (
        OpMaker(type)
        .add_comment("A function.")
        .add_input("x", "any shape")
        .add_output("out", "shape of x")
        .same_dtype_as("x")
    )


def test_the_docstring_of_the_shape_rule_is_on_the_page(acme):
    def infer_shape(ctx):
        """Insert a first axis.

        Nothing else.
        """
        ctx.set_output("out", (1, *ctx.input("x").shape))

    text = add(acme, unary(), infer_shape, lambda x, out: np.copyto(out, x)).text()
    words, known, unknown = sections(text)["shapes"]
    assert words == "  Insert a first axis."
    assert re.fullmatch(r"  x \[(.*)\] -> out \[1, \1\]", known)
    assert re.fullmatch(r"  x \[(\?.*)\] -> out \[1, \1\]", unknown)


def test_the_page_lists_the_operators_that_a_gradient_rule_writes(acme):
    def gradient(g):
        out_grad = g.output_grad("out")
        g.set_input_grad("x", g.emit("acme.twice", {"x": out_grad, "y": g.input("x")}))

    twice = unary("acme.twice").add_input("y", "shape of x").as_shape_only()
    add(acme, twice, same_shape_as("x"))
    fill = unary("fill_like").add_attr("value", float, "the value").default(0.0)
    definition = fill.build(infer_shape=same_shape_as("x"))
    acme.ops.add("fill_like", definition, Package("std", "opwright-std", "1.0"))
    page = add(acme, unary(), same_shape_as("x"), lambda x, out: None, gradient)
    assert sections(page.text())["gradient"] == [
        "  acme.twice reads out_grad, the shape of x, gives x_grad"
    ]


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        (no_gradient("it counts"), "  none: it counts"),
        (None, "  none: it has no rule, and append_backward refuses it"),
        (grad_op("acme.f_grad"), "  acme.f_grad reads out_grad; of x only the shape"),
    ],
)
def test_the_source_of_the_gradient_is_reported(acme, gradient, said):
    assert (
        sections(add(acme, unary(), same_shape_as("x"), None, gradient).text())["gradient"][0]
        == said
    )


def test_an_example_is_shown_only_if_it_has_run(acme):
    def refuse(x, out):
        raise ValueError("never")

    assert "example" not in sections(add(acme, unary(), same_shape_as("x"), refuse).text())

    def count(x, out):
        if x.min() < 0 or x.dtype.kind == "f":
            raise ValueError("x must be a class id")
        np.copyto(out, x)

    text = add(acme, unary("acme.g"), same_shape_as("x"), count).text()
    assert "  x = np.array([[" in text
    assert "out = ow.ops.acme.g(x)\n  # int64[" in text


def test_a_long_call_is_wrapped(acme):
    x, y, z = (f"{name}_with_a_name_that_fills_a_line" for name in "xyz")
    maker = OpMaker("acme.long").add_comment("Long.").add_input(x, "any shape")
    maker.add_input(y, "any shape").same_dtype_as(x).add_input(z, "any shape").same_dtype_as(x)
    maker.add_output("out", "the shape of the first").same_dtype_as(x)
    namespace = {}
    exec(
        f"def kernel({x}, {y}, {z}, out): out[...] = 0", namespace
    )  # kernels receive slots by name
    text = add(acme, maker, same_shape_as(x), namespace["kernel"]).text()
    assert f"  out = ow.ops.acme.long(\n      {x}, {y},\n      {z}\n  )\n  # float32[" in text
    assert max(map(len, text.splitlines())) <= 100


def test_every_installed_operator_has_a_page_of_100_columns_whose_example_runs():
    context = current_context()
    without = []
    for type in context.ops.types(all=True):
        if not (EVERY or is_one_in(8, type)):
            continue
        page = Page(type, context)
        text = page.text()
        assert max(map(len, text.splitlines())) <= 100, type
        code = page.to_json()["example"]
        if code is None:
            without.append(type)
            continue
        names = {}
        with np.errstate(all="ignore"), context_guard(context):
            exec(code["code"], names)  # the example on the page must run
    definitions = map(context.ops.get, without)
    # Exclude operators for PyTorch calls, which the graph translator describes instead.
    definitions = (d for d in definitions if not d.op_type.startswith("torch."))
    assert [d.op_type for d in definitions if not d.plan_only and d.control is None] == []


def test_every_standard_operator_describes_its_shape_rule():
    context = current_context()
    std = [t for t in context.ops.types() if "." not in t]
    assert [t for t in std if not context.ops.get(t).infer_shape.__doc__] == []
