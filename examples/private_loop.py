"""A training loop of one's own, made private: python examples/private_loop.py, from the folder of the project, in seconds."""

from __future__ import annotations

from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch.nn import functional

import dpcli


def loss_of(model, batch):
    """One loss for each record, never their mean."""
    images, labels = batch
    return functional.cross_entropy(model(images), labels, reduction="none")


def main() -> None:
    images, labels = (torch.from_numpy(values) for values in load_digits(return_X_y=True))
    images = images.float() / 16.0  # the largest value that a pixel can have, and not the largest that one has
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    file = Path(__file__).with_name("private-loop.toml")
    private = dpcli.private(model, optimizer, loss_of, (images[360:], labels[360:]), pipeline=file)
    for batch in private:
        private.step(batch)
        if private.taken % 50 == 0:
            print(private)  # noqa: T201
    result = private.finish()

    with torch.no_grad():
        accuracy = (model(images[:360]).argmax(1) == labels[:360]).float().mean()  # on digits declared public
    print(f"accuracy {accuracy:.3f}; {result}")  # noqa: T201


if __name__ == "__main__":
    main()
