"""Tests of the commands `dpcli budget` as a user types them: output, exit codes and formats."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from unittest import mock

import pytest

from dpcli.base.lazy import load
from dpcli.ledger.plugin import BLOCKS, FILTERS
from dpcli.ledger.stores import places
from tests.cases import of_each
from tests.command import Result, dpcli
from tests.ledger.filters.setting import DATASET, charge, terms

FILE = """
format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
[[mechanism]]
name = "count"
type = "pure-dp"
epsilon = 0.1
"""


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.db")
    assert init(path).code == 0
    return path


@pytest.fixture
def run(tmp_path: Path) -> str:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return str(path)


def init(path: str, *more: str, epsilon: str = "1", name: str = "approx-dp", dataset: str = "visits") -> Result:
    terms = {"--dataset": dataset, "--unit": "user", "--adjacency": "add-remove", "--epsilon": epsilon, "--delta": "1e-6"}
    terms = {flag: value for flag, value in {**terms, "--filter": name}.items() if flag not in more}
    return dpcli("budget", "init", path, *(word for term in terms.items() for word in term), *more)


def budget(*arguments: str) -> Result:
    return dpcli("budget", *arguments)


def test_ten_runs_of_a_tenth_fit_and_the_eleventh_does_not(ledger: str, run: str) -> None:
    for i in range(10):
        assert budget("spend", ledger, run, "--key", f"run-{i}").code == 0
    before = budget("export", ledger).out
    denied = budget("spend", ledger, run, "--key", "run-10")
    assert denied.code == 1
    assert denied.out.startswith(
        "denied, and nothing was written: the run costs 0.10000 of epsilon (10.0 % of the cap); 0 of 1.0000 is left"
    )
    assert budget("export", ledger).out == before


def test_a_denial_has_a_machine_form(ledger: str, tmp_path: Path) -> None:
    big = tmp_path / "big.toml"
    big.write_text(FILE.replace("0.1", "1.5"))
    result = budget("spend", ledger, str(big), "--key", "big", "-f", "json")
    found = json.loads(result.out)
    assert (result.code, found["exit_code"], found["granted"], found["spent"]["epsilon"]) == (1, 1, False, "0")
    assert "0.50000 too little" in found["reason"]


def test_a_retry_is_not_charged_again_and_another_run_is_a_conflict(ledger: str, run: str, tmp_path: Path) -> None:
    assert budget("spend", ledger, run, "--key", "a").out.startswith(
        'charged "a": 0.10000 of epsilon, entry 2; 90.0 % of the cap is left'
    )
    again = budget("spend", ledger, run, "--key", "a")
    assert again.code == 0 and again.out.startswith('"a" was charged before, by entry 2 of ')
    assert again.err.startswith('dpcli: "a" was charged before, by entry 2 of ') and "nothing is charged now" in again.err
    once = budget("spend", ledger, run, "--key", "a", "--once")
    assert once.code == 4 and 'key "a": expected a run that was not charged before' in once.err
    assert budget("spend", ledger, run, "--key", "b", "--once").code == 0
    other = tmp_path / "other.toml"
    other.write_text(FILE.replace("0.1", "0.2"))
    conflict = budget("spend", ledger, str(other), "--key", "a")
    assert conflict.code == 4
    assert 'key "a": expected the run that entry 2 charged under it' in conflict.err


def test_a_long_run(ledger: str, run: str) -> None:
    assert budget("reserve", ledger, run, "--key", "long", "--expires", "14d").code == 0
    assert "10.0 % of the cap is reserved" in budget("show", ledger).out
    assert budget("start", ledger, "long").code == 0
    refused = budget("void", ledger, "long", "--reason", "changed my mind")
    assert (refused.code, "found a run that is started" in refused.err) == (4, True)
    assert budget("commit", ledger, "long").code == 0
    assert "long" in budget("show", ledger).out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv", "total"])
def test_what_is_charged_once_is_told_in_every_format(form: str, ledger: str, run: str) -> None:
    for kind, first, second in (("spend", (), ()), ("reserve", ("--expires", "14d"), ("--expires", "20d"))):
        assert budget(kind, ledger, run, "--key", kind, *first, "-f", form).err == ""
        again = budget(kind, ledger, run, "--key", kind, *second, "-f", form)
        assert again.code == 0 and again.err.count("was charged before") == 1
        assert ("keeps the --expires of its reservation" in again.err) == (kind == "reserve")
        if form == "json":
            told = json.loads(again.out)["told"]
            assert len(told) == 1 + (kind == "reserve") and "nothing is charged now" in told[0]


def test_a_commit_without_a_start_says_why(ledger: str, run: str) -> None:
    assert budget("reserve", ledger, run, "--key", "long").code == 0
    refused = budget("commit", ledger, "long")
    assert refused.code == 2 and 'as "long" was never started' in refused.err
    assert budget("commit", ledger, "long", "--reason", "it ran on the other cluster").code == 0
    assert budget("commit", ledger, "long").code == 0  # said again


def test_void_gives_back_and_keeps_the_reason(ledger: str, run: str) -> None:
    budget("reserve", ledger, run, "--key", "long")
    assert "100.0 % of the cap is left" in budget("void", ledger, "long", "--reason", "machine was lost before the start").out
    assert "machine was lost" in budget("log", ledger).out
    assert budget("reserve", ledger, run, "--key", "long").code == 4  # its key is used up


def test_amend_is_an_entry(ledger: str, run: str) -> None:
    down = ("amend", ledger, "--epsilon", "0.05", "--reason", "stricter", "--approver", "dpo")
    refused = budget(*down)
    assert (refused.code, "does not change the guarantee for earlier runs" in refused.err) == (2, True)
    assert "is the largest cap so far, epsilon 1.0" in budget(*down, "--acknowledge").out
    assert budget("spend", ledger, run, "--key", "a").code == 1
    assert budget("amend", ledger, "--epsilon", "2", "--reason", "wider", "--approver", "dpo").code == 0
    assert budget("spend", ledger, run, "--key", "a").code == 0
    assert "wider (stated approver: dpo)" in budget("log", ledger, "-f", "text").out


def test_show_is_one_glance(ledger: str, run: str) -> None:
    budget("spend", ledger, run, "--key", "first", "--reason", "weekly")
    out = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", budget("show", ledger).out)
    lines = out.splitlines()
    assert lines[0] == (
        "visits: 10.0 % of the cap is used: epsilon 1.0 at delta = 1e-06 (per user, add-remove; adaptive, filter: approx-dp); "
        "90.0 % of the approx-dp cap is left"
    )
    assert lines[1] == "[#####.............................................] 10.0 % of the cap"
    assert lines[4].split()[:5] == ["first", "committed", "10.0", "%", "0.10000"]
    assert lines[-2] == 'still fits: 9 more like the last run, "first" (0.10000 of epsilon each)'
    assert lines[-1] == "largest pure epsilon that fits in one run: 0.90000"


def test_show_with_an_odometer(ledger: str, run: str) -> None:
    for key in ("first", "second"):
        budget("spend", ledger, run, "--key", key)
    lines = budget("show", ledger, "--odometer").out.splitlines()
    assert [line.rsplit(maxsplit=2)[1:] for line in lines[3:7]] == [
        ["epsilon", "delta"],
        ["0.20000", "1e-06"],
        ["1.0", "1e-06"],
        ["0.20000", "1e-06"],
    ]
    assert json.loads(budget("show", ledger, "--odometer", "-f", "json").out)["odometer"].keys() == {"epsilon", "epsilon_if_fixed"}
    assert "odometer" not in json.loads(budget("show", ledger, "-f", "json").out)


def test_verify_and_anchor(ledger: str, run: str, tmp_path: Path) -> None:
    old = Path(ledger).read_bytes()
    budget("spend", ledger, run, "--key", "a")
    anchor = tmp_path / "anchor.json"
    assert budget("anchor", ledger, "-o", f"json={anchor}").code == 0
    assert "2 entries intact" in budget("verify", ledger, "--anchor", str(anchor)).out
    Path(ledger).write_bytes(old)
    assert budget("verify", ledger).code == 0  # no chain can tell by itself
    restored = budget("verify", ledger, "--anchor", str(anchor))
    assert (restored.code, "an old backup was restored" in restored.err) == (4, True)


def test_an_anchor_of_another_history_is_found(ledger: str, run: str, tmp_path: Path) -> None:
    budget("spend", ledger, run, "--key", "a")
    anchor = tmp_path / "anchor.json"
    found = json.loads(budget("anchor", ledger).out)
    anchor.write_text(json.dumps({**found, "hash": "0" * 64}))
    result = budget("verify", ledger, "--anchor", str(anchor))
    assert (result.code, "the history was replaced" in result.err) == (4, True)
    anchor.write_text("{}")
    assert budget("verify", ledger, "--anchor", str(anchor)).code == 2


def test_a_cost_that_this_version_finds_larger_fails_verify(ledger: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.ledger.filters.currencies import ApproxFilter
    from dpcli.ledger.filters.filter import Cost

    budget("spend", ledger, run, "--key", "a")
    monkeypatch.setattr(ApproxFilter, "cost", lambda self, pipeline, delta: Cost({"epsilon": "0.11", "delta": "0"}, ""))
    result = budget("verify", ledger)
    assert (result.code, "1 problem: more was spent than the entries state" in result.out) == (1, True)


def test_the_export_can_be_checked_by_anybody(ledger: str, run: str) -> None:
    import hashlib

    budget("spend", ledger, run, "--key", "a")
    before = "0" * 64
    for entry in json.loads(budget("export", ledger).out)["entries"]:
        assert hashlib.sha256(entry["body"].encode()).hexdigest() == entry["hash"]
        assert json.loads(entry["body"])["previous"] == before
        before = entry["hash"]


@of_each("name", ["json", "jsonl", "csv", "markdown"])
def test_export_formats(ledger: str, name: str) -> None:
    assert "open" in budget("export", ledger, "-f", name).out


def test_show_as_a_page_has_the_burn_down(ledger: str, run: str, tmp_path: Path) -> None:
    page = tmp_path / "show.html"
    for key, day in zip("abc", ("9036-01-02", "9036-03-04", "9036-07-05"), strict=True):
        with mock.patch("dpcli.ledger.stores.sqlite.utc_now", return_value=f"{day}T06:07:08Z"):
            budget("spend", ledger, run, "--key", key)
    assert budget("show", ledger, "-o", f"html={page}").code == 0
    text = page.read_text()
    assert "<svg" in text
    assert "now 70.0 % left" in text
    assert "to about (9036-07-05T06:07:08Z, 70)" in text


@of_each("name", FILTERS)
def test_every_filter_opens_and_charges(name: str, tmp_path: Path, run: str) -> None:
    path = str(tmp_path / "other.db")
    assert init(path, epsilon="3", name=name).code == 0
    assert budget("spend", path, run, "--key", "a").code == 0
    assert budget("verify", path).code == 0


@of_each(
    "change, words",
    [
        (('unit = "user"', 'unit = "household"'), "privacy.unit"),
        (('"add-remove"', '"replace-one"'), "privacy.adjacency"),
    ],
)
def test_another_unit_or_adjacency_is_refused(ledger: str, tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "other.toml"
    path.write_text(FILE.replace(*change))
    result = budget("spend", ledger, str(path), "--key", "a")
    assert result.code == 2
    assert words in result.err
    assert "DP103" in result.err


@of_each(
    "flags, code, words",
    [
        (("--epsilon", "0"), 2, "--epsilon"),
        (("--epsilon", "nan"), 2, "--epsilon"),
        (("--delta", "1"), 2, "--delta"),
        (("--adjacency", "bounded"), 2, "--adjacency"),
        (("--filter", "pld"), 2, "rdp: Renyi DP at one order"),
        (("--order", "5"), 2, "--order"),
        (("--dataset", ""), 2, "--dataset"),
        (("--dataset-size", "1000000"), 2, "DP105"),
        (("--dataset-size", "1" + "0" * 400), 2, "--dataset-size"),
        (("--declare", "x.toml"), 2, "--declare"),
    ],
)
def test_a_ledger_that_makes_no_sense_is_not_opened(tmp_path: Path, flags: tuple[str, str], code: int, words: str) -> None:
    path = tmp_path / "other.db"
    result = init(str(path), *flags)
    assert (result.code, words in result.err) == (code, True), result.err
    assert not path.exists()


def test_several_datasets_in_one_file(ledger: str, run: str) -> None:
    assert init(ledger, dataset="clicks").code == 0
    unnamed = budget("show", ledger)
    assert (unnamed.code, "clicks, visits" in unnamed.err) == (2, True)
    assert budget("spend", ledger, run, "--key", "a", "--dataset", "clicks").code == 0
    assert "100.0 % of the approx-dp cap is left" in budget("show", ledger, "--dataset", "visits").out


def test_declared_runs_are_composed_as_a_whole(tmp_path: Path, run: str) -> None:
    path = str(tmp_path / "l.db")
    terms = ("--unit", "user", "--adjacency", "add-remove", "--delta", "1e-6", "--mode", "declared", "--dataset", "visits")
    too_many = budget("init", path, *terms, "--epsilon", "1", "--declare", f"{run}:30")
    assert (too_many.code, "above the cap 1.0" in too_many.err, Path(path).exists()) == (1, True, False)
    assert budget("init", path, *terms, "--epsilon", "1", "--declare", f"{run}:2").code == 0
    assert budget("spend", path, run, "--key", "a").code == 0
    assert budget("spend", path, run, "--key", "b").code == 0
    denied = budget("spend", path, run, "--key", "c")
    assert (denied.code, "declared 2 times, and was already made 2 times" in denied.out) == (1, True)
    assert budget("amend", path, "--epsilon", "9", "--reason", "r", "--approver", "a").code == 2
    assert budget("verify", path).code == 0


@of_each("flags", [("--key", ""), ("--key", "a\x1b[31m"), ("--key", "x" * 300), ("--key", "a", "--delta", "2")])
def test_bad_requests(ledger: str, run: str, flags: tuple[str, ...]) -> None:
    assert budget("spend", ledger, run, *flags).code == 2


@of_each("text", ["soon", "2001-01-01", "0d", "99999999d", "14", "-3d"])
def test_bad_expiries(ledger: str, run: str, text: str) -> None:
    result = budget("reserve", ledger, run, "--key", "a", "--expires", text)
    assert (result.code, "--expires" in result.err) == (2, True)


def test_unknown_runs_and_datasets(ledger: str) -> None:
    assert budget("commit", ledger, "nobody").code == 4
    assert budget("show", ledger, "--dataset", "nothing").code == 4
    assert budget("show", "mysql://x/y").code == 2


@pytest.mark.long
def test_show_loads_nothing_heavy(ledger: str, run: str) -> None:
    import subprocess
    import sys

    budget("spend", ledger, run, "--key", "a")
    code = (
        "import sys, io, contextlib\nfrom dpcli.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    main(['budget', 'show', {ledger!r}])\n"
        "print(' '.join(sorted({m.split('.')[0] for m in sys.modules if '.' in m})))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"numpy", "scipy", "rich", "psycopg"}


def test_lint_reads_a_ledger(ledger: str, run: str) -> None:
    for key in ("a", "a-retry"):
        budget("spend", ledger, run, "--key", key)
    result = dpcli("lint", "--ledger", ledger)
    assert result.code == 0
    assert '#visits: warning DP404: entry 3: "a-retry" repeats the run of "a" (entry 2)' in result.out
    assert dpcli("lint", run, "--ledger", ledger, "-f", "sarif").code == 0
    assert dpcli("lint", "--ledger", ledger + ".not-here").code == 4
    assert dpcli("lint").code == 2


def test_a_cap_that_its_epsilon_does_not_allow_fails_verify(ledger: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.ledger.filters.currencies import ApproxFilter

    with monkeypatch.context() as wide:
        wide.setattr(ApproxFilter, "caps", lambda self, epsilon, delta: {"epsilon": "50", "delta": "0.1"})
        budget("amend", ledger, "--epsilon", "2", "--reason", "r", "--approver", "a")
    result = budget("verify", ledger)
    assert (result.code, "entry 2: a cap of 50 of epsilon for epsilon 2.0, this version finds 2" in result.out) == (1, True)


def test_a_file_has_no_teams(tmp_path: Path) -> None:
    result = init(str(tmp_path / "l.db"), "--team", "red")
    assert (result.code, "--team" in result.err) == (2, True)


@of_each("name", ["\ud800", "a\nb", " ", "x" * 201])
def test_names_that_no_dataset_has(ledger: str, name: str) -> None:
    assert budget("show", ledger, "--dataset", name).code == 2


BETWEEN = re.compile(r"epsilon_upper|epsilon_spent|epsilon so far|had all runs")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FILTERS)
def test_nothing_says_an_epsilon_so_far(name: str, tmp_path: Path, run: str) -> None:
    """At a moment that depends on outputs only the cap is a bound, so every output states shares of the cap."""
    from decimal import Decimal

    from dpcli.ledger.stores.places import open_ledger

    path = str(tmp_path / "other.db")
    init(path, epsilon="3", name=name)
    said = [
        budget("spend", path, run, "--key", key, "-f", form).out for key, form in (("a", "text"), ("b", "json"), ("c", "total"))
    ]
    said += [
        budget("show", path, "-f", form).out for form in ("text", "table", "json", "jsonl", "markdown", "csv", "total", "html")
    ]
    (tmp_path / "big.toml").write_text(FILE.replace("0.1", "50.0"))
    said += [budget("spend", path, str(tmp_path / "big.toml"), "--key", "d", "-f", form).out for form in ("text", "json", "total")]
    state = open_ledger(path).state()
    found = state.open_terms().the_filter.epsilon(state.spent, 1e-6)
    shares = {key: float(value / state.caps[key]) for key, value in state.spent.items()}
    for text in said:
        assert not BETWEEN.search(text), text
        if "epsilon" not in state.open_terms().the_filter.currency:
            assert f"{found:.4g}" not in text, text
    assert max(shares.values()) == pytest.approx(float(Decimal(budget("show", path, "-f", "total").out.strip())))
    balance = json.loads(budget("show", path, "-f", "json").out)
    assert balance["schema"] == "dpcli/budget/v2"
    assert balance["result"] == {"epsilon_cap": 3.0, "epsilon_guaranteed": 3.0, "guarantee": "cap", "delta": 1e-6}


def test_a_declared_plan_has_an_epsilon_and_it_is_named_so(tmp_path: Path, run: str) -> None:
    path = str(tmp_path / "l.db")
    terms = ("--unit", "user", "--adjacency", "add-remove", "--delta", "1e-6", "--mode", "declared", "--dataset", "visits")
    budget("init", path, *terms, "--epsilon", "1", "--declare", f"{run}:2")
    before, after = (
        budget("show", path, "-f", "json"),
        (budget("spend", path, run, "--key", "a"), budget("show", path, "-f", "json"))[1],
    )
    planned = json.loads(before.out)["result"]["epsilon_planned"]
    assert json.loads(after.out)["result"]["epsilon_planned"] == planned
    assert "50.0 % of the declared runs are made; all declared runs cost epsilon " in budget("show", path).out


@pytest.mark.parametrize("name", [name for name in FILTERS if "delta" in load(FILTERS[name]).currency])
def test_where_delta_is_what_is_used_up_it_is_said(name: str, tmp_path: Path) -> None:
    """A single run that takes most of delta gives a warning, and the advice works in every command."""
    path, file = str(tmp_path / "l.db"), tmp_path / "gauss.toml"
    assert init(path, epsilon="50", name=name).code == 0
    cap, spent = float(json.loads(budget("show", path, "-f", "json").out)["caps"]["delta"]), []
    for key, share in enumerate((0.01, 0.6, 0.6, 0.3)):
        stated = f"delta = {share * cap!r}\n"
        file.write_text(FILE.replace("[[m", f"{stated}[[m").replace("pure-dp", "approx-dp") + stated)
        spent.append(budget("spend", path, str(file), "--key", f"run-{key}"))
    assert [result.code for result in spent] == [0, 0, 1, 0]
    assert ["of the ledger's delta" in result.out for result in spent] == [False, True, False, False]
    for advice in ("delta does not fit: ", f"of it is left; set a smaller privacy.delta in {file}"):
        assert "".join(advice.split()) in "".join(spent[2].out.split())
    said = budget("show", path).out
    assert "delta will be used up first" in said and "--delta" not in said


COMPLETE = {"dataset": "d", "unit": "user-day", "adjacency": "add-remove", "epsilon": "1", "delta": "1e-6"}
OF_BLOCKS = {"names": {"block": "north"}, "count": {"block-count": "4"}, "": {}}


@of_each("blocks", [None, *BLOCKS])
@of_each("seed", range(12))
def test_all_that_a_new_ledger_lacks_is_told_at_once(blocks: str | None, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    of_blocks = {} if blocks is None else {"column": "day", "max-blocks": "1", **OF_BLOCKS[load(BLOCKS[blocks]).needs]}
    flags = {**COMPLETE, **of_blocks, "filter": "zcdp"}
    given = {name: value for name, value in flags.items() if draw.random() < (0.5 if seed else 0.0)}
    kept = [
        *([] if blocks is None else ["--blocks", blocks]),
        *(word for name, text in given.items() for word in (f"--{name}", text)),
    ]
    found = budget("init", str(tmp_path / "ledger.db"), *kept)
    missing = [name for name in flags if name not in given]
    assert (found.code, found.out) == (2 if missing else 0, "" if missing else found.out)
    assert re.findall(r"^(?:dpcli:|) *--([a-z-]+): state", found.err, re.MULTILINE) == missing
    assert not missing or not (tmp_path / "ledger.db").exists()


def test_a_declared_ledger_lacks_its_runs(tmp_path: Path) -> None:
    found = budget(
        "init", str(tmp_path / "ledger.db"), "--mode", "declared", *(w for n in ("unit", "delta") for w in (f"--{n}", COMPLETE[n]))
    )
    assert found.code == 2 and re.findall("--([a-z-]+): state", found.err) == ["dataset", "adjacency", "epsilon", "declare"]


def test_the_log_has_one_line_for_all_counts_of_a_session(tmp_path: Path) -> None:
    """The line is at the last count, with the total. JSON and CSV list every entry."""
    url = str(tmp_path / "ledger.db")
    with places.init(url, DATASET, terms()) as ledger:
        for key in ("one", "two"):
            charge(ledger, key, kind="reserve")
            ledger.start(key)
        for key, of, count in (("one", "answers", 3), ("two", "answers", 1), ("one", "queries", 2), ("one", "answers", 4)):
            ledger.count(key, of, count, 10)
    for fmt in ("text", "table"):
        lines = budget("log", url, "-f", fmt).out.splitlines()
        counts = [line.split() for line in lines if " count " in f"{line} "]
        assert [(seq, key, count, of) for seq, _, key, count, of, *_ in counts] == [
            ("7", "two", "1", "answers"),
            ("8", "one", "2", "queries"),
            ("9", "one", "7", "answers"),
        ]
    assert len(json.loads(budget("log", url, "-f", "json").out)["entries"]) == 9
    assert len(budget("log", url, "-f", "jsonl").out.splitlines()) == 9
