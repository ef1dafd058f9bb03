"""The operators of the compiled kernels."""

from opwright.op import OpMaker, no_gradient, same_shape_as


def _make(name, comment):
    return (
        OpMaker(f"broken_compiled.{name}")
        .add_comment(comment)
        .add_input("x", "any shape, float")
        .dtypes("float32")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(
            infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest")
        )
    )


WRITES_INPUT = _make("writes_input", "Negative, out = -x.")
LEAVES_LAST = _make("leaves_last", "Copy, out = x.")
WRITES_PAST_END = _make("writes_past_end", "Copy, out = x.")
SHARES_SUM = _make("shares_sum", "Distance from the mean, out = x - mean(x).")
IGNORES_STRIDES = _make("ignores_strides", "Copy, out = x.")
PACKS_IN_PLACE = _make("packs_in_place", "Copy, out = x.")
WRITES_SHAPE = _make("writes_shape", "Copy, out = x.")
READS_PAST_END = _make("reads_past_end", "Copy, out = x.")
READS_BEFORE_BEGIN = _make("reads_before_begin", "Copy, out = x.")
LEAVES_TAIL = _make("leaves_tail", "Copy, out = x.")
