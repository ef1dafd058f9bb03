"""Limits the cost of discovery among 400 distributions, 100 of which are plugins.

The time of discovery is measured in benchmarks/workloads/discovery.py.
"""

from __future__ import annotations

import pytest

MANY = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("{name}.swish", "opwright_{name}.swish:SWISH")
    for i in range(19):
        registry.add(f"{name}.op{i}", "opwright_{name}.swish:SWISH")

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("{name}.swish", device="cpu", dtypes=["float32", "float64"],
                 kernel="opwright_{name}.swish:swish")
    for i in range(19):
        registry.add(f"{name}.op{i}", device="cpu", dtypes=["float32", "float64"],
                     kernel="opwright_{name}.swish:swish")
"""

IMPORTED = "\nimport sys\nimported = sorted(m for m in sys.modules if m.startswith('opwright_'))\n"


@pytest.fixture
def full_site(site):
    """A site with 400 distributions, on which a first process has run discovery."""
    for i in range(100):
        site.add(f"p{i}", MANY)
    for i in range(300):
        (site.folder / f"thing{i}-1.0.dist-info").mkdir()
    code = "import opwright\nopwright.list_ops()" + IMPORTED + "answer = len(imported)"
    assert site.json(code) == 200  # the first process imports every hook module
    return site


def test_only_needed_modules_are_imported(full_site):
    listed = full_site.json(
        "import opwright\ntypes = opwright.list_ops()" + IMPORTED + "answer = len(types), imported"
    )
    assert listed == [2000, []]
    called = full_site.json(
        "import numpy, opwright\nopwright.ops.p7.swish(numpy.ones(3))"
        + IMPORTED
        + "answer = imported"
    )
    assert called == ["opwright_p7", "opwright_p7.swish"]


def test_later_scans_open_each_file_once_and_do_not_use_importlib(full_site):
    answer = full_site.json("""
    import sys
    import opwright.context.context
    opened = []
    sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
    opwright.context.context.current_context()
    metadata = [path for path in opened if str(path).endswith("entry_points.txt")]
    loaded = [name for name in ("pluggy", "importlib.metadata", "pathlib") if name in sys.modules]
    answer = [len(metadata), len(opened) - len(metadata), loaded]
    """)
    # The core and opwright-kit are also installed; the metadata of the core is read to identify its
    # files.
    assert answer == [402, 2, []]
