"""Pages (document/formats/html.py) as a browser lays them out, at three widths: no word is broken, no page is wider than the window."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from dpcli.document.document import Document, Passage, Table
from dpcli.document.formats.html import render, style
from dpcli.exam.subjects import SEED
from tests.browser import faults, printed
from tests.cases import by_tier
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE, LARGE_DELTA, OVER

DEEP = "services/recommendations/pipelines/production-europe-west/advertising_click_through_rate"
FILES = {
    "pass.toml": GATE,
    "over.toml": OVER,
    "broken.toml": GATE.replace("scale =", "scal ="),
    "unknown.toml": GATE.replace("delta = 1e-8", "delta = 0.0"),
    f"{DEEP}/rule.toml": LARGE_DELTA,
}
LEDGER = (
    "budget init l.db --dataset clicks --unit user --adjacency add-remove --epsilon 20 --delta 1e-6 --filter zcdp",
    "budget spend l.db pass.toml --key first",
    f"budget reserve l.db over.toml --key {DEEP}@2030",
)
QUICK = (
    f"gate pass.toml over.toml broken.toml unknown.toml {DEEP}/rule.toml",
    "account over.toml",
    "budget show l.db",
)
LONG = (
    "account pass.toml over.toml",
    "account {examples}/mnist.toml -a all",
    "account {examples}/analytics.toml",
    "gate pass.toml",
    f"lint pass.toml over.toml broken.toml {DEEP}/rule.toml",
    "diff pass.toml over.toml",
    "explain pass.toml",
    "explain --demo",
    "diff {examples}/gate.toml {examples}/analytics.toml",
    "report pass.toml",
    "report {examples}/disclosure.toml",
    "report {examples}/disclosure.toml --registry",
    "report {examples}/federated.toml",
    "report {examples}/release.toml",
    "calibrate --solve steps -m train --target-epsilon 2 pass.toml",
    "calibrate-sigma --target-epsilon 3 --delta 1e-6 --batch-size 256 --dataset-size 60000 --steps 14063",
    "audit --canaries 1000 --guesses 100 --correct 98 --epsilon 0.1 --delta 1e-5",
    "pate account {examples}/pate-digits.toml",
    "pmixed account {examples}/pmixed.toml",
    "release {examples}/release.toml --dry-run",
    "budget log l.db",
    "budget verify l.db",
    "budget overview l.db",
    "doctor",
    "version",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pipeline files, one of them far down, and a ledger."""
    here = tmp_path_factory.mktemp("pages")
    (here / DEEP).mkdir(parents=True)
    for name, text in FILES.items():
        (here / name).write_text(text)
    for line in LEDGER:
        assert dpcli(*line.split(), folder=here).code == 0
    return here


