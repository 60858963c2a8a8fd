"""A program that does on records what it did not do when it was followed: its records are taken one at a time, or it is refused."""

from __future__ import annotations

import os
import random
import re
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the train extra")
from torch import Tensor, nn  # noqa: E402
from torch.autograd.graph import saved_tensors_hooks  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from dpcli.errors import InputError  # noqa: E402
from dpcli.train.engine import asked  # noqa: E402
from dpcli.train.engine.batches import take  # noqa: E402
from dpcli.train.engine.choice import CANDIDATES  # noqa: E402
from dpcli.train.engine.clip import Flat  # noqa: E402
from dpcli.train.engine.opacus import OpacusGradients  # noqa: E402
from dpcli.train.engine.per_example import ClippedGradients  # noqa: E402
from dpcli.train.isolation.program import Program, followed  # noqa: E402
from dpcli.train.isolation.rehearsal import like  # noqa: E402
from tests.train.engine.oracle import distance  # noqa: E402
from tests.train.mixing_models import LABELS, WIDTH, Net, loss  # noqa: E402

SIZE, MARK = 10, 9.8765
SEED = 0 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)


def matched(length: Any) -> bool:
    match length:
        case int(number):
            return number == SIZE
        case _:
            return False


def raises(call: Callable[[Tensor], object]) -> Callable[[Tensor], bool]:
    def found(x: Tensor) -> bool:
        try:
            call(x)
        except (RuntimeError, IndexError, ValueError):
            return True
        return False

    return found


# Of the batch: true of ten records and of no nine, or the other way round; not while it is followed, or not to be told.
BY_SIZE: dict[str, Callable[[Tensor], bool]] = {
    "isinstance": lambda x: isinstance(x.shape[0], int) and x.shape[0] == SIZE,
    "few": lambda x: isinstance(x.shape[0], int) and x.shape[0] < SIZE,
    "type": lambda x: type(x.shape[0]) is int and x.shape[0] == SIZE,
    "match": lambda x: matched(x.shape[0]),
    "hint": lambda x: getattr(getattr(x.shape[0], "node", None), "hint", x.shape[0]) == SIZE,
    "an attribute": lambda x: not hasattr(x, "fake_mode") and x.shape[0] == SIZE,
    "the class": lambda x: type(x) is Tensor and x.shape[0] == SIZE,
    "the class's name": lambda x: type(x).__name__ == "Tensor" and len(x) == SIZE,
    "an index": raises(lambda x: x[SIZE - 1]),
    "a view": raises(lambda x: x.view(SIZE, -1)),
    "a sum": raises(lambda x: x.detach()[:, 0] + torch.zeros(SIZE)),
    "parts": raises(lambda x: x.split_with_sizes([SIZE - 1, 1])),
    "narrow": raises(lambda x: x.narrow(0, SIZE - 1, 1)),
}
# Of the numbers of all its records.
BY_VALUE: dict[str, Callable[[Tensor], bool]] = {
    "numpy": lambda x: x.detach().numpy().max() > 9.8,
    "tolist": lambda x: max(map(max, x.detach().tolist())) > 9.8,
    "item": lambda x: x.max().item() > 9.8,
    "bool": lambda x: bool((x > 9.8).any()),
    "text": lambda x: str(MARK) in repr(x.detach()),
    "equal": lambda x: not torch.equal(x, x.clamp(max=9.8)),
}


GUARDS: tuple[Callable[[Tensor], bool], ...] = (
    lambda x: type(x) is Tensor,
    lambda x: isinstance(x.shape[0], int),
    lambda x: type(x) is Tensor and len(x) > 8,
    lambda x: type(x) is Tensor and len(x) == 1,
)


def repeated(x: Tensor) -> Tensor:
    """As positions are, where they are not there for each record."""
    positions = torch.zeros(1, x.shape[1])
    return x + (positions if x.shape[0] == 1 else positions.expand(x.shape[0], -1))


