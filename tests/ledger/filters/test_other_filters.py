"""Tests of the advice for a run without a cost: the message names another filter under which it has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.ledger.plugin import FILTERS
from dpcli.lint.rule_info import HEAD, TRAIN
from tests.command import dpcli

RUNS = {
    "sampled": TRAIN,
    "gaussian": TRAIN.replace('sampling = { scheme = "poisson", batch_size = 256 }\n', "").replace("1.1", "100.0"),
    "approx": '\n[[mechanism]]\nname = "train"\ntype = "approx-dp"\nepsilon = 0.1\ndelta = 1e-9\n',
    "pure": '\n[[mechanism]]\nname = "train"\ntype = "pure-dp"\nepsilon = 0.1\n',
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("run", RUNS)
def test_a_refused_run_is_told_a_filter_that_takes_it(run: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + RUNS[run])
    terms = "--dataset d --unit example --adjacency add-remove --epsilon 90 --delta 1e-6"
    said = {}
    for name in FILTERS:
        assert dpcli("budget", "init", f"{name}.db", *terms.split(), "--filter", name, folder=tmp_path).code == 0
        said[name] = dpcli("budget", "spend", f"{name}.db", "p.toml", "--key", "k", "--reason", "r", folder=tmp_path)
    able = [name for name in FILTERS if said[name].code in (0, 1)]  # it has a price there, whether or not it fits
    assert able
    for name in FILTERS:
        told = f"the filter of this ledger is {name}, and a ledger with --filter {able[0]} accepts this run"
        assert (told in said[name].err) == (name not in able), said[name]
    if run == "sampled":
        assert "zcdp" not in able
