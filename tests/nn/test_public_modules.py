"""Laws of the public modules: `opwright_nn.initializer` and so on have all names of their rooms."""

from __future__ import annotations

import importlib
import inspect

import pytest


@pytest.mark.parametrize(
    ("public", "room"),
    [("clip", "optimizer"), ("initializer", "parameters"), ("regularizer", "parameters")],
)
def test_a_public_module_has_each_public_class_of_its_room(public, room):
    module = importlib.import_module(f"opwright_nn.{public}")
    source = importlib.import_module(f"opwright_nn.{room}.{public}")
    classes = [
        name
        for name, value in vars(source).items()
        if inspect.isclass(value) and value.__module__ == source.__name__ and name[0] != "_"
    ]
    assert sorted(classes) == sorted(module.__all__)
    assert all(getattr(module, name) is getattr(source, name) for name in classes)
