"""The reference of the Python modules, made from the docstrings of their public names."""

from __future__ import annotations

import importlib
import inspect
from typing import Final

from markup import table, toctree
from sphinx.pycode import ModuleAnalyzer

MODULES: Final = {
    "opwright": "Programs, networks, scopes; what most people need.",
    "opwright.op": "To describe an operator.",
    "opwright.plugin": "The hooks of plugins.",
    "opwright.kernel": "Kernels: their keys, what `prepare` is given, and why one was chosen.",
    "opwright.device": "Devices: what one must provide, and how arrays reach it.",
    "opwright.rewriting": "To write a pass.",
    "opwright.commands": "To add a command to `opwright`.",
    "opwright.child": "To run something that may crash in a process of its own.",
    "opwright.foreign": "To show text and exceptions of other packages.",
    "opwright.runtime": "The C++ runtime's types, for tools that build a plan themselves.",
    "opwright.vocabulary": "Operator types and names that the core itself uses.",
    "opwright.errors": "Every error that opwright raises on purpose.",
    "opwright_kit": "For authors: check, draw, measure.",
    "opwright_kit.testing": "To prove a plugin right.",
    "opwright_kit.profiling": "What each step of a plan takes.",
    "opwright_kit.drawing": "Networks as pages.",
    "opwright_nn": "Models, layers, optimizers.",
    "opwright_nn.layers": "Layers, which append operators to the current program.",
    "opwright_nn.initializer": "First values of parameters.",
    "opwright_nn.optimizer": "Optimizers.",
    "opwright_nn.regularizer": "Penalties on parameters.",
    "opwright_nn.clip": "Limits for gradients.",
    "opwright_nn.metrics": "Measures of predictions.",
    "opwright_nn.datasets": "Data sets, and readers of files.",
    "opwright_nn.datasets.augment": "Images that are changed at random.",
    "opwright_nn.schedule": "Learning rates that change from step to step.",
    "opwright_nn.checkpoint": "Training checkpoints, and weights from other frameworks.",
    "opwright_dist": "Several processes: groups, collectives, data-parallel training.",
    "opwright_ray": "Training on a Ray cluster.",
}
"""Every public module and its purpose."""

LONGEST_VALUE: Final = 70
"""The maximum length, in characters, of a constant's value that is shown."""


def make_pages() -> dict[str, str]:
    """Return the pages by their path in the site."""
    seen: set[int] = set()
    pages = {f"python/{name}.rst": make_page(name, about, seen) for name, about in MODULES.items()}
    rows = [(f"[`{name}`]({name}.rst)", about) for name, about in MODULES.items()]
    parts = [
        "# Python modules",
        "Names that are not listed here are private.",
        table(("module", "what it is for"), rows),
        toctree(MODULES),
    ]
    return {**pages, "python/index.md": "\n\n".join(parts) + "\n"}


def public_names(module_name: str) -> list[str]:
    """Return the public names of a module: its ``__all__``, or its classes and functions."""
    module = importlib.import_module(module_name)
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("__")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name
    ]


def make_page(module_name: str, about: str, documented: set[int]) -> str:
    """Return the page of one module, as reStructuredText.

    If several modules make an object public, it is indexed only once: `documented` contains the
    ids of objects that are already indexed.
    """
    module = importlib.import_module(module_name)
    lines = [module_name, "=" * len(module_name), "", about.replace("`", "``"), ""]
    lines += [f".. py:module:: {module_name}", ""]
    comments = ModuleAnalyzer.for_module(module_name).find_attr_docs()
    for name in public_names(module_name):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue  # it has its own page, or is a name space of operators
        if inspect.isclass(value) or inspect.isroutine(value):
            lines += _document(f"{module_name}.{name}", value, documented)
        else:
            lines += _document_constant(name, value, comments.get(("", name), []))
    return "\n".join(lines) + "\n"


def _document(path: str, value: object, documented: set[int]) -> list[str]:
    """Return the directive for a class or function."""
    is_class = inspect.isclass(value)
    options = ["   :members:"] if is_class else []
    if id(value) in documented:
        options.append("   :no-index:")
    documented.add(id(value))
    return [f".. {'autoclass' if is_class else 'autofunction'}:: {path}", *options, ""]


def _document_constant(name: str, value: object, comment: list[str]) -> list[str]:
    """Return the directive for a constant, with the text below it in the module."""
    text = repr(value)
    shown = [f"   :value: {text}"] if len(text) <= LONGEST_VALUE and "object at" not in text else []
    return [f".. py:data:: {name}", *shown, "", *(f"   {line}" for line in comment), ""]
