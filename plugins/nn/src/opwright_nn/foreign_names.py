"""Names of classes and methods in Keras and PyTorch, for which errors suggest our names.

These names cannot be used; the error for such a name suggests the right name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

import opwright as ow
from opwright.plugin import find_nearest

_FOLDER_OF_PARAMETERS: Final = "model.save(folder), and model.load_parameter(folder) to load it"

METHODS: Final[Mapping[str, str]] = {
    "binary_cross_entropy": "model.sigmoid_cross_entropy_with_logits(scores, 'label')",
    "compile": "model.minimize(loss, nn.optimizer.Adam(1e-3))",
    "cuda": "nn.Model(device='cuda')",
    "dense": "model.fc_layer(x, 64)",
    "eval": "model.predict(scores, x=x), which computes without dropout",
    "evaluate": "nn.train(..., validation=test), or model.predict(scores, x=x) and nn.metrics",
    "fc": "model.fc_layer(x, 64)",
    "fit": "nn.train(model, (x, y), epochs=10)",
    "forward": "model.predict(scores, x=x)",
    "global_avg_pool2d": "model.flatten(model.adaptive_avg_pool2d(x, 1))",
    "global_max_pool2d": "model.flatten(model.adaptive_max_pool2d(x, 1))",
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
"""Method or attribute of a model to the suggestion."""

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
    "load_model": "ow.load(folder)",
    "losses": "model.mse, model.softmax_with_cross_entropy and so on",
    "lr_find": "nn.find_learning_rate(model, (x, y))",
    "lr_finder": "nn.find_learning_rate(model, (x, y))",
    "lrfinder": "nn.find_learning_rate(model, (x, y))",
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
    "terminateonnan": "nn.NanWatch()",
}
"""Name in the package, in lower case, to the suggestion."""


LAYERS: Final[Mapping[str, str]] = {
    name: answer.replace("model.fc_layer", "layers.fc").replace("model.", "layers.")
    for name, answer in {
        **NAMES,
        "binary_cross_entropy": METHODS["binary_cross_entropy"],
        "global_avg_pool2d": METHODS["global_avg_pool2d"],
        "global_max_pool2d": METHODS["global_max_pool2d"],
    }.items()
    if answer.startswith("model.") and name not in ("input", "plot_model")
} | {"input": "layers.data('x', [None, 8])"}
"""Name in `opwright_nn.layers`, in lower case, to the suggestion."""

CLIPS: Final[Mapping[str, str]] = {
    "clip_grad_norm_": "nn.clip.ClipByGlobalNorm(1.0)",
    "clip_grad_value_": "nn.clip.ClipByValue(1.0)",
    "global_clipnorm": "nn.clip.ClipByGlobalNorm(1.0)",
}
"""Name in `opwright_nn.clip` to the suggestion."""

DATASETS: Final[Mapping[str, str]] = {
    "cifar10": "nn.datasets.cifar.read(paths, 'cifar10')",
    "columntransformer": "nn.datasets.TableEncoder(target='y')",
    "dataloader": "nn.batches((x, y), 64), or nn.load_batches for files",
    "fashion_mnist": "nn.datasets.idx.read(path)",
    "imagefolder": "nn.datasets.image_folder.read(folder, size)",
    "imdb": "nn.datasets.sentences.opinions(1000)",
    "load_digits": "nn.datasets.digits.load()",
    "labelencoder": "nn.datasets.TableEncoder(target='y')",
    "mnist": "nn.datasets.digits.load(), or nn.datasets.idx.read(path)",
    "randaugment": "nn.datasets.augment.color_jitter(images, rng, brightness=0.2) and so on",
    "transforms": "nn.datasets.augment",
    "onehotencoder": "nn.datasets.TableEncoder(target='y')",
    "standardscaler": "nn.datasets.TableEncoder(target='y')",
    "tensordataset": "nn.batches((x, y), 64)",
}
"""Name in `opwright_nn.datasets`, in lower case, to the suggestion."""

AUGMENTATIONS: Final[Mapping[str, str]] = {
    "colorjitter": "augment.color_jitter(images, rng, brightness=0.2)",
    "crop": "images[..., top:bottom, left:right]",
    "flip": "augment.random_horizontal_flip(images, rng), or images[..., ::-1]",
    "horizontal_flip": "images[..., ::-1], or augment.random_horizontal_flip(images, rng)",
    "randomcrop": "augment.random_crop(images, rng, 32, padding=4)",
    "randomerasing": "augment.cutout(images, rng, 8)",
    "randomflip": "augment.random_horizontal_flip(images, rng)",
    "randomhorizontalflip": "augment.random_horizontal_flip(images, rng)",
    "randomresizedcrop": "augment.random_resized_crop(images, rng, 224)",
    "randomrotation": "augment.random_rotation(images, rng, 15)",
    "randomverticalflip": "augment.random_vertical_flip(images, rng)",
    "vertical_flip": "images[..., ::-1, :], or augment.random_vertical_flip(images, rng)",
}
"""Name in `opwright_nn.datasets.augment`, in lower case, to the suggestion."""

INITIALIZERS: Final[Mapping[str, str]] = {
    "glorotnormal": "nn.initializer.Xavier(uniform=False)",
    "glorotuniform": "nn.initializer.Xavier()",
    "henormal": "nn.initializer.Kaiming(uniform=False)",
    "heuniform": "nn.initializer.Kaiming()",
    "kaiming_normal_": "nn.initializer.Kaiming(uniform=False)",
    "kaiming_uniform_": "nn.initializer.Kaiming()",
    "ones": "nn.initializer.Constant(1.0)",
    "randomnormal": "nn.initializer.Normal()",
    "randomuniform": "nn.initializer.Uniform()",
    "xavier_normal_": "nn.initializer.Xavier(uniform=False)",
    "xavier_uniform_": "nn.initializer.Xavier()",
    "zeros": "nn.initializer.Constant(0.0)",
}
"""Name in `opwright_nn.initializer`, in lower case, to the suggestion."""

METRICS: Final[Mapping[str, str]] = {
    "auroc": "nn.metrics.AUC(scores, 'label')",
    "average_precision_score": "nn.metrics.AveragePrecision(scores, 'label')",
    "binaryaccuracy": "nn.metrics.Accuracy(scores, 'label')",
    "categoricalaccuracy": "nn.metrics.Accuracy(scores, 'label')",
    "classification_report": "print(nn.metrics.ConfusionMatrix(scores, 'label'))",
    "confusion_matrix": "nn.metrics.ConfusionMatrix(scores, 'label')",
    "f1_score": "nn.metrics.F1(scores, 'label')",
    "f1score": "nn.metrics.F1(scores, 'label')",
    "mae": "nn.metrics.MAE(out, 'y')",
    "meanabsoluteerror": "nn.metrics.MAE(out, 'y')",
    "meansquarederror": "nn.metrics.MSE(out, 'y')",
    "mse": "nn.metrics.MSE(out, 'y')",
    "r2score": "nn.metrics.R2(out, 'y')",
    "roc_auc_score": "nn.metrics.AUC(scores, 'label')",
    "rootmeansquarederror": "nn.metrics.RMSE(out, 'y')",
    "sparsecategoricalaccuracy": "nn.metrics.Accuracy(scores, 'label')",
    "topkcategoricalaccuracy": "nn.metrics.Accuracy(scores, 'label', k=5)",
}
"""Name in `opwright_nn.metrics`, in lower case, to the suggestion."""

OPTIMIZER_ARGUMENTS: Final[Mapping[str, str]] = {
    "weight_decay": (
        "write nn.optimizer.AdamW(weight_decay=0.01), or regularizer=nn.regularizer.L2(0.01), "
        "which adds it to the gradient"
    ),
}
"""Arguments that optimizers lack, with their replacements."""

SCHEDULES: Final[Mapping[str, str]] = {
    "cosineannealinglr": "nn.schedule.cosine(1e-3, steps=1000)",
    "cosinedecay": "nn.schedule.cosine(1e-3, steps=1000)",
    "exponential": "nn.Schedule(lambda t: 0.1 * 0.99**t)",
    "exponentialdecay": "nn.Schedule(lambda t: 0.1 * 0.99**t)",
    "exponentiallr": "nn.Schedule(lambda t: 0.1 * 0.99**t)",
    "lambdalr": "nn.Schedule(lambda t: 0.1 / (1 + 0.01 * t))",
    "onecyclelr": "nn.schedule.one_cycle(0.1, steps=1000)",
    "plateau": "nn.Plateau()",
    "reducelronplateau": "nn.Plateau()",
    "steplr": "nn.schedule.step(0.1, size=1000, gamma=0.1)",
}
"""Name in `opwright_nn.schedule`, in lower case, to the suggestion."""


def answering(
    module: str,
    known: Sequence[str],
    foreign: Mapping[str, str] | None = None,
    *,
    has_operators: bool = False,
) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """Return a module's ``__getattr__``, which suggests our names, and its ``__dir__``.

    Parameters
    ----------
    module : str
        The module's name.
    known : sequence of str
        The public names of the module.
    foreign : mapping of str to str, optional
        Names of other frameworks, in lower case, to the suggestions.
    has_operators : bool
        Whether `opwright.ops` is suggested for the name of an operator.
    """

    def find(name: str) -> NoReturn:
        answer = (foreign or {}).get(name.lower())
        if answer is None and has_operators:
            answer = find_operator(name)
        raise AttributeError(describe_missing(module, name, answer, known))

    return find, lambda: sorted(known)


def find_operator(name: str) -> str | None:
    """Return the suggestion for an operator name, or None if no operator has this name."""
    if name.startswith("_") or name not in ow.list_ops():
        return None
    return f"ow.ops.{name}(x), which takes variables and arrays"


def describe_missing(who: str, name: str, foreign: str | None, known: Iterable[str]) -> str:
    """Return the message for an attribute that does not exist.

    Parameters
    ----------
    who : str
        The class or module.
    name : str
        The attribute.
    foreign : str, optional
        The suggestion for another framework's name.
    known : iterable of str
        The existing attributes.
    """
    start = f"{who}: there must be an attribute of that name, got {name!r}"
    if foreign is not None:
        return f"{start}; write {foreign}"
    nearest = None if name.startswith("_") else find_nearest(name, known)
    return start if nearest is None else f"{start}; did you mean {nearest!r}?"
