"""What a model reads as text, numbers of the records or how many there are, is of one record alone; or the model is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="training needs the train extra")
from torch import Tensor  # noqa: E402

from dpcli.errors import InputError  # noqa: E402
from dpcli.train.engine.clip import Flat  # noqa: E402
from dpcli.train.engine.per_example import ClippedGradients  # noqa: E402
from dpcli.train.isolation.program import followed  # noqa: E402
from dpcli.train.isolation.rehearsal import like  # noqa: E402
from tests.train.engine.oracle import distance  # noqa: E402
from tests.train.mixing_models import LABELS, WIDTH, Net, loss  # noqa: E402

MARK, SIZE = 9.8765, 10  # one record fewer is a digit fewer
VALUES: dict[str, Callable[[Tensor], str]] = {
    "repr": repr,
    "str": str,
    "format": lambda x: f"{x}",
    "in a list": lambda x: str([x]),
    "a column": lambda x: f"{x[:, 0]}",
    "a number": lambda x: f"{x.amax()}",
    "a call": lambda x: x.__repr__(tensor_contents=None),
}
LENGTHS: dict[str, Callable[[Tensor], str]] = {
    "shape": lambda x: repr(x.shape),
    "size": lambda x: str(x.shape[0]),
    "format": lambda x: f"{x.size(0)}",
    "percent": lambda x: "%s" % (x.shape[0],),  # noqa: UP031
    "numel": lambda x: str(x.numel()),
    "stride": lambda x: str(x.t().contiguous().stride()),
    "product": lambda x: repr(x.shape[0] * 1),
    "quotient": lambda x: repr(x.shape[0] / 2),
    "relation": lambda x: repr(x.shape[0] == SIZE),
}


def of_texts(done: Callable[[Tensor], Tensor]) -> Net:
    torch.manual_seed(0)
    model = Net()
    model.done = done  # type: ignore[method-assign]
    return model


def influence(model: Net) -> float:
    """Of a record with a number that none else has; nothing where the model is refused."""
    batch = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    batch[0][0, 0] = MARK
    engine = ClippedGradients(model, loss, Flat(1e-3))
    try:
        engine.rehearse(like(batch))
    except InputError:
        return 0.0
    whole, without = engine(batch).gradients, engine((batch[0][1:], batch[1][1:])).gradients
    return distance(whole, without) / engine.clip.bound


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize("name", VALUES)
def test_numbers_as_text_are_of_one_record(name: str) -> None:
    read = VALUES[name]
    assert influence(of_texts(lambda x: -3.0 * x if str(MARK) in read(x.detach()) else x)) <= 1.0 + 1e-6


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_as_text_is_of_one_record(name: str) -> None:
    before, read = len(LENGTHS[name](torch.zeros(SIZE, WIDTH))), LENGTHS[name]
    assert influence(of_texts(lambda x: x * (3.0 * (len(read(x)) - before) + 2.0))) <= 1.0 + 1e-6


def test_what_is_shown_is_as_before() -> None:
    shown = [kind.__repr__ for kind in (torch.SymInt, torch.SymFloat, torch.SymBool)]
    model = of_texts(lambda x: x * len(str(x.shape)))
    assert followed(model, loss, (torch.randn(2, WIDTH), torch.tensor([0, 1]))).doubt == "the batch's size as text"
    assert [kind.__repr__ for kind in (torch.SymInt, torch.SymFloat, torch.SymBool)] == shown


def test_a_jagged_batch_is_refused() -> None:
    def jagged(x: Tensor) -> Tensor:
        return torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, x.shape[0]])).values() + x

    with pytest.raises(InputError):
        followed(of_texts(jagged), loss, (torch.randn(2, WIDTH), torch.tensor([0, 1])))
