"""A plugin whose hook module imports a module that only its kernels need."""

import asyncio  # noqa: F401
import http.server  # noqa: F401
import unittest.mock  # noqa: F401

import opwright.plugin as plugin

KERNELS = "opwright_broken_import_cost.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_import_cost.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_import_cost.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
