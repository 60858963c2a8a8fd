"""Programs in the shapes of public tutorials: each either trains with the gradients of single records, or is refused for its reason."""

from __future__ import annotations

import random
import re

import pytest
import torch

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.isolation.synthetic_records import draws_like
from tests.cases import require_each
from tests.train.engine.oracle import clipped_sum, distance, gradients
from tests.train.engine.ordinary_programs import PROGRAMS, RECORDS, Program
from tests.train.engine.ordinary_variants import VARIANTS

CLIP = Flat(0.5)


def trains(program: Program) -> None:
    """In the batch, the gradient of a record is the one that it has alone; the clipped sum is that of one record at a time."""
    model, batch = program.model(), program.data()
    engine = ClippedGradients(model, program.loss, CLIP)
    engine.rehearse(draws_like(batch))
    engine.checked_sums(batch, random.randrange(RECORDS))
    sums = engine(batch)
    assert sums.count == RECORDS and bool(sums.finite.all())
    one = torch.utils._pytree.tree_map(lambda leaf: leaf[:1], batch)
    again = [gradients(model, program.loss, one, 1)[0] for _ in range(2)]
    if not (engine.program is None or engine.program.random or distance(*again)):  # otherwise each run draws other numbers
        assert distance(sums.gradients, clipped_sum(gradients(model, program.loss, batch, RECORDS), CLIP)) <= 1e-3 * CLIP.bound


def refused(program: Program) -> None:
    """Before any record of the data is read."""
    batch = program.data()
    with pytest.raises(InputError) as problem:
        ClippedGradients(program.model(), program.loss, CLIP).rehearse(draws_like(batch))
    assert re.search(program.refused, str(problem.value)), problem.value


@pytest.mark.sampled(1, 1)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("part", range(24))
def test_an_ordinary_program_trains_or_is_refused_for_its_reason(part: int) -> None:
    programs = {**PROGRAMS, **VARIANTS}
    assert len(programs) == len(PROGRAMS) + len(VARIANTS)

    def judged(name: str) -> None:
        program = programs[name]
        (refused if program.refused else trains)(program)

    require_each([*programs][part::24], judged)


def test_columns_of_different_ranges_are_drawn_within_them() -> None:
    """As tables of categories are."""
    columns = torch.tensor([[0, 5, -100], [1, 9, 3], [1, 7, 0]])
    drawn = draws_like(columns)(500)
    assert drawn.dtype == columns.dtype
    assert [set(column.tolist()) for column in drawn.T] == [{0, 1}, {5, 6, 7, 8, 9}, {-100, 0, 1, 2, 3}]
    assert int(draws_like(torch.tensor([[2**62, 0]]))(3).max()) == 2**62


def test_gradients_that_the_caller_holds_stay() -> None:
    model = torch.nn.Linear(3, 2)
    model.weight.grad = torch.full((2, 3), 7.0)
    engine = ClippedGradients(model, lambda model, batch: model(batch).sum(1), CLIP)
    engine.checked_sums(torch.randn(4, 3), 1)
    assert torch.equal(model.weight.grad, torch.full((2, 3), 7.0)) and model.bias.grad is None
