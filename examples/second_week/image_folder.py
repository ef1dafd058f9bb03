"""Train on a folder of images, decoded and augmented by two workers, and resume training."""

from pathlib import Path

import numpy as np
from PIL import Image

import opwright_nn as nn
from opwright_nn.datasets import augment, image_folder

SIZE = 16


def write_images(folder):
    """Write the digits into one folder per class, as in a downloaded data set."""
    for number, (image, label) in enumerate(zip(*nn.datasets.digits.load()[0], strict=True)):
        path = Path(folder, f"digit {label[0]}", f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image.reshape(8, 8) * 255).astype(np.uint8)).save(path)


def decode(item):
    path, label = item
    return image_folder.decode(path, SIZE, grayscale=True), label


def decode_and_augment(item, rng):
    image, label = decode(item)
    image = augment.random_rotation(image, rng, degrees=10)
    image = augment.random_crop(image, rng, SIZE, padding=2)
    return augment.color_jitter(image, rng, brightness=0.2, contrast=0.2), label


def train(items, held_out, classes, epochs):
    model = nn.Model()
    h = model.input("image", [None, 1, SIZE, SIZE])
    for filters in (16, 32):
        h = model.conv2d(h, filters=filters, kernel=3, paddings="same", activation="relu")
        h = model.max_pool2d(h, kernel=2)
    scores = model.fc_layer(model.flatten(h), size=len(classes))
    loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(2e-3))
    return nn.train(
        model,
        nn.load_batches(items, 32, map=decode_and_augment, workers=2, seed=1),
        epochs=epochs,
        validation=nn.load_batches(held_out, 64, map=decode, workers=2, shuffle=False),
        metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
        callbacks=[nn.Checkpoint("runs/digits")],
        resume="latest",
        progress=False,
    )


if __name__ == "__main__":
    write_images("images")
    paths, labels, classes = image_folder.find("images")
    items = list(zip(paths, labels, strict=True))
    order = np.random.default_rng(1).permutation(len(items))
    items = [items[i] for i in order]
    train(items[200:], items[:200], classes, epochs=2)  # as if it had been interrupted here
    history = train(items[200:], items[:200], classes, epochs=6)
    print("epochs:", len(history), "accuracy:", round(history["accuracy"][-1], 3))
