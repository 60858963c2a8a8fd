"""Federated averaging, charged round by round: python examples/federated_digits.py LEDGER, after

dpcli budget init LEDGER --dataset digits --unit client --adjacency add-remove --epsilon 3 --delta 1e-4 --dataset-size 400 \\
    --filter rdp --order 6
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dpcli
from dpcli.base.errors import Denied

FILE = Path(__file__).with_name("federated.toml")
CLIENTS, PUBLIC, SIZE = 400, 360, 65 * 10


def digits():
    """The clients' images, and some that are declared public."""
    images, labels = load_digits(return_X_y=True)
    images = np.hstack([images / 16.0, np.ones((len(images), 1))])
    mine = [(images[PUBLIC + k :: CLIENTS], labels[PUBLIC + k :: CLIENTS]) for k in range(CLIENTS)]
    return mine, (images[:PUBLIC], labels[:PUBLIC])


def update(weights, images, labels, steps=3, rate=0.5):
    """What a client sends: how its own images move the weights."""
    moved = weights.reshape(65, 10).copy()
    for _ in range(steps):
        scores = np.exp(images @ moved)
        moved -= rate * images.T @ (scores / scores.sum(1, keepdims=True) - np.eye(10)[labels]) / len(labels)
    return moved.ravel() - weights


def accuracy(weights, public):
    """On images declared public."""
    return float(((public[0] @ weights.reshape(65, 10)).argmax(1) == public[1]).mean())


def main(ledger):
    """Rounds until the plan or the budget ends; the weights, and what was charged."""
    clients, public = digits()
    weights, run = np.zeros(SIZE), dpcli.rounds(FILE, ledger, key="digits")
    try:
        for turn in run:  # charged, durably, before the clients are asked
            sent = {int(client): update(weights, *clients[client]) for client in turn.clients}
            weights = weights + 2.0 * turn.release(sent, SIZE) / turn.expected_clients  # clipped, summed, noise once
    except Denied as refusal:
        print(str(refusal).splitlines()[0])  # noqa: T201
    print(f"{run.taken} rounds, accuracy {accuracy(weights, public):.3f}, as planned epsilon <= {run.epsilon():.4f}")  # noqa: T201
    return weights


if __name__ == "__main__":
    main(sys.argv[1])