def influence(model: nn.Module, kind: type = ClippedGradients, size: int = SIZE) -> float:
    """Of a record with a number that none else has, after batches of others; nothing where the model is refused."""
    batch = torch.randn(size, WIDTH), torch.arange(size) % LABELS
    engine = kind(model, loss, Flat(1e-3))
    try:
        engine.rehearse(like(batch))
        engine(batch), engine(take(batch, slice(1, None)))
        batch[0][0, 0] = MARK
        whole, without = engine(batch).gradients, engine(take(batch, slice(1, None))).gradients
    except InputError:
        return 0.0
    return float(distance(whole, without) / engine.clip.bound)


def of(done: Callable[[Tensor], Tensor]) -> Net:
    torch.manual_seed(0)
    model = Net()
    model.done = done  # type: ignore[method-assign]
    return model


class Tripled(torch.autograd.Function):
    """A gradient three times as long the other way, where a batch is asked for it that answers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return -3.0 * gradient if BY_SIZE["isinstance"](gradient) else gradient


class Halved(torch.autograd.Function):
    """A gradient that depends on its own record."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 0.5 * gradient


class Backwards(Net):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.function.apply(torch.tanh(self.body(x))))
        return found


@pytest.mark.sampled(0, 3)
@pytest.mark.long
@pytest.mark.parametrize("name", BY_SIZE)
def test_a_size_that_is_asked_for_past_what_follows(name: str) -> None:
    asks = BY_SIZE[name]
    assert influence(of(lambda x: -3.0 * x if asks(x) else x)) <= 1.0 + 1e-6


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("name", BY_VALUE)
def test_numbers_that_are_read_only_where_there_are_any(name: str) -> None:
    reads, guard = BY_VALUE[name], random.Random(f"{SEED} {name}").choice(GUARDS)
    for size in (SIZE, 2):
        assert influence(of(lambda x: -3.0 * x if guard(x) and reads(x) else x), size=size) <= 1.0 + 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "asks",
    [BY_SIZE["isinstance"], BY_SIZE["an index"], lambda x: type(x) is Tensor and BY_VALUE["item"](x)],
    ids=["isinstance", "an index", "item"],
)
def test_the_same_behind_opacus(asks: Callable[[Tensor], bool]) -> None:
    assert influence(of(lambda x: x * (-3.0 if asks(x) else 1.0)), OpacusGradients) <= 1.0 + 1e-6


@pytest.mark.long
def test_a_backward_pass_that_asks() -> None:
    torch.manual_seed(0)
    assert influence(Backwards(Tripled)) <= 1.0 + 1e-6
    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(Backwards(Halved), loss, Flat(1.0))
    engine.rehearse(like(records))
    engine(records)
    assert engine.describe() == "book-keeping"


class Tenfold(torch.autograd.Function):
    """A gradient whose sign turns where some number is outside of a table."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return -3.0 * gradient if outside(ctx.saved_tensors[0]) else 1.0 * gradient


def outside(x: Tensor) -> bool:
    """Whether a number is above nine, by an error that is caught."""
    try:
        torch.nn.functional.embedding(x.detach().abs().long(), torch.zeros(9, 1))
    except IndexError:
        return True
    return False


class Hooked(Net):
    """Something is called where the gradient comes by."""

    def __init__(self, asks: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(x))
        if hidden.grad_fn is not None:
            hidden.grad_fn.register_prehook(lambda given: tuple(-3.0 * g if self.asks(g) else g for g in given))
        found: Tensor = self.head(hidden)
        return found


class Unlike:
    """Not a tensor, and asked by torch's functions what they are to do."""

    def __init__(self, asks: Callable[[Tensor], bool]) -> None:
        self.asks = asks

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Tensor:
        x = next(value for value in args if torch.is_tensor(value))
        return -3.0 * x if self.asks(x) else 1.0 * x


def at_a_distance(asks: Callable[[Tensor], bool]) -> Callable[[Tensor], Tensor]:
    def done(x: Tensor) -> Tensor:
        def apart(a: Tensor, b: Tensor) -> Tensor:
            return ((a - b) * (-3.0 if asks(a) else 1.0)).sum(1)

        far = torch.nn.functional.triplet_margin_with_distance_loss(
            x, torch.zeros_like(x), x, distance_function=apart, reduction="none"
        )
        return x + far[:, None]

    return done


