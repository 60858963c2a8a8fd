"""Tests of the start of the process: help without numpy, one thread for small products, and no effect on programs that import dpcli."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.command import ROOT

UNSAID = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}


def inside(code: str, **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], env=UNSAID | variables, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.split("\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("stated", "found"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3"), ({"OMP_NUM_THREADS": "2"}, "1")])
def test_products_take_one_thread_unless_somebody_says_how_many(stated: dict[str, str], found: str) -> None:
    code = (
        "import os, sys; sys.argv = ['dpcli', 'version']; from dpcli.cli.start import run\ntry:\n    run()\n"
        "finally:\n    print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    assert inside(code, **stated)[-2] == found


def test_a_library_leaves_the_environment_as_it_is() -> None:
    code = (
        "import gc, os; before = dict(os.environ), gc.get_threshold(); import dpcli; "
        "dpcli.account(dpcli.load('examples/dp-sgd.toml')); print((dict(os.environ), gc.get_threshold()) == before)"
    )
    assert inside(code)[0] == "True"
