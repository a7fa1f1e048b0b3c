"""Trains a small digit classifier and writes digits_fp32.onnx and digits_int8.onnx.

    python train.py [--out DIRECTORY] [--epochs COUNT]

Needs numpy, onnx and scikit-learn, and onnxruntime to measure the written models. Takes well under a minute.
A second run writes the same bytes, see network.py.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnx

from data import Digits, load
from export import INPUT, OUTPUT, float_model, int8_model
from network import Adam, Array, DigitsNet, softmax

SEED = 0
# Chosen by the accuracy on a part of the training images that was held back for the choice.
EPOCHS = 40
BATCH = 32
RATE = 6e-3  # at the start; falls linearly to zero
DECAY = 5e-2


def train(digits: Digits, epochs: int) -> DigitsNet:
    """Return the network after ``epochs`` passes over the training images, a line per pass."""
    rng = np.random.RandomState(SEED)  # its stream is frozen across numpy versions, unlike default_rng
    net = DigitsNet(rng)
    adam = Adam(net.params(), DECAY)
    images, labels = digits.x_train.astype(np.float64), digits.y_train
    batches = len(images) // BATCH  # the few images left over differ in each pass
    started = time.monotonic()
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        right = 0
        for number in range(batches):
            chosen = order[number * BATCH : (number + 1) * BATCH]
            acts = net.forward(images[chosen], training=True)
            right += int((acts["logits"].argmax(axis=1) == labels[chosen]).sum())
            # Gradient of the summed, not averaged, loss: larger values lose less on the grid.
            d_logits = softmax(acts["logits"])
            d_logits[np.arange(BATCH), labels[chosen]] -= 1.0
            net.backward(acts, d_logits)
            adam.step(RATE * (1.0 - (epoch * batches + number) / (epochs * batches)))
        seconds = time.monotonic() - started
        share = right / (batches * BATCH)
        print(f"epoch {epoch + 1:2d}/{epochs}  training accuracy {share:.4f}  {seconds:5.1f} s", flush=True)
    return net


def accuracy(model: bytes, digits: Digits) -> str:
    """Share of the test images that ``model`` classifies correctly, or why it was not measured."""
    try:
        import onnxruntime
    except ImportError:
        return "not measured, onnxruntime is not installed"
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    probabilities = np.asarray(session.run([OUTPUT], {INPUT: digits.x_test})[0])
    return f"{(probabilities.argmax(axis=1) == digits.y_test).mean():.4f}"


def calibrate(net: DigitsNet, digits: Digits) -> dict[str, Array]:
    """Every activation of the trained network on all training images; the test images stay unseen."""
    return net.forward(digits.x_train.astype(np.float64))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the digits example and write its two ONNX models.")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent, help="where to write")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"passes over the images (default {EPOCHS})")
    args = parser.parse_args()
    digits = load()
    net = train(digits, args.epochs)
    models = {"digits_fp32.onnx": float_model(net), "digits_int8.onnx": int8_model(net, calibrate(net, digits))}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        onnx.checker.check_model(model, full_check=True)
        content = model.SerializeToString(deterministic=True)
        (args.out / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes, test accuracy {accuracy(content, digits)}", flush=True)


if __name__ == "__main__":
    main()