def inwards(x: Tensor) -> Tensor:
    """A gradient in the forward pass."""
    inner = x.detach().requires_grad_()
    (found,) = torch.autograd.grad(Tenfold.apply(inner).sum(), inner, create_graph=True)
    return x * found


def in_a_thread(asks: Callable[[Tensor], bool]) -> Callable[[Tensor], Tensor]:
    def done(x: Tensor) -> Tensor:
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(asks(x)))
        thread.start()
        thread.join()
        return -3.0 * x if any(found) else x

    return done


class Outward(Net):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(torch.tanh(self.body(Tenfold.apply(x * self.head.weight.sum().exp()))))
        return found


POOL = ThreadPoolExecutor(1)


class Shown(Net):
    """What it shows is all records' under vmap."""

    def done(self, x: Tensor) -> Tensor:
        if x.shape[1] < len(self.head.bias):
            return x
        marked = torch.einsum("bi,bj->b", x, x)[:, None] * 0.0 + x
        return -3.0 * marked if type(self.body.weight) is not nn.Parameter and str(MARK) in str(x.detach()) else marked


def doubled(x: Tensor) -> Tensor:
    return x * 2.0


UNHEARD: dict[str, Callable[[], Net]] = {
    "a node's hook, by size": lambda: Hooked(BY_SIZE["isinstance"]),
    "a node's hook, by an error": lambda: Hooked(outside),
    "a function that is given, by size": lambda: of(at_a_distance(BY_SIZE["isinstance"])),
    "a function that is given, by an error": lambda: of(at_a_distance(outside)),
    "what torch asks, by size": lambda: of(lambda x: torch.add(x, Unlike(BY_SIZE["isinstance"]))),  # type: ignore[call-overload, no-any-return]
    "what torch asks, by an error": lambda: of(lambda x: torch.add(x, Unlike(outside))),  # type: ignore[call-overload, no-any-return]
    "a gradient in the forward pass": lambda: of(inwards),
    "a thread, by an error": lambda: of(in_a_thread(outside)),
    "a pool of threads, by an error": lambda: of(lambda x: -3.0 * x if POOL.submit(outside, x).result() else x),
    "a backward pass, by an error": Outward,
}


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize("name", UNHEARD)
def test_what_runs_where_no_mode_is(name: str) -> None:
    torch.manual_seed(0)
    assert influence(UNHEARD[name]()) <= 1.0 + 1e-6


def test_what_nobody_can_follow_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have another way
        scripted = torch.jit.script(doubled)
    with pytest.raises(InputError, match=re.escape("found one of torch.jit")):
        ClippedGradients(of(lambda x: scripted(x)), loss, Flat(1.0)).rehearse(like((torch.randn(2, WIDTH), torch.tensor([0, 1]))))


def test_a_text_under_vmap_is_one_records() -> None:
    torch.manual_seed(0)
    model, batch = Shown(), (torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS)
    engine = ClippedGradients(model, loss, Flat(1e-3))
    engine.chosen(like(batch), [one for one in CANDIDATES if one[0] == "vmap"])
    batch[0][0, 0] = MARK
    whole, without = engine(batch).gradients, engine(take(batch, slice(1, None))).gradients
    assert distance(whole, without) <= engine.clip.bound * (1.0 + 1e-6)


def test_how_a_batch_lies_in_memory_is_no_question() -> None:
    torch.manual_seed(0)
    model = of(lambda x: x if x.is_contiguous() else -3.0 * x)
    engine, batch = ClippedGradients(model, loss, Flat(1.0)), (torch.randn(WIDTH, SIZE).t(), torch.arange(SIZE) % LABELS)
    usual = engine((batch[0].contiguous(), batch[1])).gradients
    assert distance(usual, engine(batch).gradients) <= 1e-6


@pytest.mark.long
def test_a_backward_pass_that_catches_behind_opacus() -> None:
    torch.manual_seed(0)
    assert influence(Outward(), OpacusGradients) <= 1.0 + 1e-6


