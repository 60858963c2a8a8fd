"""Tests of schedules from a csv: every row counts its steps, and an unknown column is not guessed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.exchange.foreign import Asserted, read_text
from dpcli.exchange.schedule_csv import COLUMN_SYNONYMS, COLUMNS, file_of_schedule
from dpcli.file.pipeline.series import MAX_ENTRIES
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import MAX_BYTES
from tests.cases import of_each
from tests.command import dpcli as run

STATED = Asserted(adjacency="add-remove", delta=1e-6, dataset_size=60_000)


def imported(text: str, stated: Asserted = STATED) -> str:
    return file_of_schedule(text.encode(), stated, (), "a.csv")


def stages(text: str) -> list[tuple[Any, ...]]:
    found = read_text(text, "a.toml")
    return [(m.spec.noise_multiplier, m.sampling.rate, m.sampling.batch_size, m.steps) for m in found.mechanisms]  # type: ignore[attr-defined]


@of_each("number", range(20))
def test_every_step_is_there_in_its_turn(number: int) -> None:
    chance = random.Random(f"{SEED} {number}")
    sampled = chance.choice(["sampling_rate", "batch_size"])
    draw = {
        "noise_multiplier": lambda: chance.choice([1.0, 1.25, chance.uniform(0.3, 20.0)]),
        "sampling_rate": lambda: chance.choice([0.01, chance.uniform(1e-6, 1.0)]),
        "batch_size": lambda: chance.choice([256, chance.randint(1, 60_000)]),
        "steps": lambda: chance.choice([1, chance.randint(1, 10**6)]),
    }
    names = ["noise_multiplier", sampled, *(["steps"] if chance.random() < 0.5 else [])]
    chance.shuffle(names)
    rows = [[draw[name]() for name in names] for _ in range(chance.randint(1, 150))]
    rows = [row for row in rows for _ in range(chance.choice([1, 1, 3]))]
    text = ",".join(names) + "\r\n" + "".join(",".join(map(repr, row)) + chance.choice(["\n", "\r\n", "\n\n"]) for row in rows)

    told = [dict(zip(names, row, strict=True)) for row in rows]
    expected: list[tuple[Any, ...]] = []
    for row in told:
        pair, steps = (row["noise_multiplier"], row[sampled]), int(row.get("steps", 1))
        if expected and expected[-1][:-1] == pair:
            steps += expected.pop()[-1]
        expected.append((*pair, steps))
    found = stages(imported("\ufeff" + text))
    asked = [(noise, rate if sampled == "sampling_rate" else size, steps) for noise, rate, size, steps in found]
    assert asked == expected, SEED


@of_each("noise", ["noise_multiplier", *(old for old, new in COLUMN_SYNONYMS.items() if new == "noise_multiplier")])
@of_each("rate", ["sampling_rate", *(old for old, new in COLUMN_SYNONYMS.items() if new == "sampling_rate")])
@of_each("steps", ["steps", *(old for old, new in COLUMN_SYNONYMS.items() if new == "steps")])
def test_columns_are_read_by_the_names_of_other_libraries(noise: str, rate: str, steps: str) -> None:
    """And the file says so, as a sigma may be meant as something else; two columns of one meaning are refused."""
    head, row = f"{noise},{rate},{steps}\n", "1.5,0.01,300\n"
    made = imported(head + row)
    assert stages(made) == [(1.5, 0.01, 0, 300)] or stages(made) == [(1.5, 0.01, None, 300)], stages(made)
    for name in (noise, rate, steps):
        assert (f"# Column {name} is read as " in made) == (name in COLUMN_SYNONYMS)
    with pytest.raises(InputError, match="each once"):
        imported(f"noise_multiplier,sigma,{rate}\n1.5,1.5,0.01\n")
    ignored = file_of_schedule(f"noise_multiplier,sigma,{rate}\n1.5,2.5,0.01\n".encode(), STATED, ("sigma",), "a.csv")
    assert stages(ignored)[0][0] == 1.5


@pytest.mark.long
def test_a_long_schedule_is_read_by_people_too() -> None:
    text = imported("noise_multiplier,sampling_rate\n" + "".join(f"{1.0 + k / 1e4},0.004\n" for k in range(5000)))
    assert max(map(len, text.splitlines())) <= 120
    assert len(stages(text)) == 5000


@pytest.mark.long
@of_each("count", range(1, 60))
def test_lines_end_inside_of_lists_alone(count: int) -> None:
    """Two lists in one table of a line, of which TOML allows no other to be broken."""
    rows = [(1.0 + k, 6 * k, 6 * k / 60_000) for k in range(1, count + 1)]
    text = imported("noise_multiplier,batch_size,sampling_rate\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    assert stages(text) == [(noise, rate, size, 1) for noise, size, rate in rows]


def test_words_that_are_as_long_as_lists_stay_whole() -> None:
    unit = "person  " * 20 + "steps"
    assert read_text(imported(GOOD, replace(STATED, unit=unit, max_contributions=1)), "a.toml").privacy.unit == unit


@pytest.mark.long
def test_too_long_for_a_file() -> None:
    with pytest.raises(InputError, match=r"KiB do not fit into a pipeline file of 1,024 KiB"):
        imported("noise_multiplier,sampling_rate\n" + "".join(f"{1 + k / 7e9!r},0.01\n" for k in range(MAX_ENTRIES)))


@pytest.mark.nightly
@pytest.mark.long
def test_as_many_stages_as_are_promised() -> None:
    """Where their numbers are short."""
    text = "noise_multiplier,sampling_rate\n" + "".join(f"{1 + k % 2},0.01\n" for k in range(MAX_ENTRIES))
    made = imported(text)
    assert (
        made.partition("noise_multiplier = [")[2].partition("]")[0].count(",") == MAX_ENTRIES - 1
        and len(made.encode()) <= MAX_BYTES
    )


@pytest.mark.long
def test_more_stages_than_can_be_are_refused_before_they_are_read_as_a_file() -> None:
    text = "noise_multiplier,sampling_rate\n" + "".join(f"{1 + k % 2},0.01\n" for k in range(MAX_ENTRIES + 1))
    with pytest.raises(InputError, match=f"expected 1 to {MAX_ENTRIES:,} stages.*found {MAX_ENTRIES + 1:,}"):
        imported(text)


def test_whom_the_noise_protects_is_not_made_up() -> None:
    with pytest.raises(InputError, match="--adjacency"):
        imported(GOOD, replace(STATED, adjacency=None))
    assert 'adjacency = "replace-one"' in imported(GOOD, replace(STATED, adjacency="replace-one"))


def test_it_costs_what_its_rows_cost_written_out() -> None:
    found = dpcli.account(
        read_text(imported("steps,noise_multiplier,sampling_rate\n100,1.0,0.01\n300,2.0,0.02\n"), "a.toml"), ["rdp"]
    )
    entry = (
        '[[mechanism]]\nname = "{}"\ntype = "gaussian"\nnoise_multiplier = {}\nsteps = {}\n'
        'sampling = {{ scheme = "poisson", rate = {} }}\n'
    )
    head = 'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-6\nreleases = "all-checkpoints"\n'
    plain = head + entry.format("a", 1.0, 100, 0.01) + entry.format("b", 2.0, 300, 0.02)
    assert found.upper == dpcli.account(read_text(plain, "b.toml"), ["rdp"]).upper


SAID = ("--sampling", "poisson", "--adjacency", "add-remove")
GOOD = "noise_multiplier,sampling_rate\n1.0,0.01\n"
BAD = {
    "nothing": "",
    "no head": "1.0,0.01\n1.0,0.01\n",
    "no rows": "noise_multiplier,sampling_rate\n",
    "no noise": "sampling_rate,steps\n0.01,3\n",
    "no sampling": "noise_multiplier,steps\n1.0,3\n",
    "a column twice": "noise_multiplier,sampling_rate,steps,steps\n1.0,0.01,3,4\n",
    "steps by another name": "noise_multiplier,sampling_rate,count\n1.0,0.01,300\n",
    "an unnamed column": "noise_multiplier,sampling_rate,\n1.0,0.01,300\n",
    "a short row": "noise_multiplier,sampling_rate,steps\n1.0,0.01\n",
    "a long row": "noise_multiplier,sampling_rate\n1,0,0.01\n",
    "semicolons": "noise_multiplier;sampling_rate\n1.0;0.01\n",
    "a word": GOOD + "high,0.01\n",
    "no number": GOOD + ",0.01\n",
    "no noise at all": GOOD + "nan,0.01\n",
    "infinite noise": GOOD + "inf,0.01\n",
    "negative noise": GOOD + "-1.0,0.01\n",
    "noise of nothing": GOOD + "0,0.01\n",
    "a rate above one": GOOD + "1.0,1.01\n",
    "a negative rate": GOOD + "1.0,-0.01\n",
    "half a step": "noise_multiplier,sampling_rate,steps\n1.0,0.01,0.5\n",
    "steps taken back": "noise_multiplier,sampling_rate,steps\n1.0,0.01,5\n1.0,0.01,-4\n",
    "no steps": "noise_multiplier,sampling_rate,steps\n1.0,0.01,5\n2.0,0.01,0\n",
    "more steps than there can be": "noise_multiplier,sampling_rate,steps\n1.0,0.01," + "9" * 400 + "\n",
    "an open quote": GOOD + '"1.0,0.01\n',
    "too many": "noise_multiplier,sampling_rate\n" + "1,0.01\n2,0.01\n" * (MAX_ENTRIES // 2 + 1),
}


@pytest.mark.long
@of_each("name", BAD)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, InvalidFile)):
        imported(BAD[name])
    path = tmp_path / "bad.csv"
    path.write_text(BAD[name])
    done = run("import", "schedule", str(path), *SAID, "--dataset-size", "60000")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.strip().splitlines()) == 1 and str(path) in done.err


def test_not_text() -> None:
    with pytest.raises(InputError, match="UTF-8"):
        file_of_schedule(b"\xff\xfe", STATED, (), "a.csv")


def test_what_says_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("loss," + GOOD.replace("\n1.0", "\n0.7,1.0"))
    refused = run("import", "schedule", str(path), *SAID)
    assert refused.code == 2 and "found loss too" in refused.err and all(name in refused.err for name in COLUMNS)
    made = run("import", "schedule", str(path), *SAID, "--ignore", "loss", "--delta", "1e-6")
    assert made.code == 0 and stages(made.out) == [(1.0, 0.01, None, 1)]
