"""Tests that `dpcli explain` knows the words that dpcli prints, and the words of lectures in any spelling."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, CHART_FORMATS, FORMATS, MECHANISMS, PLOTS, SAMPLING
from dpcli.cli import document_files
from dpcli.document.document import Document
from dpcli.explain.lists import EXIT_CODES
from dpcli.explain.lookup import explain, picture
from dpcli.explain.topics import SYMBOLS, TERMS
from dpcli.gate.documents.gate import WORDS
from dpcli.gate.verdicts import EXIT_CODES as VERDICTS
from dpcli.ledger.charges.ledger_run import STATUS_AFTER
from dpcli.ledger.grammar import ENTRIES
from dpcli.ledger.plugin import FILTERS
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.plugin import AGGREGATORS, DECODING
from dpcli.release.plugin import MEASURES
from dpcli.train.plugin import STYLES, TASKS
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.syntax_trees import nodes, tree

EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.toml"))
NAMED = {
    "accountant",
    "theorem",
    "type",
    "sampling",
    "measure",
    "filter",
    "adjacency",
    "verdict",
    "severity",
    "rule",
}  # columns of names
NAMES = {"columns", "names", "heads", "COLUMNS", "SHEET"}  # what holds the headings of a table


def known(word: str) -> bool:
    try:
        return len(explain(word)) > 30
    except InputError:
        return False


def headings() -> Iterator[str]:
    """Every heading of a table that code states; of one that is put together, the parts that are words."""
    for path in sorted((ROOT / "dpcli").rglob("*.py")):
        if not re.search(r"\b(Table|Sheet)\(", path.read_text()):
            continue
        calls = [node for node in nodes(path) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Table", "Sheet")]
        stated = [call.args[1 if getattr(call.func, "id", "") == "Table" else 0] for call in calls if len(call.args) > 1]
        held = [
            node.value
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") in NAMES for target in node.targets)
        ]
        for part in (*stated, *(held if any(isinstance(one, ast.Name) for one in stated) else ())):
            yield from texts(part)


def texts(expression: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(expression) if not isinstance(expression, ast.Constant) else [expression]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not isinstance(node, ast.Subscript | ast.Compare):  # what is looked up in, or compared with, is not printed
            yield from texts(node)


def test_every_heading_of_a_table_is_explained() -> None:
    found = {re.sub(r"\W+$|^\W+", "", text) for text in headings()} - {"", "_", "at", "s together", "taken"}
    assert len(found) > 80
    assert [text for text in sorted(found) if not known(text)] == []


def printed(*arguments: str) -> list[Document]:
    """The documents that a command prints."""
    kept: list[Document] = []
    pieces = document_files.pieces_of

    def keeping(document: Document, name: str, settings: Any) -> Any:
        kept.append(document)
        return pieces(document, name, settings)

    with mock.patch.object(document_files, "pieces_of", keeping):
        dpcli(*arguments)
    return kept


def words_of(document: Document) -> Iterator[str]:
    """The headings, and the cells that are names; a detail without its number, a sampling scheme without its rate."""
    for table in document.tables:
        yield from filter(None, table.columns)
        for row, (place, heading) in itertools.product(table.rows, enumerate(table.columns)):
            if heading in NAMED:
                yield from (cell for cell in row[place].split(" | ") if cell and cell != "-")
            if heading == "detail":
                yield from re.findall(r"(?<!at )\b([a-z]+) [\d.e+-]+", row[place])


COMMANDS = [
    *(("account", file) for file in EXAMPLES),
    *((command, file) for file in EXAMPLES for command in ("explain", "report", "lint", "gate")),
    ("gate", "examples/gate.toml", "--max-epsilon", "0.1"),
    *(("diff", *pair) for pair in itertools.pairwise(EXAMPLES[:6])),
    *((*words, file) for words in (("release", "--dry-run"), ("explain", "query")) for file in ("examples/release.toml",)),
    ("account", "-a", "all", "examples/gate.toml"),
    ("account", "--noise-multiplier", "2", "--sampling-rate", "0.1", "--steps", "9", "--delta", "1e-5"),
    ("calibrate-sigma", "--target-epsilon", "2", "--delta", "1e-5"),
    ("calibrate", "examples/dp-sgd.toml", "--solve", "steps"),
    ("explain", "--demo", "--trials", "9"),
    ("version",),
]


QUICK = [words for words in COMMANDS[::40] if "examples/private-text.toml" not in words]  # that one takes a second


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(QUICK, id="some"),
        pytest.param(COMMANDS[10::12], id="more", marks=pytest.mark.long),
        pytest.param(COMMANDS, id="all", marks=pytest.mark.nightly),
    ],
)
def test_every_word_of_a_printed_table_is_explained(commands: list[tuple[str, ...]]) -> None:
    found = {word for arguments in commands for document in printed(*arguments) for word in words_of(document)}
    assert len(found) > 30
    assert [word for word in sorted(found) if not known(word)] == []


def vocabulary() -> Iterator[str]:
    """Names that no table of an example need have."""
    for table in (ACCOUNTANTS, MECHANISMS, MEASURES, SAMPLING, TASKS, STYLES, FILTERS, FORMATS, PLOTS, CHART_FORMATS, AGGREGATORS):
        yield from table
    yield from DECODING
    yield from (load(target).title for target in ACCOUNTANTS.values())
    yield from (adjacency.value for adjacency in Adjacency)
    yield from (
        *VERDICTS,
        *WORDS.values(),
        *ENTRIES,
        *STATUS_AFTER.values(),
        "reserved",
        "NOT STATED",
        "NOT PRIVATE",
        "OVER BUDGET",
    )
    yield from (*(code for code, _ in EXIT_CODES), "exit-codes", "exit code")
    yield from ("final-model", "all-checkpoints", "outputs", "error", "warning", "at least", "headline", "waiver")


def test_every_name_of_a_registry_and_every_verdict_is_explained() -> None:
    assert [word for word in vocabulary() if not known(word)] == []


LECTURES = """composition, user-level, opacus, certified, dp-ftrl, central-limit-theorem, berry-esseen, hoeffding, subgaussian,
moment generating function, privacy loss random variable, propose-test-release, neyman-pearson, likelihood-ratio, amplification,
subsampling, advantage, trade-off, hypothesis-test, swap, sensitivity of a sum, sensitivity of a mean, smooth sensitivity,
local sensitivity, global sensitivity, sparse vector, parallel composition, group privacy, post-processing, clt, mgf, plrv, ptr,
sequential composition, advanced composition, hockey-stick divergence, dominating pair, chernoff, privacy filter, odometer"""
WORDS_OF_LECTURES = [" ".join(word.split()) for word in LECTURES.split(",")]
UNSOURCED = {"user-level", "swap", "subsampling", "group privacy", "privacy filter", "global sensitivity", "local sensitivity"}
UNSOURCED |= {"sensitivity of a sum", "sensitivity of a mean"}  # computed there, or told with what they lead to


def plural(word: str) -> str:
    return word if word.endswith("s") else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


@of_each("word", WORDS_OF_LECTURES)
def test_a_word_of_the_lectures_is_explained_with_its_source_in_every_spelling(word: str) -> None:
    told = explain(word)
    assert word in UNSOURCED or re.search(r"arXiv:\d{4}\.\d{4,5}|\b(19|20)\d\d\b", told), told
    for spelled in (
        word.upper(),
        word.replace("-", " "),
        word.replace(" ", "-"),
        word.replace(" ", "_").title(),
        f" {word} ",
        plural(word),
    ):
        assert explain(spelled).startswith(told.split("\n")[0]), spelled


@of_each("word", [word for word in (*TERMS, *SYMBOLS) if len(word) > 2])
def test_a_word_is_found_without_regard_to_case_and_hyphens(word: str) -> None:
    first = explain(word).split("\n")[0]
    for spelled in (word.upper(), re.sub("[-_]", " ", word), re.sub("[ _]", "-", word)):
        assert explain(spelled).split("\n")[0] == first, spelled


@of_each(
    "text",
    ["epsilon: at least", "after it: at most [1]", "would find (90 %)", "95 % interval", "used after, fullest of its blocks"],
)
def test_a_heading_is_explained_as_it_is_printed(text: str) -> None:
    assert known(text)


def test_the_loss_of_a_gaussian_is_normal_with_mean_rho_and_variance_twice_rho() -> None:
    """In the table, and in the picture, whose curves are densities of these laws (arXiv:1605.02065, Proposition 6)."""
    rows = [
        [float(cell) for cell in line.split()]
        for line in explain("plrv").splitlines()
        if re.fullmatch(r"[\d .-]+", line.strip() or "x")
    ]
    assert len(rows) == 5
    for noise, rho, mean, variance, other in rows:
        assert rho == pytest.approx(0.5 / noise**2) == mean == -other and variance == pytest.approx(2 * rho)
    drawn = picture("privacy loss random variable")
    assert drawn is not None and picture("epsilon") is None
    for line, mean in zip(drawn.lines, (0.5, -0.5), strict=True):
        for x, y in line.points:
            assert y == pytest.approx(math.exp(-0.5 * (x - mean) ** 2) / math.sqrt(2 * math.pi), rel=5e-3)
    assert "Normal with mean rho = 0.5" in dpcli("explain", "PLRV").out


def test_what_means_nothing_is_still_refused() -> None:
    for word in ("qwxz", "", "-", "the", "[]", "12.5 %", "epsilon qwxz", Path(__file__).name):
        assert not known(word), word
