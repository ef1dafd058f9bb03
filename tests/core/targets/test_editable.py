"""Libraries are found in the package, or in the build folder of an editable install."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import opwright as ow
from opwright.packages import Package
from opwright.targets.opening import find_library_file


def test_the_library_of_an_editable_install_is_found_in_its_build_folder(
    acme, plain_library, tmp_path
):
    """The source folder is on sys.path; only the RECORD file lists the library."""
    acme.install(None)
    source = tmp_path / "source"
    shutil.move(acme.site / "opwright_acme", source / "opwright_acme")
    built = acme.site / "opwright_acme" / "libacme.so"
    built.parent.mkdir()
    shutil.copy(plain_library, built)
    record = acme.site / "opwright_acme-1.0.dist-info" / "RECORD"
    record.write_text("opwright_acme/libacme.so,,\nopwright_acme-1.0.dist-info/METADATA,,\n")
    text = acme.python(
        f"sys.path.insert(0, {str(source)!r})\n"
        "import numpy, opwright\n"
        "print(opwright.ops.acme.scale(numpy.ones(2)))"
    )
    assert text.strip() == "[2. 2.]"


def test_a_missing_distribution_has_no_library():
    package = Package("ghost", "opwright-ghost", "1.0")
    assert find_library_file("opwright_ghost/libghost.so", package) is None


@pytest.mark.parametrize("name", ["libacme.so", "native/lib/libacme-2.1.so"])
def test_a_library_can_be_in_a_subfolder_of_the_package(acme, plain_library, table, name):
    path = acme.install(plain_library, table.replace("libacme.so", name))
    target = path.parent / name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    text = acme.python("import numpy, opwright\nprint(opwright.ops.acme.scale(numpy.full(2, 4.0)))")
    np.testing.assert_array_equal(np.fromstring(text.strip(" []\n"), sep=" "), [8.0, 8.0])
    assert ow.__version__
