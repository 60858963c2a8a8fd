"""Tests of a few generated files on the command line, each in a limited process: no internal error, and no more memory than allowed.

The benchmark `python -m tests.benchmarks.generated` runs thousands of them, and measures the time as well.
"""

from __future__ import annotations

import os
import sys

import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.mechanisms.neighbours import Adjacency
from tests.benchmarks.generated import MEGABYTES, SECONDS, Outcome, measured, report
from tests.cases import fresh_random, tiered
from tests.random_commands import COMMANDS, Case, case

SEED = "0" if os.environ.get("CI") else str(int.from_bytes(fresh_random().randbytes(4), "big"))
FILES = 3


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("part", tiered(range(10), 1, 4))
def test_generated_files_end_without_a_bug(part: int) -> None:
    outcomes = [measured(case(f"{SEED}/{part}/{i}"), patient=True) for i in range(FILES)]
    faults = [outcome for outcome in outcomes if outcome.bug]
    assert not faults, "\n".join([report(outcomes), *(f"{o.case.shown()}\n{o.output}" for o in faults)])


@pytest.mark.long
def test_everything_registered_is_drawn() -> None:
    """Types, schemes, adjacencies and commands; most files are valid."""
    cases = [case(f"coverage/{i}") for i in range(250)]
    text = "\n".join(one.files["a.toml"] for one in cases)
    assert [kind for kind in MECHANISMS if f'type = "{kind}"' not in text] == []
    assert [scheme for scheme in SAMPLING if f'scheme = "{scheme}"' not in text] == []
    assert [adjacency.value for adjacency in Adjacency if f'adjacency = "{adjacency.value}"' not in text] == []
    assert {one.arguments[0] for one in cases} == set(COMMANDS)
    assert sum(map(_valid, cases)) > 0.9 * len(cases)


def _valid(one: Case) -> bool:
    try:
        parse(one.files["a.toml"].encode(), "a.toml")
    except (InputError, InvalidFile):
        return False
    return True


def test_a_case_is_the_same_again() -> None:
    assert case("7/3") == case("7/3")
    assert case("7/3") != case("7/4")


@pytest.mark.parametrize(
    ("code", "seconds", "megabytes", "fault"),
    [
        (0, 1.0, 100.0, None),
        (3, SECONDS, MEGABYTES, None),
        (70, 1.0, 100.0, "exit 70"),
        (-9, 1.0, 100.0, "exit -9"),
        (1, SECONDS + 1.0, 100.0, "11.0 s"),
        (2, 1.0, MEGABYTES + 1.0, "1025 MB"),
    ],
)
def test_what_counts_as_a_fault(code: int, seconds: float, megabytes: float, fault: str | None) -> None:
    assert Outcome(case("0/0"), code, seconds, megabytes, "").fault == fault


HARD = {
    "weak and many": """
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 0.5
steps = 1_000_000_000
sampling = { scheme = "poisson", rate = 1e-8 }
""",
    "a large pure epsilon beside a rho": """
[[mechanism]]
name = "answer"
type = "pure-dp"
epsilon = 200.0

[[mechanism]]
name = "rest"
type = "zcdp"
rho = 0.106
""",
    "a spacing beyond numbers": """
[[mechanism]]
name = "answer"
type = "pure-dp"
epsilon = 0.03

[[mechanism]]
name = "rest"
type = "gaussian"
noise_multiplier = 4.0
steps = 1_000_000_000_000
""",
    "three of 73": """
[[mechanism]]
name = "answer"
type = "pure-dp"
epsilon = 73.0
steps = 3
""",
}
ASKED = (
    ["account"],
    ["account", "-a", "pld"],
    ["account", "--epsilon", "4"],
    ["explain"],
    ["report"],
    ["gate", "--max-epsilon", "1"],
    ["plot", "delta-epsilon"],
)


EACH_ONCE = [(name, (ASKED[k], ASKED[k + 3])) for k, name in enumerate(HARD)]
THE_OTHERS = [(name, tuple(asked for asked in ASKED if asked not in once)) for name, once in EACH_ONCE]


@pytest.mark.sampled(0, 0)
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is counted as Linux does")
@pytest.mark.parametrize(("name", "commands"), [*tiered(EACH_ONCE, 0, len(HARD)), *tiered(THE_OTHERS, 0)])
def test_hard_files_end(name: str, commands: tuple[list[str], ...]) -> None:
    """What once took minutes and gigabytes."""
    text = f'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-10\n{HARD[name]}'
    for verb, *flags in commands:
        arguments = (verb, *flags, "a.toml") if verb == "plot" else (verb, "a.toml", *flags)
        outcome = measured(Case(name, {"a.toml": text}, arguments), patient=True)
        assert outcome.code in (0, 1, 3), (arguments, outcome.output)
        assert outcome.bug is None, (arguments, outcome.bug, outcome.output)


@pytest.mark.long
def test_a_calibration_where_every_attempt_is_dear_ends() -> None:
    flags = ("--target-epsilon", "1", "--delta", "1e-10", "--sampling-rate", "1e-7", "--steps", "100000000", "-f", "total")
    outcome = measured(Case("calibration", {}, ("calibrate-sigma", *flags)), patient=True)
    assert outcome.bug is None and outcome.code == 0, outcome.output