def pages(lines: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the page that each command prints, by its line."""
    printed = {
        line: dpcli(*shlex.split(line.format(examples=ROOT / "examples")), "-f", "html", folder=folder).out for line in lines
    }
    assert all(printed.values())
    return printed


def drawn(random: Random) -> str:
    """Return a page with words, numbers, paths and hashes in tables of any number of columns."""
    kinds = (
        lambda: f"{random.choice(['FAIL', 'warning', 'UNKNOWN', 'pass', 'LEDGER ERROR'])}",
        lambda: f"{random.uniform(1, 9) * 10.0 ** random.randint(-12, 12):.4f}",
        lambda: f"epsilon <= {random.uniform(0, 9):.4f} at delta = 1e-{random.randint(3, 12):02}",
        lambda: "/".join(random.choices(["data", "recommendations", "click_through_rate", "europe-west", "x.toml"], k=8)),
        lambda: f"{random.getrandbits(256):064x}",
        lambda: "the release may be attributed to nobody, whatever else is known of the person's circumstances",
        lambda: "2030-01-31T10:20:30Z",
        lambda: "",
    )

    def table(number: int) -> Table:
        columns = random.choices(kinds, k=random.randint(1, 7))
        rows = [tuple(kind() for kind in columns) for _ in range(3)]
        numeric = frozenset(i for i, kind in enumerate(columns) if kind is kinds[1])
        heads = tuple(random.choice(["verdict", "noise_multiplier", "right without the release", ""]) for _ in columns)
        return Table(f"table {number}", heads, rows, numeric, footnotes=(kinds[3](),))

    words = tuple(" ".join(random.choice(kinds)() for _ in range(6)) for _ in range(3))
    return render(
        Document(
            words[0],
            {},
            "fail",
            tuple(map(table, range(4))),
            (words[1],),
            title=kinds[3](),
            passages=(Passage(words[2], words, words),),
        )
    )


def test_words_stay_whole_and_pages_fit(folder: Path, tmp_path: Path) -> None:
    shown = pages(QUICK, folder) | {f"drawn {k}": drawn(Random(f"{SEED}/{k}")) for k in range(4)}
    assert faults(shown, tmp_path) == [], f"seed {SEED}"


@pytest.mark.parametrize("commands", by_tier(None, LONG[::3], LONG), ids=len)
def test_words_stay_whole_and_pages_fit_for_every_command(commands: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    assert faults(pages(commands, folder), tmp_path) == []


@pytest.mark.nightly
def test_words_stay_whole_and_pages_fit_whatever_is_in_them(tmp_path: Path) -> None:
    shown = {f"drawn {k}": drawn(Random(f"{SEED}/{k}")) for k in range(4, 200)}
    assert faults(shown, tmp_path) == [], f"seed {SEED}"


PAPER = 718  # width in pixels of what is printed on a sheet of A4, with margins of 1 cm


@pytest.mark.nightly
def test_pages_print(folder: Path, tmp_path: Path) -> None:
    """The report, and the overview, which begins a sheet for each dataset: nothing is broken or cut at the edge of the paper."""
    for name in ("one", "two"):
        assert dpcli(*LEDGER[0].replace("clicks", name).split(), folder=folder).code == 0
    lines = ("report {examples}/disclosure.toml", "report pass.toml", "budget overview l.db")
    shown = pages(lines, folder)
    for k in range(len(shown)):
        (tmp_path / str(k)).mkdir()
    sheets = [printed(page, tmp_path / str(k)) for k, page in enumerate(shown.values())]
    assert sheets[0] > 1 and sheets[1] > 1 and sheets[2] >= 4, sheets
    (tmp_path / "wide").mkdir()
    assert faults({line: on_paper(page) for line, page in shown.items()}, tmp_path / "wide", [PAPER]) == []


def on_paper(page: str) -> str:
    """Return a page that a browser shows as it prints it. Its policy, which allows only its own style, is left out."""
    policy = page[page.index("<meta http-equiv") : page.index('<meta name="viewport"')]
    assert "@media print{" in page
    return page.replace(policy, "").replace("@media print{", "@media all{").replace("@media screen", "@media not all")


def test_what_is_broken_or_too_wide_is_seen(folder: Path, tmp_path: Path) -> None:
    """With a rule that squeezes columns, verdicts break; with one that widens the table, so does the page, and only where it is narrow."""
    page = pages([QUICK[0]], folder)[QUICK[0]]
    policy = page[page.index("<meta http-equiv") : page.index('<meta name="viewport"')]
    plain = page.replace(policy, "")
    squeezed = plain.replace(style(), f"{style()} td,th{{overflow-wrap:anywhere;white-space:normal!important;max-width:1rem}}")
    wide = plain.replace(style(), f"{style()} .page{{min-width:1200px}}")
    seen = faults({"plain": plain, "squeezed": squeezed, "wide": wide}, tmp_path)
    assert {(name, width) for name, width, _, _ in seen if name == "wide"} == {("wide", 600), ("wide", 1000)}
    assert ("squeezed", 1000, "broken", "UNKNOWN") in seen
    assert {name for name, *_ in seen} == {"squeezed", "wide"}
