"""Runs PyTorch modules: reads requests from stdin, and writes their outputs and gradients.

A request is a pickled dict: ``module``, an expression; ``state``, arrays by name; ``inputs``, a
list of arrays; ``call``, an expression of ``module`` and ``inputs`` that returns tensors; ``loss``,
whether the gradients of ``sum(output * cos(index))`` are requested.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import (  # noqa: F401 - for expressions
    pack_padded_sequence,
    pad_packed_sequence,
)


def tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a leaf tensor; float leaves require a gradient."""
    value = torch.from_numpy(np.array(array))
    return value.requires_grad_() if value.is_floating_point() else value


def weighted(outputs: list[torch.Tensor]) -> torch.Tensor:
    """Return a loss that weights each element of each output differently."""
    parts = [
        (out * torch.cos(torch.arange(out.numel()).reshape(out.shape))).sum() for out in outputs
    ]
    return torch.stack(parts).sum()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return outputs, and the gradients of inputs and state."""
    names = {**globals(), "torch": torch, "nn": nn, "F": F}
    module = eval(request["module"], names)
    if request["state"]:
        state = {name: torch.from_numpy(np.array(a)) for name, a in request["state"].items()}
        module.load_state_dict(state, strict=False)
    inputs = [tensor(array) for array in request["inputs"]]
    result = eval(request["call"], {**names, "module": module, "inputs": inputs})
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    weighted(outputs).backward()
    parameters = module.named_parameters() if request["state"] else []
    return {
        "outputs": [out.detach().numpy() for out in outputs],
        "gradients": [t.grad.numpy() for t in inputs if t.grad is not None],
        "state": {name: p.grad.numpy() for name, p in parameters if p.grad is not None},
    }


def main() -> None:
    """Answer requests until the input ends."""
    torch.set_default_dtype(torch.float64)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(request), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
