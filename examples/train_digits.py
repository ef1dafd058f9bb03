"""Train on handwritten digits, save the model, and get the same predictions in a new process.

``python train_digits.py [FOLDER]`` writes the model to FOLDER, by default ``model_dir``.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

import opwright as ow
import opwright_nn as nn

WANTED_ACCURACY = 0.95


def build() -> tuple[nn.Model, ow.Variable]:
    """Return a network with two hidden layers, and its probabilities."""
    model = nn.Model()
    hidden = model.fc_layer(input="img", size=200, bias=True, activation="sigmoid")
    hidden = model.fc_layer(input=hidden, size=200, bias=True, activation="sigmoid")
    return model, model.fc_layer(input=hidden, size=10, bias=True, activation="softmax")


def train(folder: Path) -> None:
    """Train, print the accuracy on held-out images, and save."""
    model, prob = build()
    loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
    model.backward(loss)
    model.momentum(learning_rate=0.1)
    model.initialize_parameters(seed=1)

    train, test = nn.datasets.digits.load(seed=1)
    print(f"{len(train.labels)} handwritten digits to learn from, {len(test.labels)} held out")
    losses = []
    for images, labels in nn.batches(train, size=64, epochs=20, seed=1, progress=True):
        model.fill("img", images)
        model.fill("label", labels)
        losses.append(model.run()[0].item())
    print(f"loss of the last batch: {losses[-1]:.4f}")

    predicted = model.predict(prob, img=test.images)
    accuracy = nn.metrics.accuracy(predicted, test.labels)
    print(f"accuracy on {len(test.labels)} held-out images: {accuracy:.3f}")
    if accuracy < WANTED_ACCURACY:
        raise SystemExit(f"train_digits: accuracy must be at least {WANTED_ACCURACY}")
    print(f"one training step:\n{textwrap.indent(str(model.network.placement()), '  ')}")
    model.save(folder)
    np.save(folder / "predicted.npy", predicted)
    print(f"saved to {folder}")


def predict(folder: Path) -> None:
    """Load the model that another process saved, and compare the predictions."""
    model, prob = build()
    model.load_parameter(folder)
    _, test = nn.datasets.digits.load(seed=1)
    predicted = model.predict(prob, img=test.images)
    if not np.array_equal(predicted, np.load(folder / "predicted.npy")):
        raise SystemExit("train_digits: the loaded model gives different predictions")
    print("a new process loads it and predicts the same")


def main() -> None:
    """Train here, then predict in a new process."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--predict"]:
        predict(Path(arguments[1]))
        return
    folder = Path(arguments[0] if arguments else "model_dir")
    train(folder)
    subprocess.run([sys.executable, __file__, "--predict", str(folder)], check=True)


if __name__ == "__main__":
    main()
