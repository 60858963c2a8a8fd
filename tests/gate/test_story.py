"""A pull request from end to end: it overspends, learns where and by how much, is repaired, waived, and stopped when that ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import Result, dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE, waiver

DAY = ("--as-of", "2030-06-01")


def gate(file: Path, *arguments: str) -> Result:
    return dpcli("gate", str(file), "--base-ref", "main", *DAY, *arguments)


@pytest.mark.long
def test_a_pull_request(repository: Path) -> None:
    file = repository / "train.toml"
    line = GATE.splitlines().index("steps = 5_000") + 1

    # The base passes, and so does a branch that changes nothing.
    git(repository, "checkout", "-qb", "longer-training")
    assert gate(file, "-f", "text").out == (f"{file}: pass: epsilon 1.3740 of 3.0 at delta = 1e-08\ngate: pass (1 pass)\n")

    # The branch trains four times as long: within its cap, but a larger rise than the file allows itself.
    longer = GATE.replace("steps = 5_000", "steps = 20_000")
    file.write_text(longer)
    git(repository, "commit", "-qam", "train longer")
    failed = gate(file, "-f", "text")
    assert failed.code == 1
    first = failed.out.splitlines()[0]
    assert first.startswith(f"{file}:{line}:1: error gate/increase: epsilon 1.3740 -> ")
    assert "allowed +0.25; train: steps 5000 -> 20000 costs +" in first

    # Either remedy passes, and the next cheaper noise does not.
    found = re.search(r"noise_multiplier = ([0-9.]+) in train, or steps = ([0-9]+), would pass", first)
    assert found is not None
    noise, steps = found[1], found[2]
    file.write_text(longer.replace("noise_multiplier = 400.0", f"noise_multiplier = {noise}"))
    assert gate(file).code == 0
    file.write_text(longer.replace("noise_multiplier = 400.0", f"noise_multiplier = {float(noise) - 1e-4:.4f}"))
    assert gate(file).code == 1
    file.write_text(GATE.replace("steps = 5_000", f"steps = {steps}"))
    assert gate(file).code == 0
    file.write_text(GATE.replace("steps = 5_000", f"steps = {int(steps) + 1}"))
    assert gate(file).code == 1

    # Somebody answers for it: it passes, and everybody sees that the change waives itself.
    file.write_text(longer + waiver("increase", expires="2030-06-30", epsilon="2.6"))
    waived = gate(file, "-f", "text")
    assert waived.code == 0
    assert (
        "new waiver, added by this change: approved by ada until 2030-06-30 (29 days left) up to epsilon 2.6: launch" in waived.out
    )
    assert waived.out.splitlines()[-1] == "gate: waived (1 waived)"

    # The waiver is no blank cheque, and it ends.
    file.write_text(longer.replace("20_000", "40_000") + waiver("increase", expires="2030-06-30", epsilon="2.6"))
    beyond = gate(file, "-f", "text")
    assert beyond.code == 1
    assert "the waiver approved by ada is valid up to epsilon 2.6, found " in beyond.out
    file.write_text(longer + waiver("increase", expires="2030-06-30", epsilon="2.6"))
    ended = dpcli("gate", str(file), "--base-ref", "main", "--as-of", "2030-07-01", "-f", "text")
    assert ended.code == 1
    assert "the waiver approved by ada expired on 2030-06-30 (1 day ago)" in ended.out


def test_of_several_changes_the_dearest_is_pointed_at(repository: Path) -> None:
    file = repository / "train.toml"
    text = GATE.replace("steps = 5_000", "steps = 7_000").replace("scale = 2.0", "scale = 0.5").replace("400.0", "390.0")
    file.write_text(text)
    failed = gate(file, "-f", "text")
    assert failed.code == 1
    line = text.splitlines().index("scale = 0.5") + 1
    first = failed.out.splitlines()[0]
    assert first.startswith(f"{file}:{line}:1: error gate/")
    costs = [float(x) for x in re.findall(r"costs \+([0-9.]+) alone", first)]
    assert len(costs) == 3
    assert costs == sorted(costs, reverse=True)
    assert "scale = " in first  # the remedy is looked for in the mechanism that was changed most


def test_a_remedy_meets_every_condition_at_once(repository: Path) -> None:
    file = repository / "train.toml"
    base = GATE.replace("[gate]\n", "[gate]\nhorizon = { runs = 3, epsilon = 4.0 }\n")
    file.write_text(base)
    git(repository, "commit", "-qam", "horizon")
    over = base.replace("steps = 5_000", "steps = 200_000")
    file.write_text(over)
    failed = gate(file, "-f", "json")
    noise = re.search(r"noise_multiplier = ([0-9.]+) in train", failed.out)
    assert noise is not None
    assert '"horizon"' in failed.out
    file.write_text(over.replace("noise_multiplier = 400.0", f"noise_multiplier = {noise[1]}"))
    assert gate(file).code == 0