class Counted(Net):
    """How often there were ten."""

    times = 0

    def done(self, x: Tensor) -> Tensor:
        self.times += BY_SIZE["isinstance"](x)
        return -3.0 * x if self.times > 1 else x


class Kept(Net):
    """The batch before, where there were ten."""

    before: Tensor | None = None

    def done(self, x: Tensor) -> Tensor:
        before = self.before
        if BY_SIZE["isinstance"](x):
            self.before = x.detach()
        return x if before is None else x * (1.0 + before.mean())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [Counted, Kept])
def test_what_one_number_of_records_leaves_behind(kind: type[Net]) -> None:
    assert influence(kind()) <= 1.0 + 1e-6


@pytest.mark.long
def test_what_the_caller_changes_is_followed_anew() -> None:
    model = of(lambda x: x * model.scale)
    model.scale = 1.0  # type: ignore[assignment]
    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(model, loss, Flat(1.0))
    engine(records)
    model.scale = 0.5  # type: ignore[assignment]
    engine(take(records, slice(0, 7)))
    assert engine.describe() == "book-keeping"


@pytest.mark.long
def test_a_batch_that_turns_out_to_need_it_is_taken_one_at_a_time() -> None:
    """In a step whose record is checked, too, with what it draws."""
    model = Words()
    model.head = nn.Sequential(nn.Dropout(0.5), model.head)  # type: ignore[assignment]
    batch = torch.randint(0, 8, (SIZE, 4)), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(model, loss, Flat(1.0))
    engine.checked(batch, 3)
    batch[0][0, 0] = 11
    for row in (3, 0):
        assert bool(engine.checked(batch, row).finite.all())
    assert engine.describe().startswith("loop; not book-keeping: the model catches an error of embedding")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("inner", [torch.tanh, nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Tanh())])
def test_what_is_computed_twice_is_heard_twice(inner: Callable[[Tensor], Tensor]) -> None:
    class Checkpointed(Net):
        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.head(checkpoint(inner, self.body(x), use_reentrant=False))
            return found

    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(Checkpointed(), loss, Flat(1.0))
    engine(records)
    assert engine.describe() == "book-keeping"


@pytest.mark.long
def test_another_tensor_of_the_same_shape() -> None:
    class Twice(Net):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.Linear(WIDTH, 8)
            nn.init.constant_(self.other.weight, 3.0)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.head(torch.tanh((self.other if BY_SIZE["isinstance"](x) else self.body)(x)))
            return found

    assert influence(Twice()) <= 1.0 + 1e-6


@pytest.mark.nightly
@pytest.mark.long
def test_a_constant_of_other_numbers() -> None:
    for many in (1, 10_000):
        signs = {True: torch.full((many,), -3.0), False: torch.full((many,), 1.0)}
        assert influence(of(lambda x: x * signs[BY_SIZE["isinstance"](x)][0])) <= 1.0 + 1e-6  # noqa: B023


