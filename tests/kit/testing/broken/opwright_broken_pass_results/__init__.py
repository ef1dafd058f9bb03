"""A plugin whose passes change results, never apply, or make programs slow."""

import opwright.plugin as plugin


@plugin.hookimpl
def opwright_ops(registry):
    slow_relu = "opwright_broken_pass_results.passes:SLOW_RELU"
    registry.add("broken_pass_results.slow_relu", slow_relu, hidden=True)


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_pass_results.slow_relu",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel="opwright_broken_pass_results.passes:slow_relu",
    )


@plugin.hookimpl
def opwright_passes(registry):
    for name in ("swapped", "swapped_fixed", "unobserved", "never", "slow"):
        registry.add(
            f"broken_{name}", phase="fuse", function=f"opwright_broken_pass_results.passes:{name}"
        )
