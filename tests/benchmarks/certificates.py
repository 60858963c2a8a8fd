"""Proofs by `dpcli certify`: of the reference values, of the examples and deployments, and of random pipelines; what each one takes.

    python -m tests.benchmarks.certificates [--count 200] [--seed 1] [--decimals 10] [--only reference|examples|random]

For each pipeline: the headline as `account` has it, the bounds that are proved, CPU seconds of the search and the checks together, and
bits of the arithmetic. References are proved to `--decimals` places, the others to those that are printed. A contradiction between a
proof and the accountants' interval raises an InternalError, which ends the run. Random pipelines (tests/certify/pipelines.py) that are
outside of what the checker knows are drawn again and counted.

Promised, else the exit status is 1: no proof takes more than 60 s, and the median takes less than 5 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time

from dpcli.base.errors import NotRepresentable
from dpcli.base.rounding import DECIMALS
from dpcli.certify.certificate import Proof, prove
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from tests.certify.pipelines import drawn, gaussian, pipeline

ROOT = Path(__file__).resolve().parents[2]
LONGEST, MEDIAN = 60.0, 5.0
REFERENCES = [  # sampling rate, noise multiplier, steps, delta, adjacency
    ("0.00426666666666666667", "1.1", 14_040, 1e-5, "add-remove"),
    ("0.00426666666666666667", "1.1", 14_040, 1e-5, "replace-one"),
    ("0.08192", "3.0", 2_500, 1e-5, "add-remove"),
    ("0.000278158", "0.6", 71_900, 1e-6, "add-remove"),
    ("1e-4", "0.8", 1_000_000, 1e-7, "add-remove"),
    ("0.01", "0.5", 10_000, 1e-5, "add-remove"),
    ("0.001", "1.0", 10_000, 1e-12, "add-remove"),
    ("0.001", "1.0", 10_000, 1e-30, "add-remove"),
    ("0.01", "4.0", 10_000, 1e-5, "add-remove"),
    ("1", "20.0", 100, 1e-5, "add-remove"),
    ("0.1", "1.0", 10, 1e-5, "add-remove"),
    ("1e-7", "0.7", 10**5, 1e-10, "add-remove"),
    ("1e-7", "0.7", 10**6, 1e-10, "add-remove"),
    ("1e-6", "0.8", 10**4, 1e-9, "add-remove"),
    ("1e-8", "0.5", 10**9, 1e-10, "add-remove"),
    ("1e-7", "0.5", 10**8, 1e-10, "add-remove"),
    ("1e-5", "0.6", 1_000, 1e-7, "add-remove"),
    ("1e-5", "0.8", 100, 1e-8, "add-remove"),
    ("1e-4", "1.0", 20, 1e-6, "add-remove"),
    ("1e-3", "1.0", 10, 1e-6, "add-remove"),
    ("0.01", "0.05", 1_000, 1e-5, "add-remove"),
    ("8.13e-5", "51.9", 47_887, 1e-30, "add-remove"),
]
OTHERS = [  # type and noise, sampling rate, steps, delta
    ('type = "laplace"\nnoise_multiplier = 0.3', "0.01", 100_000, 1e-8),
    ('type = "laplace"\nnoise_multiplier = 0.3011', "6.03e-6", 5_951, 6.7e-6),
    ('type = "pure-dp"\nepsilon = 0.5', "0.01", 10_000, 1e-5),
    ('type = "pure-dp"\nepsilon = 0.5', "1e-5", 1_000, 1e-7),
]


def references() -> Iterator[tuple[str, Pipeline]]:
    """Yield the runs of REFERENCES and OTHERS."""
    for rate, noise, steps, delta, adjacency in REFERENCES:
        name = f"q {rate} sigma {noise} x {steps} {adjacency} delta {delta:g}"
        yield name, pipeline(gaussian(rate, noise, steps), adjacency=adjacency, delta=delta)
    for noise, rate, steps, delta in OTHERS:
        sampling = f'sampling = {{ scheme = "poisson", rate = {rate} }}'
        text = f'[[mechanism]]\nname = "query"\nsteps = {steps}\n{noise}\n{sampling}\n'
        yield f"{noise.replace(chr(10), ' ')}, q {rate} x {steps} delta {delta:g}", pipeline(text, delta=delta)


def examples() -> Iterator[tuple[str, Pipeline]]:
    """Yield the pipelines among the example files, but for those whose noise is to be solved for."""
    for path in sorted((ROOT / "examples").glob("**/*.toml")):
        text = path.read_bytes()
        if b"[[mechanism]]" in text and b'"calibrate"' not in text:
            yield str(path.relative_to(ROOT / "examples")), parse(text, path.name)


def random_pipelines(seed: int) -> Iterator[tuple[str, Pipeline]]:
    """Yield random pipelines without end."""
    random = Random(seed)
    number = 0
    while True:
        text, setting = drawn(random)
        number += 1
        yield f"random {number}", pipeline(text, **setting)


def bits(proof: Proof) -> int:
    """Return the largest number of bits that a proof needs."""
    plans = [plan for claim in proof.certificate["claims"] for plan in claim["proofs"].values()]
    return max((plan.get("bits", 0) for plan in plans), default=0)


def proved(name: str, of: Pipeline, decimals: int = DECIMALS) -> tuple[Proof | None, float]:
    """Prove one, print its line, and return the proof with the CPU seconds that it took; None where it is refused."""
    begun = process_time()
    try:
        proof = prove(of, decimals=decimals)
    except NotRepresentable as error:
        print(f"{name:60} refused: {error}", flush=True)  # noqa: T201
        return None, process_time() - begun
    seconds = process_time() - begun
    mark = "" if proof.epsilon == proof.headline else f" for {proof.headline}"
    print(f"{name:60} {proof.epsilon}{mark}  > {proof.lower}  {seconds:.2f} s  {bits(proof)} bits", flush=True)  # noqa: T201
    return proof, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decimals", type=int, default=10)
    parser.add_argument("--only", choices=("reference", "examples", "random"))
    options = parser.parse_args()
    results: list[tuple[Proof, float]] = []
    refused = 0
    rooms = {"reference": references(), "examples": examples(), "random": random_pipelines(options.seed)}
    for room, pipelines in rooms.items():
        if options.only not in (None, room):
            continue
        here: list[tuple[Proof, float]] = []
        for name, of in pipelines:
            proof, seconds = proved(name, of, options.decimals if room == "reference" else DECIMALS)
            if proof is not None:
                here.append((proof, seconds))
            refused += proof is None
            if room == "random" and len(here) >= options.count:
                break
        same = sum(proof.epsilon == proof.headline for proof, _ in here)
        lower = sum(proof.lower is not None for proof, _ in here)
        print(f"{room}: {len(here)} proved, {same} as printed, {lower} with a lower end, {refused} refused or drawn again")  # noqa: T201
        results += here
        refused = 0
    times = [seconds for _, seconds in results]
    print(f"median {statistics.median(times):.2f} s, longest {max(times):.1f} s")  # noqa: T201
    return int(max(times) > LONGEST or statistics.median(times) > MEDIAN)


if __name__ == "__main__":
    sys.exit(main())
