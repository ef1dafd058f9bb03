"""The string representation of a program is readable."""

from __future__ import annotations

from opwright import Program


def build():
    program = Program()
    block = program.global_block()
    block.create_var("x", [None, 64], is_data=True)
    block.create_parameter("fc_0_w_param", [64, 10])
    block.create_parameter("table", [3], trainable=False)
    block.append_op("matmul", {"x": "x", "y": "fc_0_w_param"}, {"out": "h"})
    block.append_op("dropout", {"x": "h"}, {"out": "d"}, {"probability": 0.25})
    block.append_op("scale", {"x": "d"}, {"out": "s"})
    block.append_op("cast", {"x": "s"}, {"out": "t"}, {"dtype": "float64"})
    return program


def test_a_program_is_printed_as_calls_with_types_in_one_column():
    assert (
        str(build())
        == """\
block 0:
  data  x            float32[?, 64]
  param fc_0_w_param float32[64, 10]
  param table        float32[3]      not trainable
  state @step        int64[1]

  h = matmul(x, fc_0_w_param)               -> float32[?, 10]
  d, d/mask = dropout(h, probability=0.25)  -> float32[?, 10]
  s = scale(d)                              -> float32[?, 10]
  t = cast(s, dtype="float64")              -> float64[?, 10]"""
    )


def test_lists_are_printed_in_brackets_and_absent_outputs_as_an_underscore():
    program = build()
    block = program.global_block()
    block.append_op("split", {"x": "table"}, {"out": ["a", "b", "c"]})
    block.append_op("add_n", {"x": ["a", "b"]}, {"out": "n"})
    grads = {"y_grad": "w_grad"}
    inputs = {"x": "x", "y": "fc_0_w_param", "out_grad": "h"}
    block.append_op("matmul_grad", inputs, grads)
    assert [repr(op) for op in block.ops[-3:]] == [
        "[a, b, c] = split(table)",
        "n = add_n([a, b])",
        "_, w_grad = matmul_grad(x, fc_0_w_param, out_grad=h)",
    ]


def test_inner_blocks_are_printed_with_the_operator_that_owns_them():
    program = build()
    block = program.global_block()
    block.create_var("c", [1], "bool", is_data=True, stop_gradient=True)
    yes, no = program.create_block(0), program.create_block(0)
    names = {"true_outputs": ["h"], "false_outputs": ["d"]}
    attrs = {"true_block": yes, "false_block": no, **names}
    block.append_op("cond", {"condition": "c"}, {"out": ["z"]}, attrs)
    text = str(program)
    assert "  data  c            bool[1]         no gradient\n" in text
    assert (
        "[z] = cond(c, x=[h, d], true_block=block 1, false_block=block 2, "
        'true_outputs=["h"], false_outputs=["d"])  -> float32[?, 10]' in text
    )
    assert "\n\nblock 1, true_block of cond in block 0:\n  (empty)\n\nblock 2, false_block" in text
    assert str(yes) == "block 1:\n  (empty)"


def test_an_unknown_rank_is_printed_as_an_ellipsis():
    block = Program().global_block()
    block.create_var("img")
    block.append_op("relu", {"x": "img"}, {"out": "y"})
    assert str(block) == "block 0:\n  var img float32[...]\n\n  y = relu(img)  -> float32[...]"


def test_control_characters_in_names_are_escaped():
    program = Program()
    block = program.global_block()
    block.create_var("a\x1b[2J\nb\u202ec", [2], is_data=True)
    block.append_op("scale", {"x": "a\x1b[2J\nb\u202ec"}, {"out": "\x00"})
    text = str(program)
    assert "data a\\x1b[2J\\nb\\u202ec float32[2]" in text
    assert "\\x00 = scale(a\\x1b[2J\\nb\\u202ec)" in text
    assert all(line.isprintable() for line in text.splitlines())
