"""A year of a data platform: twenty people, five datasets, releases every day and trainings every week over windows of blocks.

    python -m tests.benchmarks.platform_year [--days 365] [--seed 1] [--keep FOLDER]

Each dataset is cut in another way (days, weeks, regions, parts of a hash, not at all). Every request is answered by the ledger, and by a
second book-keeper that keeps a dictionary of fractions: he must agree on each one. At the end no block is above its cap, `verify` finds
nothing, and the calendar of each dataset and the overview are left in FOLDER. CPU seconds are of this process. With the defaults the
days never refuse anybody, as what is new has a budget of its own; a dataset that is not cut takes 58 of 348 runs.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import click

from dpcli.base.errors import Denied
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import open_store
from dpcli.ledger.verify import verify
from tests.command import dpcli

FIRST = date(2026, 1, 1)
PEOPLE = [f"person-{index:02}" for index in range(20)]
HEAD = """format = 1
privacy = { unit = "user-day", max_contributions = 1, adjacency = "add-remove", releases = "outputs" }
[[mechanism]]
name = "it"
type = "gaussian"
noise_multiplier = """
REGIONS = ["east", "north", "south", "west"]


@dataclass(slots=True)
class Dataset:
    """flags: of `budget init`. window: of a run that looks back `days` on a day; none where the dataset is not cut."""

    name: str
    flags: tuple[str, ...]
    spent: dict[str, Fraction] = field(default_factory=dict)
    granted: int = 0
    denied: int = 0

    def window(self, day: date, days: int, draw: random.Random) -> tuple[str, ...]:
        back = [day - timedelta(index) for index in range(1, days + 1)]
        kind = self.flags[1] if self.flags else ""
        if kind == "day":
            return tuple(one.isoformat() for one in back)
        if kind == "week":
            return tuple({"{}-W{:02}".format(*one.isocalendar()[:2]) for one in back})
        if kind == "region":
            return tuple(draw.sample(REGIONS, draw.choice((1, 2, 4))))
        return tuple(str(index) for index in draw.sample(range(16), draw.choice((4, 16)))) if kind == "hash" else ()


DATASETS = (
    Dataset("visits", ("--blocks", "day", "--column", "day", "--max-blocks", "1")),
    Dataset("clicks", ("--blocks", "week", "--column", "day", "--max-blocks", "4")),
    Dataset(
        "sales", ("--blocks", "region", "--column", "region", "--max-blocks", "2", *(x for r in REGIONS for x in ("--block", r)))
    ),
    Dataset("users", ("--blocks", "hash", "--column", "user", "--max-blocks", "1", "--block-count", "16")),
    Dataset("survey", ()),
)


def requests(dataset: Dataset, days: int, draw: random.Random) -> Iterator[tuple[date, Pipeline, tuple[str, ...], str]]:
    """A release on most days, and a training on Mondays: the day, what is run, its window and who asks."""
    small, large = (
        parse(f"{HEAD}{noise}\n".encode(), "run.toml") for noise in (draw.choice((20.0, 30.0)), draw.choice((5.0, 8.0)))
    )
    for day in (FIRST + timedelta(index) for index in range(1, days)):
        if draw.random() < 0.8:
            yield day, small, dataset.window(day, draw.choice((1, 1, 7)), draw), draw.choice(PEOPLE)
        if day.isoweekday() == 1:
            yield day, large, dataset.window(day, 28, draw), draw.choice(PEOPLE)


def year(url: str, dataset: Dataset, days: int, draw: random.Random) -> float:
    """Every request of a dataset, by the ledger and by the book-keeper; the CPU seconds of the ledger's answers."""
    made = dpcli("budget", "init", url, "--dataset", dataset.name, "--unit", "user-day", "--adjacency", "add-remove", "--epsilon", "3",
                 "--delta", "1e-6", "--filter", "zcdp", *dataset.flags)  # fmt: skip
    assert made.code == 0, made.err
    store, seconds = open_store(url), 0.0
    for number, (day, pipeline, window, who) in enumerate(requests(dataset, days, draw)):
        now = datetime(day.year, day.month, day.day, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ledger = Ledger(store, dataset.name, who, lambda now=now: now)  # type: ignore[misc]
        cost = {name: Fraction(str(amount)) for name, amount in ledger.cost(pipeline)[0].amounts.items()}
        caps = {name: Fraction(str(cap)) for name, cap in ledger.state().caps.items()}
        blocks = ledger.window(window) or ("",)
        fits = all(dataset.spent.get(f"{name}@{block}", 0) + cost[name] <= caps[name] for name in cost for block in blocks)
        began = time.process_time()
        try:
            ledger.spend(pipeline, f"run-{number}", window=window)
            answer = True
        except Denied:
            answer = False
        seconds += time.process_time() - began
        assert answer is fits, (dataset.name, day, window)
        dataset.granted, dataset.denied = dataset.granted + answer, dataset.denied + (not answer)
        for block in blocks if answer else ():
            for name, amount in cost.items():
                dataset.spent[f"{name}@{block}"] = dataset.spent.get(f"{name}@{block}", Fraction(0)) + amount
    found = verify(Ledger(store, dataset.name))
    assert not found.problems, found
    store.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    asked = parser.parse_args()
    folder, draw = Path(asked.keep or tempfile.mkdtemp()), random.Random(asked.seed)
    folder.mkdir(exist_ok=True)
    url = str(folder / "platform.db")
    for dataset in DATASETS:
        seconds = year(url, dataset, asked.days, draw)
        runs = dataset.granted + dataset.denied
        said = f"{dataset.name:8} {dataset.granted:4} of {runs} runs granted, {dataset.denied} denied"
        click.echo(f"{said}; {1e3 * seconds / runs:.1f} ms of CPU each")
        dpcli("budget", "show", url, "--dataset", dataset.name, "-o", f"{folder / dataset.name}.svg", "-f", "total")
    click.echo(dpcli("budget", "overview", url, "-o", f"{folder / 'overview'}.html").out)


if __name__ == "__main__":
    main()
