"""Python at a prompt and in a notebook: help without the extras, short lines, pages; and numbers that are what their names say."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import dpcli
from dpcli.base.displayed import LONGEST_LINE, Displayed
from dpcli.base.extras import EXTRAS
from tests.command import ROOT
from tests.command import dpcli as run

EXAMPLE = ROOT / "examples" / "dp-sgd.toml"
PUBLIC = [
    pytest.param(name, marks=pytest.mark.long if name == "PrivateTrainer" else (), id=name)  # which takes seconds to import
    for name in dpcli.__all__
    if name[0].isupper()
]
LIBRARIES = sorted({*EXTRAS, "dp_accounting", "lightning"})

# What is asked of a Python in which no library of an extra can be imported.
CORE = f"""
import sys
sys.modules.update(dict.fromkeys({LIBRARIES}, None))
import inspect, pydoc
import dpcli
members = dict(inspect.getmembers(dpcli))
assert set(dpcli.__all__) <= set(members), sorted(set(dpcli.__all__) - set(members))
shown = pydoc.render_doc(dpcli, renderer=pydoc.plaintext)
assert "plan_release" in inspect.getdoc(dpcli.release)  # the package is what is called, and has a page of its own
for name in set(dpcli.__all__) - {{"__version__", "release"}}:
    assert name in shown and inspect.getdoc(members[name]).partition("\\n")[0] in shown, name
calls = {{
    "train": [lambda: dpcli.private(None, None, None, None, pipeline="x"), lambda: dpcli.watch("x"), lambda: dpcli.load_model("x")],
    "lm": [lambda: dpcli.PrivateTrainer(None)],
}}
for extra, made in calls.items():
    for call in made:
        try:
            call()
        except dpcli.base.errors.Unavailable as error:
            assert f"pip install 'dpcli[{{extra}}]'" in str(error), error
        else:
            raise AssertionError(extra)
"""


def test_help_shows_every_name_without_the_extras_and_their_use_names_the_extra() -> None:
    ran = subprocess.run([sys.executable, "-c", f"import dpcli.base.errors\n{CORE}"], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr


def test_a_name_imports_what_it_needs_and_no_more() -> None:
    code = "import sys; from dpcli import private; print({'numpy', 'torch', 'scipy', 'click'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "torch" not in ran.stdout and "scipy" not in ran.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Return one of each result that needs no extra, from files whose names and texts are long, or mean something to HTML."""
    folder = tmp_path_factory.mktemp("results")
    hostile = folder / "hostile.toml"
    name, unit = '"<script>&' + "long-" * 36 + '"', '"<b>"\nmax_contributions = 2'
    hostile.write_text(EXAMPLE.read_text().replace('"first-model"', name).replace('"example"               #', f"{unit} #"))
    terms = "--dataset d --unit example --adjacency add-remove --epsilon 4 --delta 1e-6 --filter rdp"
    assert run("budget", "init", "l.db", *terms.split(), folder=folder).code == 0
    plain, awkward = dpcli.load(EXAMPLE), dpcli.load(hostile)
    budget = dpcli.budget(folder / "l.db")
    return [
        plain,
        awkward,
        dpcli.account(plain),
        dpcli.account(awkward),
        dpcli.account(plain, epsilon=2.0),
        dpcli.account(plain, delta=0.0),
        dpcli.calibrate(plain, 3.0),
        dpcli.epsilon(1.0, 0.01, [[1, 2], [3, 4]], delta=1e-5),
        dpcli.epsilon(1.0, 0.01, [], delta=1e-5),
        budget,
        budget.reserve(EXAMPLE, "k" * 60),
        dpcli.PrivateBatch(3),
        dpcli.PrivateResult("runs/" + "x" * 300, 3, 1.0, 1e-6, True, "text"),
    ]


class Parsed(HTMLParser):
    """Collects tags; closes what it opens, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.tags.append(tag)
        if tag != "wbr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_result_is_a_short_line_and_a_page(results: list[object]) -> None:
    for one in results:
        line, page = repr(one), Parsed(one._repr_html_())  # type: ignore[attr-defined]
        assert len(line) < 200 and line.isprintable() and "0x" not in line, line
        assert line.startswith(type(one).__name__)
        assert page.tags[0] == "div" and not {"html", "head", "body", "script", "style", "b"} & set(page.tags)


def classes(one: type) -> Iterator[type]:
    yield one
    for below in one.__subclasses__():
        yield from classes(below)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_class_is_shown_in_a_line(name: str) -> None:
    """Those that no core install can make have the same line and page, and so have the kinds of them."""
    public = getattr(dpcli, name)
    assert inspect.isclass(public) and issubclass(public, Displayed)
    for one in classes(public):
        assert one.__repr__ is Displayed.__repr__, one
        assert one._line is not Displayed._line, one  # type: ignore[attr-defined]
    assert len(name) + LONGEST_LINE + len("(...)") < 200


def test_the_numbers_are_what_their_names_say() -> None:
    pipeline = dpcli.load(EXAMPLE)
    asked = dpcli.account(pipeline, delta=1e-7)
    assert (asked.delta, asked.epsilon) == (1e-7, asked.upper) and asked.epsilon >= (asked.lower or 0.0)
    turned = dpcli.account(pipeline, epsilon=asked.epsilon)
    assert (turned.epsilon, turned.delta) == (asked.epsilon, turned.upper) and turned.delta == pytest.approx(1e-7, rel=1e-6)
    nothing = dpcli.account(pipeline, delta=0.0, accountants=["rdp"])
    assert math.isinf(nothing.epsilon) and nothing.delta == 0.0
    solved = dpcli.calibrate(pipeline, 3.0, delta=1e-7)
    assert solved.delta == 1e-7 and 2.999 < solved.epsilon <= 3.0
    several = dpcli.epsilon([1.0, 2.0], 0.01, 100, delta=[[1e-5], [1e-6]])
    assert several.epsilon is several.upper and several.delta.tolist() == [[1e-5, 1e-5], [1e-6, 1e-6]]
    assert np.all(several.lower <= several.epsilon)


def test_a_ledger_s_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = dpcli.DatasetBudget("postgresql://anna:secret@db.example/x", "clicks")
    assert "secret" not in repr(budget) and "clicks" in repr(budget)
    assert "secret" not in repr(dpcli.ReservedRun(budget, "a"))


def test_a_page_in_a_notebook_says_what_the_command_prints(tmp_path: Path) -> None:
    """Word for word, without the page around it."""
    printed = run("account", str(EXAMPLE), "-f", "html").out
    shown = dpcli.account(dpcli.load(EXAMPLE))._repr_html_()

    def rows(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("<tr", "<p"))]

    assert rows(shown) and set(rows(shown)) <= set(rows(printed))
