"""Pipeline files that the tests of the gate edit, and the gate's JSON about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.command import ROOT, dpcli

SAMPLED = (ROOT / "examples" / "gate.toml").read_text()
# The same without sampling, which is quick to add up: epsilon 1.3740 of 3.
GATE = SAMPLED.replace('sampling = { scheme = "poisson", batch_size = 1_024 }\n', "").replace("= 0.8\n", "= 400.0\n")
OVER = GATE.replace("steps = 5_000", "steps = 200_000")  # epsilon 6.921, cap 3
NO_BUDGET = GATE.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9\n", "")
LARGE_DELTA = GATE.replace("delta = 1e-8", "delta = 1e-5").replace("epsilon = 3.0", "epsilon = 50.0")  # DP105, an error


def waiver(rule: str, expires: str = "2030-06-30", **keys: str) -> str:
    """One [[gate.waiver]] table; `keys` in TOML."""
    stated = {"rule": f'"{rule}"', "reason": '"launch"', "approver": '"ada"', "expires": expires, **keys}
    return "\n[[gate.waiver]]\n" + "".join(f"{key} = {value}\n" for key, value in stated.items())


def judged(*arguments: str | Path) -> dict[str, Any]:
    """The machine form of a gate, its exit code compared with the process's."""
    result = dpcli("gate", *map(str, arguments), "-f", "json")
    assert result.out, result.err
    found: dict[str, Any] = json.loads(result.out)
    assert found["exit_code"] == result.code
    return found


def conditions(*arguments: str | Path) -> list[dict[str, Any]]:
    """The conditions of the one file; that another one was not given is left out."""
    (file,) = [file for file in judged(*arguments)["files"] if [one["name"] for one in file["conditions"]] != ["missed"]]
    found: list[dict[str, Any]] = file["conditions"]
    return found


def named(name: str, *arguments: str | Path) -> dict[str, Any]:
    """The one condition of a name."""
    (found,) = [condition for condition in conditions(*arguments) if condition["name"] == name]
    return found
