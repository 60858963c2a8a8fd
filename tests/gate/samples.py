"""Pipeline files that the tests of the gate edit, and the JSON of the gate about files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.command import ROOT, dpcli

SAMPLED = (ROOT / "examples" / "gate.toml").read_text()
# The same file without sampling, whose epsilon is computed faster: 1.3740, with a cap of 3.
GATE = SAMPLED.replace('sampling = { scheme = "poisson", batch_size = 1_024 }\n', "").replace("= 0.8\n", "= 400.0\n")
OVER = GATE.replace("steps = 5_000", "steps = 200_000")  # epsilon 6.921, cap 3
NO_BUDGET = GATE.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9\n", "")
LARGE_DELTA = GATE.replace("delta = 1e-8", "delta = 1e-5").replace("epsilon = 3.0", "epsilon = 50.0")  # DP105, an error


def waiver(rule: str, expires: str = "2030-06-30", **keys: str) -> str:
    """Return a [[gate.waiver]] table. `keys` are further keys, with values in TOML."""
    stated = {"rule": f'"{rule}"', "reason": '"launch"', "approver": '"ada"', "expires": expires, **keys}
    return "\n[[gate.waiver]]\n" + "".join(f"{key} = {value}\n" for key, value in stated.items())


def judged(*arguments: str | Path) -> dict[str, Any]:
    """Return the JSON of the gate. Its exit code must be that of the command."""
    result = dpcli("gate", *map(str, arguments), "-f", "json")
    assert result.out, result.err
    document: dict[str, Any] = json.loads(result.out)
    assert document["exit_code"] == result.code
    return document


def conditions(*arguments: str | Path) -> list[dict[str, Any]]:
    """Return the conditions of the only judged file. The warning about files that were not given to the gate is left out."""
    (file,) = [file for file in judged(*arguments)["files"] if [one["name"] for one in file["conditions"]] != ["missed"]]
    result: list[dict[str, Any]] = file["conditions"]
    return result


def named(name: str, *arguments: str | Path) -> dict[str, Any]:
    """Return the only condition of this name."""
    (result,) = [condition for condition in conditions(*arguments) if condition["name"] == name]
    return result
