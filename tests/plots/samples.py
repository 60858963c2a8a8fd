"""Pipelines for the tests of charts, whose charts are computed fast."""

from __future__ import annotations

from dataclasses import replace

from dpcli.accountants.rdp import ACCOUNTANT
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse

HEAD = """format = 1
name = "sample"
[privacy]
unit = "user"
max_contributions = 1
adjacency = "{adjacency}"
delta = {delta}
releases = "outputs"
"""


def text(mechanism: str, delta: str = "1e-5", adjacency: str = "add-remove", more: str = "") -> bytes:
    """Return a file with one mechanism, which is called m."""
    return (HEAD.format(delta=delta, adjacency=adjacency) + more + f'[[mechanism]]\nname = "m"\n{mechanism}\n').encode()


GAUSSIAN = text('type = "gaussian"\nnoise_multiplier = 2.0\nsteps = 10')
PURE = text('type = "pure-dp"\nepsilon = 0.5\nsteps = 3')
NO_NOISE = text('type = "gaussian"\nnoise_multiplier = 1e-300')
NO_COST = text('type = "post-processing"')
TWO = GAUSSIAN + b'[[mechanism]]\nname = "other"\ntype = "laplace"\nnoise_multiplier = 5.0\n'


def pipeline(data: bytes) -> Pipeline:
    """Return the pipeline in the content of a file."""
    return parse(data, "sample.toml")


APPROXIMATE = replace(
    ACCOUNTANT, name="approximate", sound=False
)  # as a central-limit theorem would be: nothing that it says is a bound
