"""Kernels that lack a requirement: a module, a library, or a module of their own package."""

import numpy as np

from opwright.errors import MissingRequirementError
from opwright.op import OpMaker, no_gradient, same_shape_as


def twice(x, out):
    np.multiply(x, 2, out=out)


class ImportsInPrepare:
    @classmethod
    def prepare(cls, ctx):
        if ctx.inputs["x"][0].shape != ():  # needed by some samples, not by the first
            import nowhere_installed  # noqa: F401
        return twice


def imports_in_run(x, out):
    import nowhere_installed

    nowhere_installed.twice(x, out)


class AsksForLibrary:
    @classmethod
    def prepare(cls, ctx):
        try:
            raise RuntimeError("libnowhere.so: cannot open")
        except RuntimeError as error:
            raise MissingRequirementError(
                f"lacking: libnowhere must be installed, got {error}; get it"
            ) from error


class OnlyFloat32Here:
    @classmethod
    def prepare(cls, ctx):
        if ctx.inputs["x"][0].dtype == "float64":
            ctx.lack("a processor with instructions for float64")
        return twice


class ImportsItself:
    @classmethod
    def prepare(cls, ctx):
        import opwright_lacking.forgotten  # noqa: F401

        return twice


def _make(op_type):
    return (
        OpMaker(op_type)
        .add_comment("Twice, out = 2 * x.")
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(
            infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest")
        )
    )


MODULE = _make("lacking.module")
MODULE_IN_RUN = _make("lacking.module_in_run")
LIBRARY = _make("lacking.library")
OWN_MODULE = _make("lacking.own_module")
PROCESSOR = _make("lacking.processor")
