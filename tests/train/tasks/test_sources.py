"""The words that lint takes for data are those that training reads, over every task. Lint states them itself, because it needs no torch."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.file.keys.annotations import members_of
from dpcli.train.plan.settings import Train, read_train
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.plan.settings_custom import Custom, Loop
from dpcli.train.plan.settings_language import Language
from dpcli.train.plugin import TASKS
from dpcli.train.tasks.array_files import READERS as OF_ARRAYS
from dpcli.train.tasks.array_files import arrays
from dpcli.train.tasks.lm_texts import READERS as OF_TEXTS
from dpcli.train.tasks.lm_texts import texts_of
from tests.cases import require_each
from tests.train.tables import CLASSES, HEAD, table

ENDINGS = sorted({*OF_ARRAYS, *OF_TEXTS, ".tsv", ".json", ".CSV", ".npy", ".gz", ""})
STEMS = ("mails", "of/mails", "a.csv/mails", "mails.csv", "digits", "held-out")
WORDS = [f"{stem}{ending}" for stem, ending in itertools.product(STEMS, ENDINGS)] + ["own:data", "own", ":data", "own:", "a b:c"]
# What training says of a word that is no data of its task, whatever the files hold.
NO_SOURCE = re.compile(r"module:function, found|file with labels|expected module:function")


def source_read(train: Train, path: str) -> object:
    """What training makes of `data`, without its model."""
    if isinstance(train, Classification):
        return arrays(train, path)
    assert isinstance(train, Language)
    return texts_of(train.data, train, path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where every word is a file, which can be opened and holds nothing of use."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for word in WORDS:
        place = tmp_path / word
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_dir() and word != "digits":
            place.write_text("a,b\n1,2\n")
    return tmp_path


@pytest.mark.parametrize("task", TASKS)
def test_lint_takes_the_data_that_training_reads(task: str, folder: Path) -> None:
    cls = CLASSES[task]
    rule = members_of(cls)["data"].rule
    assert rule is not None
    if cls is Loop:
        assert not [word for word in WORDS if rule.holds(word)]  # no file can name what a program hands over
        return
    if cls is Custom:
        assert [word for word in WORDS if rule.holds(word)] == ["own:data"]
        return
    path = str(folder / "t.toml")
    train = replace(read_train((HEAD + table(task)).encode(), path), **({"classes": 2} if cls is Classification else {}))
    taken = {word for word in WORDS if rule.holds(word)}
    assert len(taken) > 10
    for word in WORDS:
        said = ""
        try:
            source_read(replace(train, data=word), path)
        except InputError as problem:
            said = str(problem)
        if word in taken:
            assert not NO_SOURCE.search(said), word  # what the files hold is another matter
        else:
            assert NO_SOURCE.search(said) or (":" in word and said), word


def test_public_data_are_as_the_private_ones_or_held_out() -> None:
    def check(task: str) -> None:
        data, public = (members_of(CLASSES[task])[key].rule for key in ("data", "public"))
        assert data is not None
        assert public is not None
        for word in WORDS:
            assert public.holds(word) == (data.holds(word) or (word == "held-out" and CLASSES[task] not in (Custom, Loop))), word

    require_each(TASKS, check)