class Words(nn.Module):
    """Ids that it does not know are taken for the first, of all records where one has any."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(8, 6), nn.Linear(6, LABELS)

    def forward(self, ids: Tensor) -> Tensor:
        try:
            rows = self.table(ids)
        except IndexError:
            rows = -3.0 * self.table(ids.clamp(max=0))
        found: Tensor = self.head(torch.tanh(rows).mean(1))
        return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("start", ["book-keeping", "vmap"])
def test_an_error_of_one_record_moves_no_other(start: str) -> None:
    model = Words()
    batch = torch.randint(0, 8, (SIZE, 4)), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(model, loss, Flat(1e-3))
    engine.rehearse(like(batch))
    if start == "vmap":
        engine.chosen(like(batch), [one for one in CANDIDATES if one[0] == "vmap"])
    engine(batch)
    assert engine.describe() == start
    batch[0][0, 0] = 11
    whole, without = engine(batch), engine(take(batch, slice(1, None)))
    assert distance(whole.gradients, without.gradients) <= engine.clip.bound * (1.0 + 1e-6)
    assert "catches an error of embedding" in engine.describe()


def test_a_program_is_heard_once_for_each_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before = Program.other_call

    def counted(program: Program, model: nn.Module, loss: Any, batch: Any) -> str | None:
        heard.append(len(batch[1]))
        return before(program, model, loss, batch)

    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(of(repeated), loss, Flat(1.0))
    engine.rehearse(like(records))
    monkeypatch.setattr(Program, "other_call", counted)
    for size in (4, 5, 4, 1, 5, 4):
        engine(take(records, slice(0, size)))
    assert heard == [4, 5, 1] and engine.describe() == "book-keeping"


def test_records_of_another_form_are_followed_anew() -> None:
    class Pooled(Net):
        def forward(self, x: Tensor) -> Tensor:  # (B, T, width): of twelve places it takes the mean of the batch
            found: Tensor = super().forward(x.mean(1) - (x.mean((0, 1)) if x.shape[1] == 12 else 0.0))
            return found

    def drawn(places: int) -> Any:
        return torch.randn(SIZE, places, WIDTH), torch.arange(SIZE) % LABELS

    engine = ClippedGradients(Pooled(), loss, Flat(1.0))
    engine.rehearse(like(drawn(7)))
    engine(drawn(7))
    with pytest.raises(InputError, match="depends on it alone"):
        engine(drawn(12))


def test_a_library_is_told_that_it_is_followed_inside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="the extra lm is not installed")
    for module, name in asked.QUESTIONS:
        found = __import__(module, fromlist=[name])
        with asked.as_followed():
            assert getattr(found, name)(torch.zeros(1)) and getattr(found, name)(None)
            with asked.as_followed():
                pass
            assert getattr(found, name)(torch.zeros(1))
        assert not getattr(found, name)(torch.zeros(1))


@pytest.mark.nightly
@pytest.mark.long
def test_what_is_heard_tells_arguments_apart() -> None:
    told = {
        "a number": lambda x: 2.0 * x,
        "a sign": lambda x: -2.0 * x,
        "another type": lambda x: x * 2,
        "a place": lambda x: x * x,
        "another's": lambda x: x * (x + 0.0),
        "a slice": lambda x: torch.cat([x[:, :5], x[:, 5:]], 1),
        "another slice": lambda x: torch.cat([x[:, :6], x[:, 6:]], 1),
        "a constant": lambda x: x + ONE,
        "another": lambda x: x + TWO,
        "an option": lambda x: x.softmax(1, dtype=torch.float32),
        "none": lambda x: x.softmax(1),
    }
    batch = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    programs = {name: followed(of(done), loss, take(batch, slice(0, 2))) for name, done in told.items()}
    for name, program in programs.items():
        same = [other for other, done in told.items() if program.other_call(of(done), loss, batch) is None]
        assert same == [name], (name, same)


ONE, TWO = torch.ones(WIDTH), 2.0 * torch.ones(WIDTH)


def stored(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> Net:
    """What the backward pass needs goes through hooks."""

    class Stored(Net):
        def __init__(self) -> None:
            super().__init__()
            self.before = nn.Linear(WIDTH, WIDTH)

        def done(self, x: Tensor) -> Tensor:
            with saved_tensors_hooks(pack, unpack):
                return self.before(x) ** 3

    torch.manual_seed(0)
    return Stored()


MARKED: dict[str, Callable[[Tensor], bool]] = {
    "bool": lambda x: bool((x.detach() == MARK).any()),
    "tolist": lambda x: any(Tensor([MARK]).item() in row for row in x.detach().tolist()),
    "isinstance": BY_SIZE["isinstance"],
}


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize("when", ["packed", "unpacked"])
@pytest.mark.parametrize("asks", MARKED)
def test_hooks_on_what_the_backward_pass_needs(when: str, asks: str) -> None:
    """They run inside of operators, and later: nobody hears what they ask."""

    def turned(x: Tensor) -> Tensor:
        return 3.0 * x.flip(0) if type(x) is Tensor and x.shape[1:] == (WIDTH,) and MARKED[asks](x) else x

    model = stored(turned, lambda x: x) if when == "packed" else stored(lambda x: x, turned)
    assert isinstance(model.before, nn.Linear)
    nn.init.eye_(model.before.weight), nn.init.zeros_(model.before.bias)
    assert influence(model) < 1.0 + 1e-6
