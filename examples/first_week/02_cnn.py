"""Classify images with convolutions, batch normalization and dropout."""

import opwright_nn as nn

train, test = nn.datasets.digits.load()
images, test_images = train.images.reshape(-1, 1, 8, 8), test.images.reshape(-1, 1, 8, 8)

model = nn.Model()
h = model.conv2d("img", filters=32, kernel=3, paddings="same")
h = model.relu(model.batch_norm(h))
h = model.conv2d(h, filters=64, kernel=3, paddings="same")
h = model.relu(model.batch_norm(h))
h = model.dropout(model.flatten(model.max_pool2d(h, kernel=2)), 0.5)
scores = model.fc_layer(h, size=10)
loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
model.minimize(loss, nn.optimizer.Adam(1e-3))

history = nn.train(
    model,
    (images, train.labels),
    epochs=5,
    batch_size=64,
    validation=(test_images, test.labels),
    metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
)
print(nn.summary(model))
print("accuracy:", history["accuracy"][-1])
