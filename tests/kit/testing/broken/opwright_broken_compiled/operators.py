"""The operators of the compiled kernels."""

from opwright.op import OpMaker, no_gradient, same_shape_as


def _columns_shape(ctx):
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 2, f"x must be a matrix, got shape {list(shape)}")
    ctx.set_output("out", shape[1:])


def _make(name, comment, x="any shape, float", shape_rule=None):
    return (
        OpMaker(f"broken_compiled.{name}")
        .add_comment(comment)
        .add_input("x", x)
        .dtypes("float32")
        .add_output("out", "as the comment says, dtype of x")
        .same_dtype_as("x")
        .build(
            infer_shape=shape_rule or same_shape_as("x"),
            gradient=no_gradient("only its kernel is of interest"),
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
BEGINS_AT_ROW, BEGINS_AT_ROW_FIXED = (
    _make(
        f"begins_at_row{twin}",
        "Largest of each column; 0 where there are no rows.",
        "float [n, k]",
        _columns_shape,
    )
    for twin in ("", "_fixed")
)
SHARES_SUM_FIXED = _make("shares_sum_fixed", "Distance from the mean, out = x - mean(x).")
IGNORES_STRIDES_FIXED = _make("ignores_strides_fixed", "Copy, out = x.")
READS_PAST_END_FIXED = _make("reads_past_end_fixed", "Copy, out = x.")
LEAVES_TAIL_FIXED = _make("leaves_tail_fixed", "Copy, out = x.")
TAKES_PARAMETERS = _make("takes_parameters", "Copy, out = x.")
