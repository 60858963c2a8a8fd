"""Tests of sessions/unit_check.py: a column whose name contradicts the protected unit is refused, and no other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.release.release_run import release
from dpcli.sessions.unit_check import PARTS, require_bounded
from dpcli.sessions.window import over_window
from tests.cases import of_each
from tests.release.window.windows import COUNT, REGIONS, csv, family, ledger, planned

PEOPLE = ("patient", "user", "visitor", "household", "Kunde")
SPELLED = ("{0}", "{0}_id", "{0}-id", "{0}Id", "{0}s", "{0} number")


def refused(unit: str | None, column: str | None, blocks: BlockFamily | None = None) -> bool:
    try:
        require_bounded(unit, column, blocks, "file.toml")
    except InputError:
        return True
    return False


@of_each("person, spelled", [(person, spelled) for person in PEOPLE for spelled in SPELLED])
def test_one_name_in_any_spelling_is_one_unit(person: str, spelled: str) -> None:
    for blocks in (None, *(family(by, max_blocks=most) for by in ("day", "week", "region") for most in (1, 4))):
        assert not refused(person, spelled.format(person), blocks)
        assert not refused(person, "cookie", blocks)
        assert not refused(f"active {person}", spelled.format(person), blocks)


@of_each("part, person", [(part, person) for part in sorted(PARTS) for person in PEOPLE])
def test_a_part_of_a_person_is_bounded_in_its_own_blocks_alone(part: str, person: str) -> None:
    """With other blocks, or without a ledger, it is refused, whatever the name of the column says."""
    for column in (person, f"{person}_id", "cookie"):
        for unit in (f"{person}-{part}", f"{person}_{part}s", f"{part} of a {person}"):
            for blocks in (None, *(family(by, "visit_day", most) for by in ("day", "week", "region") for most in (1, 4))):
                own = blocks is not None and blocks.max_blocks == 1 and blocks.by == part
                assert refused(unit, column, blocks) != own, (unit, column, blocks)
    assert refused(f"{person}{part}", person)
    assert refused(part, person, family(part) if part in ("day", "week") else None)


@of_each("part, person", [(part, person) for part in sorted(PARTS) for person in PEOPLE])
def test_a_person_is_not_what_a_column_of_parts_says(part: str, person: str) -> None:
    for blocks in (None, family("week"), family("week", max_blocks=4)):
        assert refused(person, f"{person}_{part}", blocks)
    assert not refused(f"{person}-{part}", f"{person}_{part}")


def test_a_part_that_the_column_of_the_blocks_names() -> None:
    clinics = BlockFamily("region", "clinic", 1, REGIONS)
    assert not refused("patient-clinic", "patient", clinics) and not refused("patient-region", "patient", clinics)
    assert refused("patient-ward", "patient", clinics) and refused("clinic", "patient", clinics)
    assert refused("patient-clinic", "patient") and refused("patient-clinic", "patient", family("day"))


@pytest.mark.needs("duckdb", "opendp", "sqlglot")
@pytest.mark.parametrize("unit", ["visitor-month", "visitor-week"])
def test_nothing_is_charged_or_answered_for_another_unit(unit: str, tmp_path: Path) -> None:
    csv(tmp_path, random.Random(1))
    plan = planned(tmp_path, COUNT, ("unit", unit))
    with pytest.raises(InputError, match=r'source\.unit: expected the column that says which "visitor-'):
        release(plan)
    with ledger(str(tmp_path / "l.db"), unit=unit) as books:
        with pytest.raises(InputError, match=r"source\.unit: expected the column"):
            release(over_window(plan, books, ["2020-12-20"]), books)
        assert not books.state().runs
    with ledger(str(tmp_path / "days.db"), unit="visitor-day") as books:
        days = planned(tmp_path, COUNT, ("unit", "visitor-day"))
        assert release(over_window(days, books, ["2020-12-20"]), books).fresh
