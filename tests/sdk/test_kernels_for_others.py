"""C++ kernels for operators of another package declare the slots and attributes they read."""

from __future__ import annotations

import numpy as np
import pytest
from abi_tables import ERROR
from plugin_host import FailedError, Library, Step

ATTRS = {"factor": 0.5, "unread": "x", "sizes": [1, 2, 2]}


@pytest.fixture(scope="module")
def others(compiler):
    return Library(compiler.build("others.cc"))


def run(library, type, attrs):
    out = np.zeros(1, np.float32)
    step = Step(library, library.kernel(type, "float32"), [np.float32([8])], [out], attrs)
    step.run()
    step.close()
    return out[0]


def test_a_library_can_have_kernels_without_operators(others):
    assert (others.code, others.logged, list(others.ops)) == (0, [], [])
    kernels = [(kernel.op_type, kernel.n_dtypes) for kernel in others.kernels]
    assert kernels == [(b"other.scale", 1), (b"other.scale", 1), (b"other.plain_grad", 0)]


def test_attributes_reach_the_fields_with_their_names(others):
    assert run(others, "other.scale", ATTRS) == 8 * 0.5 + 3


def test_an_optional_field_receives_its_value(others):
    assert run(others, "other.scale", ATTRS | {"shift": 100}) == 8 * 0.5 + 3 + 100


def test_a_kernel_that_does_not_read_attributes_accepts_all_values(others):
    assert run(others, "other.plain_grad", ATTRS) == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("factor", None, "attribute 'factor' must be given, got none"),
        ("factor", 1, "attribute 'factor' must be float, got int"),
        (
            "sizes",
            [2**40],
            "attribute 'sizes' must fit the 32 bits of its field, got 1099511627776",
        ),
        ("shift", 0.5, "attribute 'shift' must be int, got float"),
    ],
)
def test_an_attribute_that_does_not_match_its_field_raises(others, name, value, message):
    attrs = {key: item for key, item in (ATTRS | {name: value}).items() if item is not None}
    with pytest.raises(FailedError) as caught:
        run(others, "other.scale", attrs)
    assert (caught.value.code, caught.value.message) == (ERROR, message)


UNNAMED = """
#include <opwright/sdk.hpp>
struct Attrs {{
  double factor;
  {names}
}};
template <typename T>
struct Kernel {{
  static opwright::Status Run(const opwright::RunContext&{attrs}) {{
    return opwright::Status::Ok();
  }}
}};
OPWRIGHT_REGISTER_KERNEL_FOR("other.scale", "cpu", Kernel, float);
OPWRIGHT_PLUGIN("test");
"""


@pytest.mark.parametrize(
    ("names", "attrs", "message"),
    [
        ("", ", const Attrs&", "must declare the attributes it reads: a struct with OPWRIGHT_ATT"),
        ("OPWRIGHT_ATTRIBUTES(factor);", "", "takes a context and const Attributes&"),
    ],
)
def test_a_kernel_that_does_not_name_its_inputs_does_not_compile(
    compiler, tmp_path, names, attrs, message
):
    file = tmp_path / "unnamed.cc"
    file.write_text(UNNAMED.format(names=names, attrs=attrs), encoding="utf-8")
    with pytest.raises(AssertionError, match=message):
        compiler.check(file)
