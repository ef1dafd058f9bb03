"""A plugin whose compiled kernels misuse memory in different ways."""

import opwright.plugin as plugin

OPERATORS = (
    "writes_input",
    "leaves_last",
    "writes_past_end",
    "shares_sum",
    "ignores_strides",
    "packs_in_place",
    "writes_shape",
    "reads_past_end",
    "reads_before_begin",
    "leaves_tail",
    "begins_at_row",
    "begins_at_row_fixed",
    "shares_sum_fixed",
    "ignores_strides_fixed",
    "reads_past_end_fixed",
    "leaves_tail_fixed",
    "takes_parameters",
)


@plugin.hookimpl
def opwright_ops(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_compiled.{name}", f"opwright_broken_compiled.operators:{name.upper()}"
        )


@plugin.hookimpl
def opwright_kernels(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_compiled.{name}",
            device="cpu",
            dtypes=["float32"],
            kernel="opwright_broken_compiled/libbroken.so",
        )
