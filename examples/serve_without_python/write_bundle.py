"""Train on handwritten digits, and write the inputs of serve.c and serve.rs.

``write_bundle.py FOLDER`` writes two files. ``digits.owb`` is the bundle, and ``rows.txt`` contains
five held-out images, one per line. The script prints the expected output of the programs, which is
the class of each image and its probability.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import opwright as ow
import opwright_nn as nn

folder = Path(sys.argv[1])

model = nn.Model()
hidden = model.fc_layer(input="img", size=100, activation="relu")
prob = model.fc_layer(input=hidden, size=10, activation="softmax")
model.backward(model.mean(input=model.cross_entropy(input=prob, label="label")))
model.sgd(learning_rate=0.5)
model.initialize_parameters(seed=1)
train, test = nn.datasets.digits.load(seed=1)
for images, labels in nn.batches(train, size=64, epochs=5, seed=1):
    model.fill("img", images)
    model.fill("label", labels)
    model.run()
model.export(folder / "digits", prob)

loaded = ow.load(folder / "digits")
loaded.bundle(folder / "digits.owb", {"img": [None, 64]}, batch=(1, 16))
images = test.images[:5]
np.savetxt(folder / "rows.txt", images, fmt="%.9g")
for row in loaded(images)[0]:
    print(row.argmax(), f"{row.max():.9g}")
