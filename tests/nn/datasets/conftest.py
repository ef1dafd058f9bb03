"""Functions that workers can import, and files that they read."""

from __future__ import annotations

import sys

import pytest

FUNCTIONS = """
import os, signal, threading
import numpy as np

def decode(path):
    number = int(path.read_text())
    return np.full((3,), number, np.float32), np.array([number])

def named(number):
    if number == 7:
        raise ValueError("seven")
    return {"x": np.float32(number)}

def ragged(number):
    return np.zeros(number)

def stuck(number):
    if number == 2:
        threading.Event().wait()
    return np.float32(number)

def forgets(number):
    number + 1

def half(number):
    return np.float32(number), None

def listing(number):
    return [[1], [1, 2]]

def anything(number):
    return object()

def nothing(number):
    return ()

def drawn(number, rng):
    return np.array([number]), rng.random(2)

class Squares:
    def __len__(self):
        return 9

    def __getitem__(self, number):
        if number == 8:
            raise ValueError("eight")
        return np.float32(number**2), np.array(number)

def mixed(batch, rng):
    return (*batch, rng.random(1))

def killed(number):
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.float32(number)
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    (tmp_path / "functions_of_loading.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    import functions_of_loading

    yield functions_of_loading
    del sys.modules["functions_of_loading"]


@pytest.fixture
def paths(tmp_path):
    files = [tmp_path / f"{i}.txt" for i in range(10)]
    for i, path in enumerate(files):
        path.write_text(str(i))
    return files
