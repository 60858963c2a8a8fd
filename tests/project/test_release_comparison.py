"""The site's page that compares releases: every piece of code in the column of dpcli runs, and gives what its row says."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dpcli
from dpcli.release.plugin import MEASURES
from dpcli.release.query_answer import stored_answers
from tests.command import ROOT
from tests.command import dpcli as run
from tests.inline import text_of

PAGE = (ROOT / ".github" / "docs" / "release-comparison.md").read_text("utf-8")
SYSTEMS = ["", "dpcli", "OpenDP", "Tumult Analytics", "PipelineDP", "SmartNoise SQL"]
COSTS = {"epsilon", "rho", "weight", "error"}
STATES, REASONS = ["CA", "NY", "TX", "WA"], {"check-up", "cold", "injury", "vaccination"}
KEYS: dict[str, list[Any]] = {
    "state": STATES,
    "month": list(range(1, 13)),
    "dear": [False, True],
    "senior": [False, True],
    "region": ["west", "south", "east"],
}
LEDGER = ("--adjacency", "add-remove", "--epsilon", "10")
OPENED = {
    "visits.db": ("--dataset", "visits", "--unit", "patient", "--delta", "1e-6", "--filter", "zcdp"),
    "weeks.db": (
        *("--dataset", "clinic", "--unit", "patient-week", "--delta", "0", "--filter", "approx-dp"),
        *("--blocks", "week", "--column", "day", "--max-blocks", "1"),
    ),
}


def rows() -> list[list[str]]:
    """Every row of the tables of features, by cells."""
    tables = PAGE.partition("## ")[2].partition("## Error beside OpenDP")[0]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in tables.splitlines() if line.startswith("|")]
    assert all(len(row) == len(SYSTEMS) for row in cells), [row for row in cells if len(row) != len(SYSTEMS)]
    assert cells.count(SYSTEMS) == tables.count("| --- |\n") > 5
    return [row for row in cells if row != SYSTEMS and set(row) != {"---"}]


def table() -> Any:
    """The shipped visits, with a day for each of them."""
    import duckdb

    dated = "SELECT *, DATE '2026-01-01' + CAST(7 * (row_number() OVER ()) % 360 AS INTEGER) AS day"
    return duckdb.connect().sql(f"{dated} FROM read_csv('{ROOT / 'examples' / 'visits.csv'}')")


def expected_keys(query: dict[str, Any], words: str) -> list[tuple[Any, ...]] | None:
    """The keys of an answer; None where the data decide which are shown."""
    if query.get("keys") == "threshold" or query["measure"] == "threshold":
        return None
    if query["measure"] == "linear":
        return [(place,) for place in range(1, len(query["matrix"]) + 1)]
    keys: list[tuple[Any, ...]] = [()]
    for name in query.get("by", []):
        keys = [(*key, value) for key in keys for value in KEYS[name]]
    if query["measure"] == "histogram":
        edges = query["bins"]
        keys = [(*key, f"[{low}, {high}{']' if high == edges[-1] else ')'}") for key in keys for low, high in pairwise(edges)]
    if query["measure"] == "quantile":
        keys = [(*key, str(share)) for key in keys for share in query.get("quantiles", [0.5])]
    if query["measure"] == "top-k":
        keys = [(*key, place) for key in keys for place in range(1, query["top"] + 1)]
    return [*keys, ("total",)] if query.get("totals") else keys


def require_answer(query: dict[str, Any], answer: Any, words: str) -> None:
    """Compare the keys of an answer with those of its question, and the kind of its values with its measure."""
    assert (answer.measure, answer.query) == (query["measure"], query["name"]), words
    shown, expected = [row.key for row in answer.rows], expected_keys(query, words)
    if expected is None:
        possible = {(value,) for value in (REASONS if query.get("by") else STATES)}
        assert shown and set(shown) <= possible, (words, shown)
    else:
        assert sorted(map(str, shown)) == sorted(map(str, expected)), (words, shown)
    for row in answer.rows:
        if query["measure"] in ("mode", "top-k"):
            assert row.value in (REASONS | set(STATES) | {None, False, True}), (words, row)
        elif query["measure"] == "threshold":
            assert isinstance(row.value, bool), (words, row)
        elif row.value is not None or not query["measure"].startswith(("stable", "clustered")):
            assert math.isfinite(row.value), (words, row)
            assert row.lower is None or row.lower <= row.value <= row.upper, (words, row)


def asked(words: str, place: int) -> dict[str, Any]:
    """The page's file with the queries of a cell."""
    document = tomllib.loads(re.findall(r"(?ms)^```toml visits.toml\n(.*?)^```$", PAGE)[0])
    queries = []
    for code in re.findall("`([^`]+)`", words):
        keys = tomllib.loads(f"keys = {{ {code} }}")["keys"]
        if "measure" in keys:
            cost = {} if COSTS & set(keys) else {"epsilon": 1}
            queries.append({"name": f"q{place}-{len(queries)}", **keys, **cost})
        else:
            document["source"]["columns"] |= keys.pop("columns", {})
            document["privacy"] |= keys.pop("privacy", {})
            document["source"] |= keys
    return {**document, "name": f"row-{place}", "query": queries}


def require_command(code: str, folder: Path) -> None:
    """Run a command. A release that is asked for again is answered alike."""
    _, *words = shlex.split(code)
    for name, options in OPENED.items():
        if name in words and not (folder / name).exists():
            assert run("budget", "init", name, *LEDGER, *options, folder=folder).code == 0
    first = run(*words, folder=folder)
    assert first.code == 0 and first.out, (code, first.err)
    if words[0] == "release":
        again = run(*words, folder=folder).out
        assert again == first.out if "-f" in words else "this call charged nothing" in again or "--dry-run" in words, code
    if "-f" in words:
        header, *lines = first.out.splitlines()
        assert header.startswith("query,measure,state,value,lower,upper") and len(lines) == len(STATES), first.out


@pytest.mark.nightly
@pytest.mark.needs("duckdb", "sqlglot", "opendp", "pandas")
def test_what_the_page_says_of_dpcli_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table().write_csv(str(tmp_path / "visits.csv"))
    table().write_parquet(str(tmp_path / "visits.parquet"))
    (tmp_path / "visits.toml").write_text(re.findall(r"(?ms)^```toml visits.toml\n(.*?)^```$", PAGE)[0])
    for name in ("clinic-weeks.toml", "clinic-weeks.csv"):
        (tmp_path / name).write_bytes((ROOT / "examples" / name).read_bytes())
    (tmp_path / "regions.csv").write_text("state,region\nCA,west\nWA,west\nTX,south\nNY,east\n")
    measures, commands = set(), 0
    for place, (feature, words, *_) in enumerate(rows()):
        for code in re.findall("`(dpcli[^`]*)`", words):
            commands += 1
            shutil.rmtree("runs", ignore_errors=True)  # what another row asked for
            if code.startswith("dpcli "):
                require_command(code, tmp_path)
            else:
                assert len(eval(code, {"dpcli": dpcli, "table": table()})) > 0, code
        if "measure = " in words:
            document = asked(words, place)
            (tmp_path / f"{place}.toml").write_bytes(text_of(document))
            answered = run("release", f"{place}.toml", folder=tmp_path)
            assert answered.code == 0, (feature, answered.err)
            stored = stored_answers(str(tmp_path / "runs" / document["name"]))
            assert stored is not None, feature
            for query, answer in zip(document["query"], stored.answers, strict=True):
                require_answer(query, answer, feature)
                measures.add(query["measure"])
    assert measures >= set(MEASURES) - {"interquartile-range"} and commands > 8
