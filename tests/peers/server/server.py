"""The peer process, which runs a program in PyTorch or NumPy for each request.

It reads pickled requests from stdin and writes pickled answers, each after its length in 8 bytes.
A request names the ``peer``, the ``operators`` of a program (see `run`), arrays to ``feed``, names
to ``fetch``, and, for gradients, ``weights`` of a loss and the names that are ``wanted``. For
second gradients, ``again`` has weights of the first gradients, and the loss squares the outputs.
The answer has ``outputs`` and ``gradients`` by name, or names what the peer ``lacks``, or has the
traceback under ``failed``. A request with only ``types`` queries the operators of a peer.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy_operators
import torch
import torch_operators
from binding import bind
from torch_operators import NotExpressibleError

TABLES = {"torch": torch_operators.OPERATORS, "numpy": numpy_operators.OPERATORS}
LACKING = ("not implemented for", "not supported for", "does not support", "only supports")


def call(peer: str, operator: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the results of one operator, slot by slot.

    Parameters
    ----------
    peer : str
    operator : mapping
        ``type``; ``inputs``, slot to a name or to a list of them; ``attrs``, all of them;
        ``defaults`` of the optional ones.
    values : mapping
        By name.
    """
    function = TABLES[peer].get(operator["type"])
    if function is None:
        raise NotExpressibleError(f"{operator['type']} is not in the table of {peer}")
    inputs = {
        slot: values[names] if isinstance(names, str) else [values[name] for name in names]
        for slot, names in operator["inputs"].items()
    }
    n_outputs = len(operator["outputs"][0])
    arguments = bind(function, inputs, operator["attrs"], operator["defaults"], n_outputs)
    result = function(**arguments)
    return result if isinstance(result, tuple) else (result,)


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a program; the ``outputs`` of its operators are lists of names, slot by slot."""
    values: dict[str, Any] = dict(request["feed"])
    if request["peer"] == "torch":
        # Arrays are copied, since some unpickled arrays are read-only.
        values = {name: torch.from_numpy(array.copy()) for name, array in values.items()}
    for name in request["wanted"]:
        values[name].requires_grad_()
    computed: set[str] = set()
    for operator in request["operators"]:
        results = call(request["peer"], operator, values)
        for names, result in zip(operator["outputs"], results, strict=False):
            listed = result if isinstance(result, list) else [result]
            if result is not None:
                values.update(zip(names, listed, strict=True))
                computed.update(names)
    outputs = {name: _array(values[name]) for name in request["fetch"] if name in computed}
    return {"outputs": outputs, "gradients": _gradients(request, values)}


def _gradients(request: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    if not request["wanted"]:
        return {}
    weights = {name: torch.from_numpy(array) for name, array in request["weights"].items()}
    missing = [name for name in weights if name not in values]
    if missing:
        raise NotExpressibleError(f"the outputs {missing} are not compared")
    power = 2 if request["again"] else 1
    loss = sum(torch.sum(values[name] ** power * weight) for name, weight in weights.items())
    found = _differentiate(request, values, loss, bool(request["again"]))
    if request["again"]:
        again = {name: torch.from_numpy(array) for name, array in request["again"].items()}
        total = sum(torch.sum(found[name] * weight) for name, weight in again.items())
        found = _differentiate(request, values, total, False)
    return {name: _array(gradient) for name, gradient in found.items()}


def _differentiate(
    request: Mapping[str, Any], values: Mapping[str, Any], loss: Any, again: bool
) -> dict[str, Any]:
    wanted = [values[name] for name in request["wanted"]]
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        zeros = [torch.zeros(value.shape, dtype=torch.float64) for value in wanted]
        return dict(zip(request["wanted"], zeros, strict=True))
    try:
        gradients = torch.autograd.grad(
            loss, wanted, allow_unused=True, materialize_grads=True, create_graph=again
        )
    except RuntimeError as error:
        raise NotExpressibleError(f"PyTorch fails to differentiate: {error}") from error
    return dict(zip(request["wanted"], gradients, strict=True))


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    is_narrow = value.is_floating_point() and value.dtype.itemsize < 4
    return (value.double() if is_narrow else value).detach().numpy()


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a request, or its error."""
    if "types" in request:
        return {"types": sorted(TABLES[request["types"]])}
    try:
        with np.errstate(all="ignore"):
            return run(request)
    except NotExpressibleError as error:
        return {"lacks": str(error)}
    except NotImplementedError as error:
        return {"lacks": str(error).splitlines()[0]}
    except Exception as error:  # noqa: BLE001 - reported to the test
        is_empty = any(array.size == 0 for array in request["feed"].values())
        if is_empty or any(words in str(error) for words in LACKING):
            return {"lacks": str(error).splitlines()[0]}
        return {"failed": traceback.format_exc()}


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while len(header := requests.read(8)) == 8:
        request = pickle.loads(requests.read(int.from_bytes(header, "little")))
        data = pickle.dumps(answer(request))
        answers.write(len(data).to_bytes(8, "little") + data)
        answers.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Output of libraries must not be mixed with the answers.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, stdout)
