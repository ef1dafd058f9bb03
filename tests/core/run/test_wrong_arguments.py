"""Arguments of the wrong type raise at the call, with uniform messages."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FeedError,
    GradientError,
    OpwrightError,
)


@pytest.fixture
def program():
    """A program that doubles ``x`` into ``y``."""
    with ow.program_guard(ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[None, 2])
        y = x * 2.0
    return main, y


@pytest.fixture
def saved(program, tmp_path):
    """The folder to which the program was saved."""
    main, y = program
    ow.save(tmp_path / "model", main, ow.Scope(), [y])
    return tmp_path / "model"


def network(program):
    """Return a network of the program."""
    return ow.Network(program[0].global_block())


WRONG = [None, 3.7, True, [], {}, object(), b"x", np.zeros(2), np.array(3), int]


@pytest.mark.parametrize("device", WRONG, ids=repr)
def test_a_device_must_be_a_string(program, saved, device):
    rule = "device must be a string, got .*; write device='cpu', for example"
    with pytest.raises(AttributeTypeError, match=f"^Network.compile: {rule}"):
        network(program).compile(["x"], [program[1]], device=device)
    with pytest.raises(AttributeTypeError, match=f"^Network.run: {rule}"):
        network(program).run(device=device)
    with pytest.raises(AttributeTypeError, match=f"^explain: {rule}"):
        ow.explain("multiply", device=device)
    with pytest.raises(AttributeTypeError, match=rule):
        ow.load(saved, device=device)


@pytest.mark.parametrize("scope", ["scope", *WRONG[1:]], ids=repr)
def test_a_scope_must_be_a_scope_object(program, saved, scope):
    rule = r"scope must be a Scope, got .*; create one with opwright.Scope\(\)"
    with pytest.raises(AttributeTypeError, match=f"^Network.compile: {rule}"):
        network(program).compile(["x"], [program[1]], scope=scope)
    with pytest.raises(AttributeTypeError, match=f"^Network.run: {rule}"):
        network(program).run(scope)
    with pytest.raises(AttributeTypeError, match=f"^cut: {rule}"):
        ow.cut(program[0], ["x"], [program[1]], scope=scope)
    with pytest.raises(AttributeTypeError, match=f"^load: {rule}"):
        ow.load(saved, scope)


@pytest.mark.parametrize("names", [3.7, object(), b"x", np.array(3), [None], [["x"]]], ids=repr)
def test_names_must_be_variables_or_strings(program, saved, tmp_path, names):
    main, y = program
    rule = r"must be a list of variables or names, got .*; write \[prob, 'loss'\], for example"
    with pytest.raises(AttributeTypeError, match=f"^save: fetch {rule}"):
        ow.save(tmp_path / "other", main, ow.Scope(), names)
    with pytest.raises(AttributeTypeError, match=f"^load: fetch {rule}"):
        ow.load(saved, fetch=names)
    with pytest.raises(AttributeTypeError, match=f"^Program.prune: targets {rule}"):
        main.prune(names)
    with pytest.raises(AttributeTypeError, match=f"^append_backward: no_grad {rule}"):
        ow.append_backward(y, no_grad=names)
    with pytest.raises(FeedError, match=r"^Network.compile: fetch must (be a list|list)"):
        network(program).compile(["x"], names)


@pytest.mark.parametrize("targets", [None, 3, np.array(3), object()], ids=repr)
def test_targets_must_be_variables(targets):
    with pytest.raises(GradientError, match="append_backward: targets must be a Variable or a"):
        ow.append_backward(targets)


@pytest.mark.parametrize("flag", [None, 0, 1, "yes", np.zeros(2)], ids=repr)
def test_fetch_device_must_be_a_bool(program, flag):
    rule = "Network.compile: fetch_device must be True or False, got"
    with pytest.raises(AttributeTypeError, match=rule):
        network(program).compile(["x"], [program[1]], fetch_device=flag)


@pytest.mark.parametrize("path", ["", "a\0b"], ids=repr)
def test_an_empty_path_or_a_path_with_a_nul_is_refused(program, saved, path):
    main, y = program
    rule = "path must have at least one character and none that is NUL, got"
    with pytest.raises(AttributeValueError, match=f"^save: {rule}"):
        ow.save(path, main, ow.Scope(), [y])
    with pytest.raises(AttributeValueError, match=f"^load: {rule}"):
        ow.load(path)
    with pytest.raises(AttributeValueError, match=f"^bundle: {rule}"):
        ow.load(saved).bundle(path)


@pytest.mark.parametrize("path", [None, 3, 2**70, b"model"], ids=repr)
def test_a_path_must_be_a_string(saved, path):
    with pytest.raises(AttributeTypeError, match="^load: path must be a str or a path, got"):
        ow.load(path)
    rule = r"^bundle: path must be a str or a path, got .*; the file comes first: bundle\(file"
    with pytest.raises(AttributeTypeError, match=rule):
        ow.load(saved).bundle(path)


@pytest.mark.parametrize("feeds", [3, "x", [("x", 2)], np.zeros(2)], ids=repr)
def test_feeds_of_a_bundle_must_be_a_mapping(saved, tmp_path, feeds):
    with pytest.raises(AttributeTypeError, match="^bundle: feeds must map names to shapes, got"):
        ow.load(saved).bundle(tmp_path / "model.owb", feeds)


@pytest.mark.parametrize("value", [None, 3.7, [], np.zeros(2), int], ids=repr)
def test_the_explain_error_names_the_wrong_argument(value):
    with pytest.raises(AttributeTypeError, match="^explain: op_type must be a string, got"):
        ow.explain(value)
    if value is not None:
        with pytest.raises(AttributeTypeError, match="^explain: context must be a Context or None"):
            ow.explain("multiply", context=value)


@pytest.mark.parametrize("seed", [np.zeros(2), int, 1.0], ids=repr)
def test_a_seed_must_be_an_int(seed):
    with pytest.raises(AttributeTypeError, match="^program: seed must be an int, got"):
        ow.Program(seed)


@pytest.mark.parametrize("dtype", ["complex64", "longdouble", "U3", "M8[s]"])
def test_the_error_for_an_array_of_an_unsupported_dtype_states_the_dtype(program, dtype):
    call = network(program).compile(["x"], [program[1]])
    array = np.zeros((3, 2), dtype)
    rule = f"must be an array of bools, ints or floats, got dtype {array.dtype}; cast it to one of"
    for act in (lambda: call(array), lambda: ow.ops.multiply(array, array)):
        with pytest.raises(OpwrightError) as caught:
            act()
        assert rule in str(caught.value)


def test_a_bundle_can_have_a_file_name_that_is_not_valid_utf8(saved, tmp_path):
    path = tmp_path / "\udcff.owb"
    ow.load(saved).bundle(path, batch=(1, 4))
    x = np.ones((1, 2), "float32")
    np.testing.assert_array_equal(ow.load(path)(x)[0], 2 * x)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(OpwrightError, match=r"\.owb"):
        ow.load(path)
