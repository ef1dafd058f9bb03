"""Train on one task, then only a new head on another task, then all layers with a low rate."""

import opwright_nn as nn

train, test = nn.datasets.digits.load()


def build(classes):
    model = nn.Model()
    h = model.fc_layer("img", size=128, activation="relu", name="backbone")
    scores = model.fc_layer(h, size=classes, name="head")
    loss = model.softmax_with_cross_entropy(scores, "label", reduction="mean")
    model.minimize(loss, nn.optimizer.Adam(0.01))
    return model, scores


model, _ = build(classes=10)
nn.train(model, train, epochs=5)
model.save("backbone")

model, scores = build(classes=2)  # even or odd
model.load_parameter("backbone", only="backbone_*")
odd = (train.images, train.labels % 2)
model.freeze("backbone_*")
nn.train(model, odd, epochs=3)

model.unfreeze("backbone_*")
model.set_learning_rate(1e-3)
nn.train(model, odd, epochs=3)
accuracy = nn.metrics.accuracy(model.predict(scores, img=test.images), test.labels % 2)
print("accuracy:", accuracy)
