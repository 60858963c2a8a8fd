"""Pipelines that `dpcli certify` can prove something about: one made from a few numbers (`pipeline`), and random ones (`drawn`)."""

from __future__ import annotations

from random import Random
from typing import Any

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse

HEAD = """
format = 1
name = "proof"
[privacy]
unit = "{unit}"
max_contributions = {records}
adjacency = "{adjacency}"
delta = {delta!r}
"""
NOISES = ("gaussian", "laplace", "pure-dp", "discrete-laplace")


def pipeline(text: str, adjacency: str = "add-remove", delta: float = 1e-6, records: int = 1) -> Pipeline:
    head = HEAD.format(unit="example" if records == 1 else "user", records=records, adjacency=adjacency, delta=delta)
    return parse((head + text).encode(), "proof.toml")


def gaussian(rate: str, noise: str, steps: int) -> str:
    sampling = f'sampling = {{ scheme = "poisson", rate = {rate} }}\n' if rate != "1" else ""
    return f'[[mechanism]]\nname = "train"\ntype = "gaussian"\nsteps = {steps}\nnoise_multiplier = {noise}\n{sampling}'


def drawn(random: Random) -> tuple[str, dict[str, Any]]:
    """Return one to three mechanisms as TOML, and keyword arguments for `pipeline`. Some files divide the data by an attribute."""
    texts, adjacency = [], random.choice(["add-remove", "add-remove", "zero-out", "replace-one"])
    divided = adjacency == "add-remove" and random.random() < 0.4
    for i in range(random.randint(1, 3)):
        kind = random.choice(NOISES)
        keys = {
            "gaussian": f"noise_multiplier = {10.0 ** random.uniform(-0.3, 1.0):.4g}",
            "laplace": f"noise_multiplier = {10.0 ** random.uniform(-0.3, 1.0):.4g}",
            "pure-dp": f"epsilon = {10.0 ** random.uniform(-2.0, 0.3):.4g}",
            "discrete-laplace": f"scale = {10.0 ** random.uniform(0.0, 1.5):.4g}\nsensitivity = {random.randint(1, 3)}",
        }[kind]
        fixed = adjacency == "replace-one" and kind in ("pure-dp", "discrete-laplace")
        sampled = random.random() < 0.6 and (adjacency == "add-remove" or fixed or kind in ("gaussian", "laplace"))
        scheme = "fixed-size" if fixed else "poisson"
        rate = f'sampling = {{ scheme = "{scheme}", rate = {10.0 ** random.uniform(-4.0, -0.5):.3g} }}\n' if sampled else ""
        steps = round(10.0 ** random.uniform(0.0, 3.5 if sampled else 1.5))
        part = f'partition = {{ of = "region", part = "{random.randint(1, 2)}" }}\n' if divided and random.random() < 0.8 else ""
        texts.append(f'[[mechanism]]\nname = "m{i}"\ntype = "{kind}"\nsteps = {steps}\n{keys}\n{rate}{part}')
    return "".join(texts), {"adjacency": adjacency, "delta": 10.0 ** random.uniform(-12.0, -3.0)}
