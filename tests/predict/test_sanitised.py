"""An epsilon that depends on the votes leaves with noise that is paid for, once, or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.numerics.logspace import log_ndtr_array
from dpcli.predict.pate import vote_release
from dpcli.predict.vote_bounds import log_q_gaussian
from dpcli.predict.vote_sensitivity import AnswerSensitivity
from tests.command import Result, dpcli
from tests.predict.samples import CONFIDENT, GNMAX, LNMAX, saved, written

PAYS = '\n\n[[mechanism]]\nname = "told"\ntype = "rdp"\norders = [20.0]\nvalues = [1.0]'
SANITISE = 'sanitise = { mechanism = "told", order = 20.0, beta = 0.015, sigma = 6.0 }'


def file(folder: Path, entry: str = CONFIDENT + PAYS, *keys: str) -> Path:
    saved(folder)
    return written(folder, entry, "\n".join(('votes = "votes.npy"', f'output = "{folder}/run"', *keys)))


def account(path: Path, *arguments: str) -> Result:
    return dpcli("pate", "account", str(path), *arguments, folder=path.parent)


def shown(path: Path) -> Any:
    return json.loads(account(path, "-f", "json").out)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("entry", [CONFIDENT, GNMAX], ids=["confident-gnmax", "gnmax"])
def test_it_is_released_once_and_kept(entry: str, tmp_path: Path) -> None:
    path = file(tmp_path, entry + PAYS, SANITISE)
    assert shown(path)["sanitised"] is None  # no session has been held
    assert dpcli("pate", "label", str(path), folder=tmp_path).code == 0
    first = shown(path)
    assert first["sanitised"]["epsilon_upper"] > first["sanitised"]["release_rdp"] > 0.3
    assert shown(path)["sanitised"] == first["sanitised"]
    assert "sanitised, may be published" in account(path).out
    path.write_text(path.read_text().replace("sigma = 6.0", "sigma = 7.0"))
    refused = account(path)
    assert refused.code == 2 and "a second release would cost again" in refused.err


@pytest.mark.long
def test_nothing_is_told_of_labels_that_anybody_can_compute(tmp_path: Path) -> None:
    path = file(tmp_path, CONFIDENT + PAYS, SANITISE, 'accounting = "data-dependent"')
    assert dpcli("pate", "label", str(path), "--insecure-seed", "1", folder=tmp_path).code == 0
    assert shown(path)["sanitised"] is None
    assert json.loads((tmp_path / "run" / "statement.json").read_text())["sanitised"] is None


def test_only_the_sanitised_number_is_in_a_statement(tmp_path: Path) -> None:
    path = file(tmp_path, CONFIDENT + PAYS, SANITISE, 'accounting = "data-dependent"')
    assert dpcli("pate", "label", str(path), folder=tmp_path).code == 0
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    answer = shown(path)
    assert statement["sanitised"] == answer["sanitised"] and "unsanitised_do_not_publish" not in statement
    for private in answer["unsanitised_do_not_publish"].values():
        for text in ("statement.md", "statement.json", "labels.csv", "transcript.jsonl"):
            assert f"{private['epsilon']:.6f}" not in (tmp_path / "run" / text).read_text()


def test_without_sanitise_it_is_refused_everywhere_with_the_reason(tmp_path: Path) -> None:
    path = file(tmp_path, CONFIDENT, 'accounting = "data-dependent"')
    for command in (("pate", "label"), ("pate", "account"), ("lint",), ("gate",)):
        result = dpcli(*command, str(path), folder=tmp_path)
        assert result.code != 0 and "is private itself" in result.out + result.err, command
    assert not (tmp_path / "run" / "transcript.jsonl").exists()


WRONG = {
    "nobody pays": (CONFIDENT, SANITISE, 2, 'expected the name of an entry of type "rdp" that pays'),
    "too little is paid": (CONFIDENT + PAYS.replace("[1.0]", "[0.01]"), SANITISE, 2, "that pays for the release, orders = [20]"),
    "too little is paid at another order": (
        CONFIDENT + PAYS.replace("[20.0]", "[3.0, 20.0]").replace("[1.0]", "[1e-9, 1.0]"),
        SANITISE,
        2,
        "found 1e-09 at order 3, where it costs 0.13",
    ),
    "an order at which nobody can pay": (
        CONFIDENT + PAYS.replace("[20.0]", "[500.0]"),
        SANITISE,
        2,
        "found the order 500, at which the release has no finite cost",
    ),
    "it pays for a part of the data": (
        CONFIDENT + PAYS + '\npartition = { of = "region", part = "a" }',
        SANITISE,
        2,
        "found an entry that is sampled, partitioned",
    ),
    "it pays for a sample": (
        CONFIDENT + PAYS + '\nsampling = { scheme = "poisson", rate = 0.001 }',
        SANITISE,
        2,
        "found an entry that is sampled, partitioned",
    ),
    "it is paid by another entry": (
        CONFIDENT + PAYS + '\n\n[[mechanism]]\nname = "whole"\ntype = "composed"\nmechanisms = ["told"]',
        SANITISE,
        2,
        "found an entry that is sampled, partitioned",
    ),
    "the conditions fail": (
        CONFIDENT.replace("sigma = 40.0", "sigma = 5.0", 1).replace("threshold_sigma = 5.0", "threshold_sigma = 150.0")
        + PAYS.replace("[20.0]", "[8.0]"),
        SANITISE.replace("order = 20.0", "order = 8.0"),
        3,
        "conditions C5 and C6 hold",
    ),
    "Laplace noise": (
        LNMAX + PAYS,
        SANITISE,
        3,
        "expected gnmax or confident-gnmax, whose smooth sensitivity is known, found lnmax",
    ),
    "an order too large": (
        CONFIDENT + PAYS,
        SANITISE.replace("beta = 0.015", "beta = 0.03"),
        2,
        "expected a number below 1 / (2 order)",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_hold_is_refused(name: str, tmp_path: Path) -> None:
    entry, sanitise, code, message = WRONG[name]
    path = file(tmp_path, entry, sanitise)
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 1e6"))
    labelled = dpcli("pate", "label", str(path), folder=tmp_path)
    result = account(path) if labelled.code == 0 else labelled
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (tmp_path / "run").exists()  # before anything was charged


def test_what_is_released_has_few_digits_and_is_rounded_up() -> None:
    for value in (0.123456789, -0.123456789, 1e-9 / 3, 7.0, 123456.789, 0.0, 1e-300 / 7):
        answer = vote_release.round_up(value)
        assert value <= answer <= value + abs(value) * 1e-5
        assert answer == float(f"{answer:.5e}")


def divergence(one: np.ndarray, other: np.ndarray, sigma: float, order: float) -> np.ndarray:
    """Of the answers to votes for two labels, (n, 2)."""
    z = [(votes[:, 0] - votes[:, 1]) / (sigma * math.sqrt(2.0)) for votes in (one, other)]
    terms = [order * log_ndtr_array(sign * z[0]) + (1.0 - order) * log_ndtr_array(sign * z[1]) for sign in (1.0, -1.0)]
    return np.asarray(np.logaddexp(*terms) / (order - 1.0))


def test_what_is_released_is_about_both_directions() -> None:
    """For two labels, every vote that moves: the cost bounds one direction; the reverse exceeds it, by the local sensitivity at most."""
    exceeded = 0.0
    for teachers, sigma, order in ((50, 4.0, 4.0), (50, 8.0, 8.0), (200, 20.0, 20.0), (250, 40.0, 8.0)):
        of = AnswerSensitivity(sigma, 2, order)
        first = np.arange(teachers // 2, teachers)
        own = np.stack((first, teachers - first), axis=1)
        cost, local = of.cost(log_q_gaussian(own, sigma)), of.by_distance(own, teachers)[:, 0]
        for moved in ([-1, 1], [1, -1]):
            assert (divergence(own, own + moved, sigma, order) <= cost * (1.0 + 1e-9)).all()
            reverse = divergence(own + moved, own, sigma, order)
            assert (reverse <= (cost + local) * (1.0 + 1e-9)).all(), (moved, sigma, order)
            exceeded = max(exceeded, float((reverse / cost)[cost > 1e-3].max(initial=0.0)))
    assert exceeded > 1.2  # so that the cost alone is no bound
