"""The list of plants cannot rot: each text stands once in the source."""

from __future__ import annotations

import pytest

from tests.command import ROOT
from tests.planted.federated_plants import FEDERATED_PLANTS
from tests.planted.ledger_plants import LEDGER_PLANTS
from tests.planted.plants import PLANTS
from tests.planted.train_plants import TRAIN_PLANTS


@pytest.mark.parametrize("plant", [*PLANTS, *LEDGER_PLANTS, *TRAIN_PLANTS, *FEDERATED_PLANTS], ids=lambda p: p[0])
def test_each_plant_applies_once(plant: tuple[str, str, str, str]) -> None:
    _, file, old, new = plant
    assert (ROOT / "dpcli" / file).read_text().count(old) == 1
    assert old != new


def test_there_are_enough() -> None:
    assert len({plant[0] for plant in PLANTS}) == len(PLANTS) >= 40
