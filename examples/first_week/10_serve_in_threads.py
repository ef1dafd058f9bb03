"""Save a network, load it without its code, and call it from several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import opwright as ow
import opwright_nn as nn

train, test = nn.datasets.digits.load()

model = nn.Model()
h = model.fc_layer("img", size=128, activation="relu")
prob = model.fc_layer(h, size=10, activation="softmax")
model.minimize(model.mean(model.cross_entropy(prob, "label")), nn.optimizer.Adam(0.01))
nn.train(model, train, epochs=5)
model.export("served", prob)

loaded = ow.load("served")


def answer(image):
    (prob,) = loaded(img=image[None])
    return prob.argmax()


with ThreadPoolExecutor(4) as pool:
    classes = list(pool.map(answer, test.images))
print("accuracy:", np.mean(np.array(classes) == test.labels[:, 0]))
