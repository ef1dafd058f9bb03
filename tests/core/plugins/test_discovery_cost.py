"""What discovery costs where very much is installed: 400 distributions, 100 of them plugins."""

from __future__ import annotations

MANY = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    for i in range(20):
        registry.add(f"{name}.op{i}", "opwright_{name}.swish:SWISH")

@plugin.hookimpl
def opwright_kernels(registry):
    for i in range(20):
        registry.add(f"{name}.op{i}", device="cpu", dtypes=["float32", "float64"],
                     kernel="opwright_{name}.swish:swish")
"""


def test_a_hundred_plugins_are_listed_within_50_ms_importing_none(site):
    for i in range(100):
        site.add(f"p{i}", MANY)
    for i in range(300):
        (site.folder / f"thing{i}-1.0.dist-info").mkdir()
    code = """
    import sys, time
    from opwright.context import Context
    took_ms = []
    for _ in range(5):
        begin = time.process_time()
        types = Context.discover().ops.types()
        took_ms.append((time.process_time() - begin) * 1e3)
    imported = [m for m in sys.modules if m.startswith("opwright_")]
    answer = [len(types), len(imported), min(took_ms)]
    """
    n_types, n_imported, _ = site.json(code)
    assert (n_types, n_imported) == (2000, 200)  # the first process imports every hook module
    n_types, n_imported, took_ms = site.json(code)
    assert (n_types, n_imported) == (2000, 0)
    assert took_ms < 50
