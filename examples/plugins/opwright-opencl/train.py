"""Train on handwritten digits on the device opencl, and print the accuracy."""

import sys

import opwright_nn as nn

device = sys.argv[1] if len(sys.argv) > 1 else "opencl"
model = nn.Model(device=device)
hidden = model.fc_layer(input="img", size=64, activation="relu")
prob = model.fc_layer(input=hidden, size=10, activation="softmax")
loss = model.mean(input=model.cross_entropy(input=prob, label="label"))
model.backward(loss)
model.sgd(learning_rate=0.2)

train, test = nn.datasets.digits.load(seed=1)
model.initialize_parameters(seed=1, img=train.images)
for images, labels in nn.batches(train, size=64, epochs=5, seed=1):
    model.fill("img", images)
    model.fill("label", labels)
    (value,) = model.run()
print(model.network.placement())
print(f"loss {float(value):.4f}")
accuracy = nn.metrics.accuracy(model.predict(prob, img=test.images), test.labels)
print("more than 9 of 10 are right:", accuracy > 0.9)
