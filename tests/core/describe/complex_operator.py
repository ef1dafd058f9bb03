"""An operator with slots of every kind, whose gradient is one derived operator."""

from __future__ import annotations

from opwright.op import OpMaker, grad_op


def complex_maker():
    return (
        OpMaker("acme.op", version=3)
        .add_comment("c")
        .add_input("weight", "c")
        .add_input("x", "c")
        .as_duplicable()
        .same_dtype_as("weight")
        .add_input("bias", "c")
        .as_optional()
        .dtypes("float32", "float64")
        .add_input("index", "c")
        .dtypes("int32", "int64")
        .add_input("state", "c")
        .same_dtype_as("weight")
        .add_output("out", "c")
        .as_duplicable()
        .same_dtype_as("weight")
        .add_output("count", "c")
        .dtypes("int64")
        .add_output("saved", "c")
        .as_intermediate()
        .same_dtype_as("weight")
        .add_output("positions", "c")
        .same_dtype_as("index")
        .add_output("state_out", "c")
        .same_dtype_as("weight")
        .aliases("state")
        .dispatch_on("weight")
    )


def complex_shape(ctx):
    """Infer `out` from `x`, `saved` from `weight`, and `positions` from `index`."""
    ctx.set_metas("out", ctx.inputs("x"))
    ctx.set_output("count", [])
    ctx.set_output("saved", ctx.input("weight").shape)
    ctx.set_output("positions", ctx.input("index").shape)
    ctx.set_output("state_out", ctx.input("state").shape)


def complex_definition(**how):
    how = {"needs": ["weight", "saved"], "also": ["positions"], "no_grad": ["state"]} | how
    return complex_maker().build(complex_shape, gradient=grad_op("acme.op_grad", **how))
