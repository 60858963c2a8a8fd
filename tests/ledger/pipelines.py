"""Small pipelines for the ledger's tests, with users as the unit of privacy."""

from __future__ import annotations

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse

HEAD = """\
format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
"""


def pipeline(mechanisms: str, head: str = HEAD) -> Pipeline:
    return parse((head + mechanisms).encode(), "test.toml")


def pure(epsilon: float, name: str = "query") -> Pipeline:
    return pipeline(f'[[mechanism]]\nname = "{name}"\ntype = "pure-dp"\nepsilon = {epsilon!r}\n')


def gaussian(noise_multiplier: float, steps: int = 1, rate: float | None = None, name: str = "train") -> Pipeline:
    """Return a pipeline with Gaussian noise, with Poisson sampling if a rate is given."""
    sampling = f'sampling = {{ scheme = "poisson", rate = {rate!r} }}\n' if rate is not None else ""
    text = (
        f'[[mechanism]]\nname = "{name}"\ntype = "gaussian"\nnoise_multiplier = {noise_multiplier!r}\nsteps = {steps}\n{sampling}'
    )
    return pipeline(text)
