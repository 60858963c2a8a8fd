"""Tests of plans (ledger/planning): charging the schedule gives the planned answers and balance, and every proposed change fits."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import Denied, InputError
from dpcli.file.pipeline.read import load
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.plan_changes import changes_of_plan
from dpcli.ledger.planning.plan_rehearsal import BEYOND, BudgetPlan, outlook_of, plan_of, window_on
from dpcli.ledger.planning.schedule import Rhythm, Schedule, ScheduledRun, Trailing, trailing_of
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.stores.places import init, open_ledger
from tests.cases import of_each
from tests.ledger.conftest import Place
from tests.ledger.filters.families import FAMILIES, terms
from tests.ledger.filters.setting import DATASET, charge, run_file
from tests.ledger.filters.setting import terms as plain

KINDS = ("", *BLOCKS)  # "" has no blocks
FIRST = date(2027, 12, 20)
OF_CALENDAR = ("day", "week")
EVERY = st.sampled_from([None, "day", "2 days", "week", "2 weeks", "month"])


@st.composite
def schedules(draw: st.DrawFn, by: str, folder: Path) -> Schedule:
    """Up to three tables: single runs and repeated ones, with windows of every form that the blocks allow."""
    runs = []
    for i in range(draw(st.integers(1, 3))):
        file = folder / f"run{i}.toml"
        file.write_text(run_file(draw(st.integers(1, 60)) / 100))
        every, first = draw(EVERY), FIRST + timedelta(draw(st.integers(0, 20)))
        ends = draw(st.sampled_from(["count", "to"])) if every else ""
        run = ScheduledRun(
            str(file),
            first,
            every,
            first + timedelta(draw(st.integers(0, 40))) if ends == "to" else None,
            draw(st.integers(1, 8)) if ends == "count" else None,
            draw(windows(by)),
        )
        runs.append(run)
    return Schedule(tuple(runs), "schedule.toml")


def windows(by: str) -> st.SearchStrategy[str | tuple[str, ...] | None]:
    if not by:
        return st.none()
    named = st.sets(st.sampled_from(FAMILIES[by][1]), min_size=1).map(lambda found: tuple(sorted(found)))
    if by not in OF_CALENDAR:
        return named
    moving = st.builds("last {} {}".format, st.integers(2, 9), st.sampled_from(["days", "weeks"]))
    return named | moving


def opened(url: str, by: str, most: int = 1, name: str = DATASET) -> Ledger:
    found = terms(by, most) if by else plain()
    ledger = init(url, name, replace(found, schema=""))
    if by:
        charge(ledger, "before", "0.3", window=FAMILIES[by][1][:2])
        charge(ledger, "reserved", "0.05", "reserve", window=FAMILIES[by][1][1:3])
        ledger.retire([FAMILIES[by][1][5]], "gone")
    else:
        charge(ledger, "before", "0.1")
        charge(ledger, "reserved", "0.05", "reserve")
    return ledger


def made(ledger: Ledger, plan: BudgetPlan) -> list[bool]:
    """What the ledger itself says to each run of the plan, in its order."""
    answers = []
    for i, run in enumerate(plan.runs):
        said = ""
        assert ledger.window(run.window) == run.window
        try:
            ledger.spend(load(plan.schedule.runs[run.position].file), f"made {i}", window=run.window)
        except Denied as no:
            said = str(no)
        assert run.why in said, (run.why, said)
        answers.append(not said)
    return answers


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", KINDS)
@given(data=st.data())
def test_a_plan_is_what_happens(by: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("plan")
    schedule = data.draw(schedules(by, folder))
    with opened(str(folder / "l.db"), by, data.draw(st.integers(1, 2)) if by in ("day", "week", "region") else 1) as ledger:
        head = ledger.state().head
        plan = plan_of(ledger, schedule)
        found = changes_of_plan(ledger, plan)
        assert ledger.state().head == head  # nothing was written
        assert [run.day for run in plan.runs] == sorted(run.day for run in plan.runs)
        assert made(ledger, plan) == [run.fits for run in plan.runs]
        state = ledger.state()
        assert state.spent == plan.after.spent and state.reserved == plan.after.reserved  # exact decimals
        assert state.charges - plan.before.charges == plan.fitting
        blocks = state.open_terms().blocks
    for i, each in enumerate(found):
        assert_fits(folder / f"{i}.db", by, changed(folder, plan, each.change), each.runs, blocks)


@pytest.mark.sampled(1)
@of_each("by", KINDS)
def test_a_plan_is_what_happens_in_every_store(by: str, place: Place, tmp_path: Path) -> None:
    """Random schedules: the runs that a plan says fit are the ones that each kind of store accepts."""
    seed = random.randrange(10**9)
    draw = random.Random(seed)
    for i in range(3):
        (tmp_path / f"{i}.toml").write_text(run_file(draw.randint(1, 40) / 100))
    with opened(place.url, by, name=f"data by {by or 'none'}") as ledger:
        plan = plan_of(ledger, Schedule(tuple(drawn(draw, by, tmp_path / f"{i}.toml") for i in range(3))))
        assert made(ledger, plan) == [run.fits for run in plan.runs], seed
        state = ledger.state()
        assert (state.spent, state.reserved) == (plan.after.spent, plan.after.reserved), seed


def drawn(draw: random.Random, by: str, file: Path) -> ScheduledRun:
    named = tuple(sorted(draw.sample(FAMILIES[by][1], draw.randint(1, 3)))) if by else ()
    moving = f"last {draw.randint(2, 9)} {draw.choice(['days', 'weeks'])}"
    window = None if not by else moving if by in OF_CALENDAR and draw.random() < 0.7 else named
    first = FIRST + timedelta(draw.randint(0, 20))
    return ScheduledRun(str(file), first, draw.choice(["day", "3 days", "week"]), None, draw.randint(2, 9), window)


def changed(folder: Path, plan: BudgetPlan, change: str) -> Schedule:
    assert plan.refused is not None
    place = plan.refused.position
    run = plan.schedule.runs[place]
    if found := re.match(r"count = (\d+) ", change):
        return plan.schedule.with_run(place, replace(run, last=None, count=int(found[1])))
    if found := re.match(r'(every|window) = "(.*?)" \(now', change):
        return plan.schedule.with_run(place, replace(run, **{found[1]: found[2]}))
    raise AssertionError(change)


def assert_fits(path: Path, by: str, schedule: Schedule, runs: int, blocks: object) -> None:
    most = blocks["max_blocks"] if isinstance(blocks, dict) else 1
    with opened(str(path), by, most) as ledger:
        plan = plan_of(ledger, schedule)
        assert len(plan.runs) == runs and made(ledger, plan) == [True] * runs


def weekly(folder: Path, epsilon: float, **stated: object) -> Schedule:
    file = folder / "weekly.toml"
    file.write_text(run_file(epsilon))
    run = ScheduledRun(str(file), date(2026, 2, 2), "week", None, 12, **stated)  # type: ignore[arg-type]
    return Schedule((run,), "schedule.toml")


@pytest.mark.long
def test_a_run_every_week_over_28_days_touches_each_block_four_times(place: Place, tmp_path: Path) -> None:
    init(place.url, DATASET, replace(terms("day"), schema="")).close()
    with open_ledger(place.url) as ledger:
        plan = plan_of(ledger, weekly(tmp_path, 0.25, window="last 28 days"))
        assert plan.refused is None and max(plan.runs_by_block.values()) == 4
        assert (
            plan.runs_by_block["2026-02-01"] == 4 and plan.runs_by_block["2026-01-05"] == 1 and "2026-02-02" in plan.runs_by_block
        )
        assert plan.runs[0].window[0] == "2026-01-05" and plan.runs[0].window[-1] == "2026-02-01"
        outlook = outlook_of(plan)
        assert outlook is not None and outlook.refused is None and outlook.fitting == BEYOND
        plan = plan_of(ledger, weekly(tmp_path, 0.26, window="last 28 days"))
        assert plan.refused is not None and plan.refused.day == date(2026, 2, 23) and plan.fitting_before_refused == 3
        assert "0.040000 too little, on 7 of the 28 blocks of its window (2026-01-26," in plan.refused.why
        assert plan.fitting == 9  # after the week without a run there is room for three again
        told = [each.change for each in changes_of_plan(ledger, plan)]
        assert told == ["count = 3 (now 12)", 'every = "2 weeks" (now "week")', 'window = "last 21 days" (now "last 28 days")']
        assert not [run.key for run in ledger.state().runs.values()]


def test_the_day_on_which_a_budget_is_used_up(tmp_path: Path) -> None:
    with init(str(tmp_path / "l.db"), DATASET, replace(plain(), schema="")) as ledger:
        plan = plan_of(ledger, weekly(tmp_path, 0.05))
        outlook = outlook_of(plan)
        assert plan.refused is None and outlook is not None and outlook.refused is not None
        assert outlook.refused.day == date(2026, 2, 2) + timedelta(7 * 20) and outlook.fitting == 20
        once = replace(plan.schedule.runs[0], every=None, count=None)
        assert outlook_of(plan_of(ledger, Schedule((once,)))) is None
        file = tmp_path / "dear.toml"
        file.write_text(run_file(5.0))
        alone = plan_of(ledger, Schedule((ScheduledRun(str(file), FIRST),)))
        assert alone.fitting == 0 and changes_of_plan(ledger, alone) == () and outlook_of(alone) is None


def test_noise_that_fits_a_whole_plan(tmp_path: Path) -> None:
    """The proposed noise is written into the file of the runs, and all of them fit."""
    text = run_file().replace('type = "pure-dp"\nepsilon = 0.01', 'type = "laplace"\nscale = 2.0\nsensitivity = 1.0')
    file = tmp_path / "noisy.toml"
    file.write_text(text)
    schedule = Schedule((ScheduledRun(str(file), FIRST, "day", None, 7),), "schedule.toml")
    with init(str(tmp_path / "l.db"), DATASET, replace(plain(), schema="")) as ledger:
        plan = plan_of(ledger, schedule)
        told = changes_of_plan(ledger, plan)
        assert plan.fitting_before_refused == 2 and told[0].change == "count = 2 (now 7)"
        found = re.match(r"scale = ([0-9.]+) in counts \(now 2\) of ", told[-1].change)
        assert found and told[-1].runs == 7
        file.write_text(text.replace("scale = 2.0", f"scale = {found[1]}"))
        assert all(made(ledger, plan_of(ledger, schedule)))


@of_each(
    "rhythm, first, days",
    [
        (Rhythm(1, "month"), date(2028, 1, 31), ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]),
        (Rhythm(5, "month"), date(2026, 9, 30), ["2026-09-30", "2027-02-28", "2027-07-30", "2027-12-30"]),
        (Rhythm(2, "week"), date(2026, 12, 28), ["2026-12-28", "2027-01-11", "2027-01-25", "2027-02-08"]),
        (Rhythm(1, "day"), date(9999, 12, 29), ["9999-12-29", "9999-12-30", "9999-12-31"]),
        (Rhythm(1, "month"), date(9999, 11, 30), ["9999-11-30", "9999-12-30"]),
    ],
)
def test_days(rhythm: Rhythm, first: date, days: Sequence[str]) -> None:
    found = [str(day) for day, _ in zip(rhythm.days(first), range(4), strict=False)]
    assert found == days


@given(
    by=st.sampled_from(OF_CALENDAR),
    count=st.integers(1, 60),
    unit=st.sampled_from(["day", "week"]),
    day=st.dates(date(1990, 1, 1), date(2100, 1, 1)),
)
def test_a_window_that_moves_holds_every_day_of_its_stretch(by: str, count: int, unit: str, day: date) -> None:
    """The blocks of "last N days" cover exactly the days up to the day before the run."""
    kind = replace(terms(by), schema="").family.kind  # type: ignore[union-attr]
    blocks = Trailing(count, unit).blocks(kind, day)
    days = [day - timedelta(back) for back in range(count * (7 if unit == "week" else 1), 0, -1)]
    if by == "week" and unit == "week":
        monday = day - timedelta(day.weekday())
        days = [monday - timedelta(back) for back in range(7 * count, 0, -1)]
        assert len(blocks) == count
    assert list(blocks) == list(dict.fromkeys(kind.of_day(each) for each in days))
    assert all(kind.first_day(block) <= each for block, each in [(blocks[0], days[0]), (blocks[-1], days[-1])])


@of_each("by", BLOCKS)
def test_days_and_blocks_are_one_calendar(by: str) -> None:
    kind = terms(by).family.kind  # type: ignore[union-attr]
    for block in FAMILIES[by][1]:
        first = kind.first_day(block)
        assert (first is None) == (by not in OF_CALENDAR)
        assert first is None or kind.of_day(first) == block
    assert trailing_of("last 1 day", kind) == Trailing(1, "day") and trailing_of(FAMILIES[by][1][0], kind) is None
    if by not in OF_CALENDAR:
        with pytest.raises(InputError, match="the blocks are not days or weeks"):
            Trailing(4, "week").blocks(kind, FIRST)


def test_windows_that_no_ledger_accepts_are_refused(tmp_path: Path) -> None:
    """Windows that every ledger would refuse are reported with the file of the run, before the schedule is walked."""
    with init(str(tmp_path / "l.db"), DATASET, replace(terms("day"), schema="")) as ledger:
        for window, said in {
            None: "expected the blocks of",
            "last 28 dayz": "expected a day as 2026-01-31, or FIRST..LAST, found 'last 28 dayz'",
            "last 9999 days": "expected a window of 1 to 2000 blocks, found 9999",
        }.items():
            with pytest.raises(InputError, match=re.escape(said)):
                plan_of(ledger, weekly(tmp_path, 0.1, window=window))
        early = Schedule((ScheduledRun(str(tmp_path / "weekly.toml"), date(1, 1, 3), window="last 28 days"),))
        with pytest.raises(InputError, match="expected days of the calendar"):
            plan_of(ledger, early)
        plan = plan_of(ledger, weekly(tmp_path, 0.1, window=("2026-01-05", "2026-01-01..2026-01-02")))
        assert window_on(ledger.state(), plan.priced[0], FIRST) == ("2026-01-01", "2026-01-02", "2026-01-05")
        file = tmp_path / "weekly.toml"
        stated = run_file(0.1).replace('releases = "outputs"\n', 'releases = "outputs"\nwindow = ["2026-01-01"]\n')
        file.write_text(stated)
        own = replace(plan.schedule.runs[0], window=None)
        assert plan_of(ledger, Schedule((own,))).runs_by_block == {"2026-01-01": 10}
        for other in ("2026-01-02", "last 2 days"):
            with pytest.raises(InputError, match="contradicts the window of"):
                plan_of(ledger, Schedule((replace(own, window=other),)))


def test_a_plan_that_nobody_could_wait_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(run_file(0.001))
    with opened(str(tmp_path / "l.db"), "day") as ledger:
        run = ScheduledRun(str(tmp_path / "run.toml"), date(2030, 1, 1), "day", None, 10_000, "last 2000 days")
        with pytest.raises(InputError, match=r"at most 2,000,000 blocks, counted once per run, found 20,000,000"):
            plan_of(ledger, Schedule((run,), "long.toml"))
        assert len(plan_of(ledger, Schedule((replace(run, count=3),), "long.toml")).runs) == 3
