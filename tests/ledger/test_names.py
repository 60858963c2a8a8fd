"""Names that people do not tell apart have one budget."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.looks import looks, mixed, strange
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger, open_store
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.conftest import Database, File
from tests.ledger.pipelines import pipeline
from tests.ledger.setting import charge, terms

HEAD = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\n'
QUERY = '[[mechanism]]\nname = "q"\ntype = "pure-dp"\nepsilon = 0.01\n'

ALIKE = ("ADS", "\u0430ds", "\u0410DS", "ad\u0455", "Ads", "\u00e4ds", "\u0251ds", "\u1d00ds", "a\u0111s", "ad\ua731")
SPELLED = ("ads ", " ads", "\uff41\uff44\uff53", "ads\u3000", "a\ufb06")


@pytest.mark.sampled(1)
def test_a_name_that_looks_like_another_needs_to_be_new(place: File | Database) -> None:
    init(place.url, "ads", terms()).store.close()
    for other in ALIKE:
        with pytest.raises(LedgerError, match="which looks like 'ads'"):
            init(place.url, other, terms())
    assert open_store(place.url).datasets() == ("ads",)
    for other in ALIKE:
        init(place.url, other, terms(), new=True).store.close()
    assert set(open_store(place.url).datasets()) == {"ads", *ALIKE}


@pytest.mark.long
def test_a_name_in_two_scripts_needs_to_be_new(place: File | Database) -> None:
    """No table of letters that look alike is whole; letters beside Latin ones are of East Asian scripts, or stand out."""
    init(place.url, "ads", terms()).store.close()
    for other in ("\u13aads", "ad\uabae", "\ua4d3ds"):
        with pytest.raises(LedgerError, match="expected a name in one script"):
            init(place.url, other, terms())
        init(place.url, other, terms(), new=True).store.close()
    for harmless in ("\u65e5\u672c data", "\u0434\u0430\u043d\u043d\u044b\u0435", "gr\u00f6\u00dfe"):
        init(place.url, harmless, terms()).store.close()


STRANGE = (
    *("ads\u2800", "ads\U0001d159", "ads\ufffc"),  # nothing to be seen
    *("\u13aa\u13a0\u13da", "\ua4d0\ua4d3\ua4e2", "\u2c81\u2c87\u2ca5", "\U00010412"),  # scripts of the past, or of few
    *("ads\u0968", "a\u0966", "\u10401", "\u0661"),  # other digits
    *("ads\u2043x", "ads\u00b7x", "ads\u2019s", "a\u2236b", "user\u2215x", "ads\u05bex"),  # other signs
    *("ads\u01c0", "a\ua78f", "\U0001f170ds"),
)


@pytest.mark.sampled(1)
def test_a_name_with_a_character_that_may_pass_for_another_needs_to_be_new(place: File | Database) -> None:
    """No table of what looks alike is whole: what is none of the letters that people write today is refused, whatever it looks like."""
    init(place.url, "ads", terms()).store.close()
    for other in STRANGE:
        with pytest.raises(LedgerError, match="--new opens it all the same"):
            init(place.url, other, terms())
    assert open_store(place.url).datasets() == ("ads",)
    for other in STRANGE[:: 1 if place.url.endswith(".db") else 4]:
        init(place.url, other, terms(), new=True).store.close()
        assert other in open_store(place.url).datasets()


def test_every_character_is_a_letter_in_use_or_strange() -> None:
    """What nobody sees, and every sign, symbol and digit beyond ASCII."""
    for number in range(128, 0x11000):
        c = chr(number)
        if not c.isprintable() or unicodedata.category(c)[0] not in "LM":
            assert strange(f"a{c}") == (c,), ascii(c)
    for name in (
        "visits 2026-01_v2.1 (eu)",
        "gr\u00f6\u00dfe",
        "\u65e5\u672c\u306e\u30c7\u30fc\u30bf",
        "\u0434\u0430\u043d\u043d\u044b\u0435",
        "\u0921\u0947\u091f\u093e",
        "\u0628\u064a\u0627\u0646\u0627\u062a",
        "\ub370\uc774\ud130",
        "\u05e0\u05ea\u05d5\u05e0\u05d9\u05dd",
    ):
        assert strange(name) == mixed(name) == (), name


def test_a_name_in_an_unusual_form_is_refused(place: File | Database) -> None:
    init(place.url, "first", terms()).store.close()
    for other in SPELLED:
        with pytest.raises(InputError, match=r"in its usual form|printable characters"):
            init(place.url, other, terms(), new=True)


@of_each("others", [("ads", "ads2"), ("clicks", "click"), ("day", "week"), ("a-2025", "a-2026"), ("users eu", "users us")])
def test_other_names_are_other_names(others: tuple[str, str]) -> None:
    assert looks(others[0]) != looks(others[1])


def test_the_flag(tmp_path: object) -> None:
    path = f"{tmp_path}/l.db"
    flags = ("--unit", "user", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "0", "--filter", "approx-dp")
    codes = [dpcli("budget", "init", path, "--dataset", *name, *flags).code for name in (["ads"], ["ADS"], ["ADS", "--new"])]
    assert codes == [0, 4, 0]


def test_damage_in_one_dataset_is_not_another_s(place: File | Database) -> None:
    """Neither for reading, verifying and charging, nor for opening a third one with a fingerprint."""

    for name in ("whole", "broken"):
        charge(init(place.url, name, terms()), "run")
    place.by_force("UPDATE entry SET body = replace(body, 'run', 'nur') WHERE dataset = 'broken' AND seq = 2")
    with pytest.raises(LedgerError):
        open_ledger(place.url, "broken").state()
    assert len(open_ledger(place.url, "whole").entries()) == 2
    charge(open_ledger(place.url, "whole"), "goes on")
    init(place.url, "third", replace(terms(), fingerprint="f" * 64)).store.close()


def test_the_end_of_another_chain_does_not_fail_verify(database: Database) -> None:

    for name in ("whole", "broken"):
        charge(init(database.url, name, terms()), "run")
    database.cluster.run(
        "BEGIN; ALTER TABLE dpcli.entry DISABLE TRIGGER never; DELETE FROM dpcli.entry WHERE dataset = 'broken' AND seq = 2; "
        "ALTER TABLE dpcli.entry ENABLE ALWAYS TRIGGER never; COMMIT",
        database=database.name,
    )
    assert verify(open_ledger(database.url, "whole")).problems == ()
    with pytest.raises(LedgerError, match="its entries end at 1"):
        verify(open_ledger(database.url, "broken"))


REQUESTS: dict[str, Callable[[Ledger, Pipeline], object]] = {
    "spend": lambda ledger, run: ledger.spend(run, "a"),
    "reserve": lambda ledger, run: ledger.reserve(run, "b"),
    "cost": lambda ledger, run: ledger.cost(run),
}


def test_a_file_of_one_dataset_is_charged_to_no_other(tmp_path: Path) -> None:
    """However it is asked, and however alike the names look; a file that names none is of the dataset that is charged."""
    url = str(tmp_path / "budget.db")
    with init(url, "ads", terms()) as ledger:
        for request in REQUESTS.values():
            for other in ("clicks", *ALIKE):
                with pytest.raises(InputError, match=r'privacy\.dataset: expected "ads", whose ledger this is, or none, found'):
                    request(ledger, named(other))
        assert len(ledger.entries()) == 1
        for request in REQUESTS.values():
            request(ledger, pipeline(QUERY, f'{HEAD}dataset = "ads"\n'))
        ledger.spend(pipeline(QUERY, HEAD), "c")
    (tmp_path / "other.toml").write_text(f'{HEAD}delta = 1e-6\ndataset = "clicks"\n{QUERY}')
    judged = dpcli("gate", "other.toml", "--max-epsilon", "9", "--ledger", url, folder=tmp_path)
    assert judged.code == 2 and 'expected "ads", whose ledger this is' in judged.err


def named(dataset: str) -> Pipeline:
    """A file that no reader may have seen."""
    found = pipeline(QUERY, HEAD)
    return replace(found, privacy=replace(found.privacy, dataset=dataset))
