"""A program and a scope of plain arrays, imported by tests and by their child processes."""

from __future__ import annotations

import shutil

import numpy as np

from opwright import Program, load, save


class ArrayVariable:
    """A minimal scope variable, with only the members that `save` and `load` use."""

    def __init__(self):
        self.array = None

    @property
    def is_set(self):
        return self.array is not None

    def set(self, array):
        self.array = np.array(array)

    def numpy(self):
        return self.array.copy()


class ArrayScope:
    """A minimal scope, with only the members that `save` and `load` use."""

    def __init__(self, **arrays):
        self.vars = {}
        for name, array in arrays.items():
            self.var(name).set(array)

    def var(self, name):
        return self.vars.setdefault(name, ArrayVariable())

    def find_var(self, name):
        return self.vars.get(name)

    def set_all(self, arrays):
        for name, array in arrays.items():
            self.var(name).set(array)

    def arrays(self):
        return {name: variable.array for name, variable in self.vars.items()}


def build(width=3):
    """Return a program: out = dropout(x w), with an unread counter."""
    program = Program(seed=4)
    block = program.global_block()
    block.create_var("x", [None, 4], is_data=True)
    block.create_parameter("w", [4, width])
    block.create_var("count", [], "int64", persistable=True)
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("dropout", {"x": "h"}, {"out": "out"})
    return program


def filled(value, width=3):
    """Return a scope for `build` whose arrays are filled with `value`."""
    w = np.full((4, width), value, np.float32)
    return ArrayScope(**{"w": w, "count": np.int64(value), "@step": np.array([value])})


def save_pair(folder, program, scope, **options):
    """Save, and leave only the two files in the folder, as if a user had copied them."""
    save(folder / "whole", program, scope, **options)
    for name in ("program.pb", "params.safetensors"):
        shutil.copyfile(folder / "whole" / name, folder / name)
    shutil.rmtree(folder / "whole")


def save_nothing(folder, program, scope):
    """Do not save, so the folder is unchanged."""


def load_value(folder):
    """Load a folder and return (width, value), after checking that no saves are mixed."""
    scope = ArrayScope()
    loaded = load(folder, scope)
    w = scope.arrays()["w"]
    assert loaded.program.global_block().var("w").shape == w.shape
    assert (w == w[0, 0]).all()
    assert scope.arrays()["count"] == scope.arrays()["@step"][0] == w[0, 0]
    return w.shape[1], int(w[0, 0])
