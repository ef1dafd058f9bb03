"""A few operators for the core tests, which must not depend on opwright-std."""

from __future__ import annotations

from opwright import Context
from opwright.op import (
    BLOCK,
    Branch,
    Loop,
    OpDefinition,
    OpMaker,
    elementwise_shape,
    grad_op,
    no_gradient,
    same_shape_as,
)
from opwright.packages import Package

PACKAGE = Package("std", "opwright-std", "1.0")


def _unary(type, gradient, *, comment="A unary operator."):
    maker = OpMaker(type).add_comment(comment).add_input("x", "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    return maker.build(same_shape_as("x"), gradient)


def _square_gradient(g):
    doubled = g.emit("scale", {"x": g.input("x")}, attrs={"scale": 2.0})
    g.set_input_grad("x", g.emit("multiply", {"x": doubled, "y": g.output_grad("out")}))


def _add_gradient(g):
    g.set_input_grad("x", g.output_grad("out"))
    g.set_input_grad("y", g.output_grad("out"))


def _multiply_gradient(g):
    grad = g.output_grad("out")
    if g.wants("x"):
        g.set_input_grad("x", g.emit("multiply", {"x": grad, "y": g.input("y")}))
    if g.wants("y"):
        g.set_input_grad("y", g.emit("multiply", {"x": grad, "y": g.input("x")}))


def _binary(type, gradient):
    maker = OpMaker(type).add_comment("A binary operator.")
    maker.add_input("x", "one").add_input("y", "other").same_dtype_as("x")
    maker.add_output("out", "as x").same_dtype_as("x")
    return maker.build(elementwise_shape("x", "y"), gradient)


def _scale():
    maker = OpMaker("scale").add_comment("out = scale * x.").add_input("x", "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("scale", float, "the factor").default(1.0)

    def gradient(g):
        grad = g.emit("scale", {"x": g.output_grad("out")}, attrs={"scale": g.attr("scale")})
        g.set_input_grad("x", grad)

    return maker.build(same_shape_as("x"), gradient)


def _matmul():
    maker = OpMaker("matmul").add_comment("out = x @ y.")
    maker.add_input("x", "[n, k]").add_input("y", "[k, m]").same_dtype_as("x")
    maker.add_output("out", "[n, m]").same_dtype_as("x")

    def infer(ctx):
        x, y = ctx.input("x").shape, ctx.input("y").shape
        ctx.require(len(x) == 2 and len(y) == 2, "x and y must be 2-d")
        ctx.require(-1 in (x[1], y[0]) or x[1] == y[0], f"x {x} and y {y} do not fit")
        ctx.set_output("out", (x[0], y[1]))

    return maker.build(infer, grad_op("matmul_grad", needs=["x", "y"]))


def _mean():
    maker = OpMaker("mean").add_comment("out = mean of x.").add_input("x", "any shape")
    maker.add_output("out", "a scalar").same_dtype_as("x")
    return maker.build(lambda ctx: ctx.set_output("out", ()), grad_op("mean_grad"))


def _fill_like():
    maker = OpMaker("fill_like").add_comment("out = value.")
    maker.add_input("x", "any shape").as_shape_only()
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("value", float, "the value").default(0.0)
    return maker.build(same_shape_as("x"), no_gradient("a constant"))


def _add_n():
    maker = OpMaker("add_n").add_comment("out = sum of x.")
    maker.add_input("x", "of one shape").as_duplicable().same_dtype_as("x")
    maker.add_output("out", "as x").same_dtype_as("x")

    def gradient(g):
        for index in range(len(g.inputs("x"))):
            g.set_input_grad("x", g.output_grad("out"), index)

    return maker.build(same_shape_as("x"), gradient)


def _dropout():
    maker = OpMaker("dropout").add_comment("Sets elements to 0 at random.")
    maker.add_input("x", "any shape").add_input("step", "int64 [1]").dtypes("int64").as_optional()
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_output("mask", "bool, as x").dtypes("bool").as_intermediate()
    maker.add_attr("probability", float, "of zero").default(0.5).between(0.0, 1.0)
    maker.add_attr("seed", int, "0: the program's").default(0)
    maker.add_attr("stream", int, "which numbers")

    def infer(ctx):
        ctx.set_output("out", ctx.input("x").shape)
        ctx.set_output("mask", ctx.input("x").shape)

    return maker.build(infer, grad_op("dropout_grad", needs=["mask"]), random=True)


def _cast():
    maker = OpMaker("cast").add_comment("out = x as dtype.").add_input("x", "any shape")
    maker.add_attr("dtype", str, "the dtype").as_dtype().required()
    maker.add_output("out", "as x").same_dtype_as("dtype")

    def gradient(g):
        attrs = {"dtype": "float32"}
        g.set_input_grad("x", g.emit("cast", {"x": g.output_grad("out")}, attrs=attrs))

    return maker.build(same_shape_as("x"), gradient)


def _argmax():
    maker = OpMaker("argmax").add_comment("Where the greatest is.").add_input("x", "any shape")
    maker.add_output("out", "int64").dtypes("int64")

    def infer(ctx):
        ctx.set_output("out", ctx.input("x").shape[:-1])

    return maker.build(infer, no_gradient("its values are positions"))


def _split():
    maker = OpMaker("split").add_comment("Halves along axis 0.").add_input("x", "[2n, ...]")
    maker.add_output("out", "parts").same_dtype_as("x").as_duplicable()

    def infer(ctx):
        shape = ctx.input("x").shape
        count = ctx.output_count("out")
        ctx.set_outputs("out", [(shape[0] // count, *shape[1:])] * count)

    return maker.build(infer, grad_op("split_grad"))


def _sgd():
    maker = OpMaker("sgd").add_comment("param -= learning_rate * grad.")
    maker.add_input("param", "float").add_input("grad", "as param").same_dtype_as("param")
    maker.add_input("learning_rate", "[1]").same_dtype_as("param")
    maker.add_output("param_out", "is param").same_dtype_as("param").aliases("param")
    return maker.build(same_shape_as("param"), no_gradient("an update"))


def _double_square():
    """A composite without a gradient rule: out = 2 * x * x."""
    maker = OpMaker("double_square").add_comment("out = 2 x^2.").add_input("x", "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")

    def body(b):
        squared = b.emit("square", {"x": b.input("x")})
        b.emit("scale", {"x": squared}, {"out": b.output("out")}, {"scale": 2.0})

    return maker.build(same_shape_as("x"), None, body=body)


def _cond():
    maker = OpMaker("cond").add_comment("One of two blocks.")
    maker.add_input("condition", "bool of one element").dtypes("bool")
    maker.add_input("x", "what the blocks read").as_duplicable().as_optional()
    maker.add_output("out", "the results").as_duplicable()
    maker.add_attr("true_block", BLOCK, "where true").required()
    maker.add_attr("false_block", BLOCK, "where false").required()
    maker.add_attr("true_outputs", list[str], "names in true_block").required()
    maker.add_attr("false_outputs", list[str], "names in false_block").required()

    def infer(ctx):
        metas = ctx.block_metas("true_block", ctx.attr("true_outputs"))
        ctx.set_metas("out", metas)

    blocks = (("true_block", "true_outputs"), ("false_block", "false_outputs"))
    return maker.build(infer, None, control=Branch("condition", "x", "out", blocks))


def _repeat(type="repeat", limit=None):
    maker = OpMaker(type).add_comment("Runs a block while its condition holds.")
    maker.add_input("condition", "bool of one element").dtypes("bool")
    maker.add_input("state", "what turns hand on").as_duplicable()
    maker.add_input("x", "what the block reads").as_duplicable().as_optional()
    maker.add_output("out", "the last state").as_duplicable()
    maker.add_attr("body", BLOCK, "one turn").required()
    maker.add_attr("body_inputs", list[str], "names of the state").required()
    maker.add_attr("body_outputs", list[str], "names of the next state").required()
    maker.add_attr("body_condition", str, "name of the next condition").required()
    names = ["body", "body_inputs", "body_outputs", "body_condition"]
    if limit is not None:
        maker.add_attr("limit", int, "the most turns").default(limit)
        names.append("limit")

    def infer(ctx):
        ctx.set_metas("out", ctx.inputs("state"))

    control = Loop("condition", "state", "x", "out", *names)
    return maker.build(infer, control=control)


def context_with_loop(limit=None):
    """Return the standard context plus the loop operator `test.repeat`, as if from a plugin."""
    context = Context.discover()
    package = Package("test", "opwright-test", "1")
    context.ops.add("test.repeat", _repeat("test.repeat", limit), package)
    return context


def definitions() -> list[OpDefinition]:
    """Return the definitions of all operators in this module."""
    return [
        _unary("relu", grad_op("relu_grad", needs=["out"])),
        _unary("square", _square_gradient),
        _unary("assign", lambda g: g.set_input_grad("x", g.output_grad("out"))),
        _unary("floor", no_gradient("it is flat wherever it is continuous")),
        _unary("mystery", None),
        _unary("forgetful", lambda g: None),
        _binary("add", _add_gradient),
        _binary("multiply", _multiply_gradient),
        _scale(),
        _matmul(),
        _mean(),
        _fill_like(),
        _add_n(),
        _dropout(),
        _cast(),
        _argmax(),
        _split(),
        _sgd(),
        _double_square(),
        _cond(),
        _repeat(),
    ]


def context() -> Context:
    """Return a context with only these operators."""
    made = Context()
    for definition in definitions():
        made.ops.add(definition.op_type, definition, PACKAGE)
    return made


def rename_scale(desc, from_version):
    """Return a description in which the attribute scale is renamed to factor."""
    attrs = dict(desc["attrs"])
    return {**desc, "attrs": {"factor": attrs.pop("scale"), **attrs}}
