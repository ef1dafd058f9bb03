"""A variational autoencoder learns to generate digits.

Data: the UCI handwritten digits, 1,437 images of 8×8 for training, 360 held out; no labels.
Network: the encoder maps an image to the mean and variance of a code of 8 numbers, and the decoder
maps a code to an image; both have a hidden layer of width 256.
Score: upper bound of the negative log-likelihood of a held-out image in nats, at most 24.5.
Time: 10 seconds on two cores.
Reference: Kingma, Welling, Auto-Encoding Variational Bayes, 2014.
"""

import example
import numpy as np

import opwright as ow
import opwright_nn as nn

N_PIXELS, CODE = 64, 8

arguments = example.read_arguments(__doc__, picture="digits that the network writes")
epochs = 20 if arguments.short else 200
train, test = nn.datasets.digits.load(seed=1)
rng = np.random.default_rng(1)

model = nn.Model()
image = model.input("image", [None, N_PIXELS])
noise = model.input("noise", [None, CODE])
hidden = model.fc_layer(image, size=256, activation="relu")
mean, log_variance = model.fc_layer(hidden, size=CODE), model.fc_layer(hidden, size=CODE)
code = model.add(mean, ow.ops.exp(0.5 * log_variance) * noise, name="code")
hidden = model.fc_layer(code, size=256, activation="relu")
logits = model.fc_layer(hidden, size=N_PIXELS)
pixels = model.sigmoid(logits)

reconstruction = model.sigmoid_cross_entropy_with_logits(logits, image)
divergence = 0.5 * (mean * mean + ow.ops.exp(log_variance) - log_variance - 1)
loss = N_PIXELS * model.mean(reconstruction) + CODE * model.mean(divergence)
model.minimize(loss, nn.optimizer.Adam(nn.schedule.cosine(3e-3, steps=23 * epochs)))
model.initialize_parameters(seed=1)


def draw(n_codes: int) -> np.ndarray:
    """Return normally distributed noise for `n_codes` codes."""
    return rng.standard_normal((n_codes, CODE), np.float32)


batches = nn.batches((train.images,), size=64, seed=1)
history = nn.train(
    model,
    lambda: ((images, draw(len(images))) for (images,) in batches),
    epochs,
    validation=(test.images, draw(len(test.images))),
)

if arguments.picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.5))
    written = model.predict(pixels, code_out=draw(60)).reshape(60, 8, 8)
    for axes, digit in zip(figure.subplots(5, 12).flat, written, strict=True):
        axes.imshow(digit, cmap="gray_r")
        axes.set_axis_off()
    figure.savefig(arguments.picture)
bound = history["validation_loss"][-1]
example.finish(arguments, history, "bound", bound, at_most=27 if arguments.short else 24.5)
