"""The names of this package's objects; everything is loaded at first use."""

import opwright.plugin as plugin

LIBRARY = "opwright_cosine/cosine.so"
DTYPES = ["float32", "float64"]


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operators that the library describes."""
    registry.add("cosine.similarity", LIBRARY)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name the kernels for both devices, including the gradient's kernels."""
    for op_type, name in [
        ("cosine.similarity", "COSINE"),
        ("cosine.similarity_grad", "COSINE_GRAD"),
    ]:
        registry.add(op_type, device="cpu", dtypes=DTYPES, kernel=LIBRARY)
        registry.add(
            op_type,
            device="cuda",
            dtypes=DTYPES,
            kernel=f"opwright_cosine.cuda:{name}",
            capturable=True,
        )


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Name the function that reads programs of older versions."""
    registry.add("upgrade", "cosine.similarity", "opwright_cosine.upgrades:rename_factor")
