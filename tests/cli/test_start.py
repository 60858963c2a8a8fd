"""Where the process begins: the help without Click, one thread for small products, and nothing of it in a library."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dpcli.cli.overview import HELP
from tests.command import ROOT

UNSAID = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}


def started(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dpcli", *arguments], env=UNSAID | variables, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def inside(code: str, **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], env=UNSAID | variables, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.split("\n")


def by_click(*arguments: str, **variables: str) -> str:
    return "\n".join(inside(f"from dpcli.cli.main import run; run({list(arguments)!r})", **variables))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", ["", "80", "200", "79", "40", "word"])
def test_the_help_is_that_of_click_on_every_screen(columns: str) -> None:
    assert started("--help", COLUMNS=columns) == by_click("--help", COLUMNS=columns)
    assert (started("-h", COLUMNS=columns) == HELP) == (columns in ("", "80", "200", "word"))


def test_the_help_of_a_command_is_its_own() -> None:
    assert started("account", "--help") == by_click("account", "--help") != HELP
    assert started("--help", "account") == by_click("--help", "account")


def test_the_help_enters_next_to_nothing() -> None:
    code = (
        "import sys; sys.argv = ['dpcli', '--help']; from dpcli.cli.start import run; run(); "
        "print(*sorted(m for m in sys.modules if m.startswith(('dpcli', 'click', 'typing', 'dataclasses'))))"
    )
    *shown, entered, _ = inside(code)
    assert "\n".join(shown) + "\n" == HELP
    assert set(entered.split()) <= {"dpcli", "dpcli.cli", "dpcli.cli.start", "dpcli.cli.overview"}


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
