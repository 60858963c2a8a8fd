"""Records that are declared public, because they are held out."""

from __future__ import annotations

import pytest

from dpcli.base.errors import InputError
from dpcli.train.tasks.files import held_out
from tests.cases import of_each


@of_each("share, public", [(0.5, 60), (0.4, 40), (0.3333, 40), (0.3, 30), (0.2, 24), (0.01, 2), (1e-9, 1)])
def test_no_more_than_the_stated_share_is_public(share: float, public: int) -> None:
    """A share of 0.4 once declared every second record public."""
    assert held_out(120, share, None, "f.toml").sum() == public


@of_each("share", [0.51, 0.6, 0.99, 1.0])
def test_more_than_half_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=rf"train\.held_out: expected at most half of the records, found {share:g}"):
        held_out(120, share, None, "f.toml")
