"""What Keras and PyTorch call classes and methods: an unknown name is answered with ours.

No name here can be used; they only make the error for one of them say what to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from opwright.plugin import find_nearest

_FOLDER_OF_PARAMETERS: Final = "model.save(folder), and model.load_parameter(folder) to load it"

METHODS: Final[Mapping[str, str]] = {
    "compile": "model.minimize(loss, nn.optimizer.Adam(1e-3))",
    "cuda": "nn.Model(device='cuda')",
    "dense": "model.fc_layer(x, 64)",
    "eval": "model.predict(scores, x=x), which computes without dropout",
    "evaluate": "nn.train(..., validation=test), or model.predict(scores, x=x) and nn.metrics",
    "fc": "model.fc_layer(x, 64)",
    "fit": "nn.train(model, (x, y), epochs=10)",
    "forward": "model.predict(scores, x=x)",
    "get_weights": "model.parameters, and model.scope for their values",
    "layers": "nn.summary(model).layers",
    "linear": "model.fc_layer(x, 64)",
    "load_state_dict": "model.load_parameter(folder)",
    "save_weights": _FOLDER_OF_PARAMETERS,
    "state_dict": _FOLDER_OF_PARAMETERS,
    "step": "model.run()",
    "summary": "nn.summary(model)",
    "to": "nn.Model(device='cuda')",
    "train": "nn.train(model, (x, y), epochs=10)",
    "trainable": "model.freeze('backbone_*')",
    "weights": "model.parameters",
}
"""Method or attribute of a model to what to write."""

NAMES: Final[Mapping[str, str]] = {
    "adam": "nn.optimizer.Adam(1e-3)",
    "adamw": "nn.optimizer.AdamW(1e-3)",
    "backupandrestore": 'nn.Checkpoint(folder), and resume="latest"',
    "batchnorm1d": "model.batch_norm(x)",
    "batchnorm2d": "model.batch_norm(x)",
    "batchnormalization": "model.batch_norm(x)",
    "bceloss": "model.sigmoid_cross_entropy_with_logits(scores, 'label')",
    "bcewithlogitsloss": "model.sigmoid_cross_entropy_with_logits(scores, 'label')",
    "callbacks": "nn.EarlyStopping, nn.Checkpoint and so on",
    "conv1d": "model.conv1d(x, 8, 3)",
    "conv2d": "model.conv2d(x, 8, 3)",
    "crossentropyloss": "model.softmax_with_cross_entropy(scores, 'label', reduction='mean')",
    "csvlogger": "nn.History.write_csv",
    "dataloader": "nn.batches((x, y), 64), or nn.load_batches for files",
    "dense": "model.fc_layer(x, 64)",
    "dropout": "model.dropout(x, 0.5)",
    "embedding": "model.embedding(x, size=[1000, 16])",
    "fit": "nn.train(model, (x, y), epochs=10)",
    "flatten": "model.flatten(x)",
    "functional": "nn.layers, or ow.ops for operators on arrays",
    "gru": "model.gru(x, 64)",
    "input": "model.input('x', [None, 8])",
    "layernorm": "model.layer_norm(x)",
    "layernormalization": "model.layer_norm(x)",
    "linear": "model.fc_layer(x, 64)",
    "load_model": "ow.load(folder, ow.Scope())",
    "losses": "model.mse, model.softmax_with_cross_entropy and so on",
    "lstm": "model.lstm(x, 64)",
    "maxpool2d": "model.max_pool2d(x, 2)",
    "maxpooling2d": "model.max_pool2d(x, 2)",
    "modelcheckpoint": "nn.Checkpoint(folder)",
    "module": "nn.Model()",
    "mseloss": "model.mse(out, 'y', reduction='mean')",
    "multiheadattention": "model.attention(x, heads=4)",
    "optim": "nn.optimizer",
    "optimizers": "nn.optimizer",
    "pad_sequences": "nn.datasets.pad(sequences)",
    "plot_model": "model.plot()",
    "reducelronplateau": "nn.Plateau()",
    "relu": "model.relu(x)",
    "sequential": "nn.Model()",
    "sgd": "nn.optimizer.SGD(0.1)",
}
"""Name in the package, in lower case, to what to write."""


def describe_missing(who: str, name: str, foreign: str | None, known: Iterable[str]) -> str:
    """Return the message for an attribute that there is not.

    Parameters
    ----------
    who : str
        The class or module.
    name : str
        The attribute.
    foreign : str, optional
        What to write in place of a name of another framework.
    known : iterable of str
        The attributes that there are.
    """
    start = f"{who}: there must be an attribute of that name, got {name!r}"
    if foreign is not None:
        return f"{start}; write {foreign}"
    nearest = None if name.startswith("_") else find_nearest(name, known)
    return start if nearest is None else f"{start}; did you mean {nearest!r}?"
