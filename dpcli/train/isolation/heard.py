"""What a program asks torch for, call by call: on records it must be what it was on tensors without numbers.

A program can ask whether it is followed: by the type of a length or of a tensor, by an attribute that only one of them has, by whether an
operator raises. What it then does differently are other calls, or the same ones with other tensors and numbers.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import DisableTorchFunction
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from dpcli.train.engine.asked import as_followed
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.caught import stops
from dpcli.train.engine.graph import edges, gradients
from dpcli.train.engine.method import Loss
from dpcli.train.engine.probe import unmoved
from dpcli.train.isolation.frames import TORCH, by_torch, of_the_user
from dpcli.train.isolation.lengths import coefficient, records

# Answer with what a tensor's form says, never with its numbers.
QUERIES = frozenset(
    [
        *(
            "size",
            "dim",
            "ndimension",
            "stride",
            "numel",
            "nelement",
            "element_size",
            "__len__",
            "__hash__",
            "storage_offset",
            "has_names",
        ),
        *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg", "is_inference", "is_same_size"),
        *("get_device", "device", "result_type", "can_cast", "promote_types"),
    ]
)
# Answer with a tensor's numbers, or with whether they are others.
READS = frozenset(
    [
        *(
            "item",
            "tolist",
            "numpy",
            "__bool__",
            "__float__",
            "__int__",
            "__index__",
            "__complex__",
            "__array__",
            "__dlpack__",
            "equal",
        ),
        *(
            "allclose",
            "is_nonzero",
            "__contains__",
            "__repr__",
            "__format__",
            "data_ptr",
            "storage",
            "untyped_storage",
            "__reduce_ex__",
        ),
    ]
)
DROPOUTS = (
    "dropout",
    "dropout_",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "alpha_dropout_",
    "feature_alpha_dropout",
)
# Run user code where no mode is, now or in the backward pass.
CALLING = frozenset(["map_", "map2_", "apply_"])
SMALL = 2**22  # numbers of a constant that are compared


@dataclass(frozen=True, slots=True)
class Length:
    """A number that follows the batch's size: so many times it, or an expression in it."""

    value: Any

    def at(self, size: int) -> object:
        if isinstance(self.value, int):
            return plain(size * self.value)
        sympy = importlib.import_module("sympy")
        found = self.value.subs(dict.fromkeys(self.value.free_symbols, size))
        if found in (sympy.true, sympy.false):
            return plain(found == sympy.true)
        return plain(int(found) if found.is_Integer else float(found))


@dataclass(frozen=True, slots=True)
class Unmade:
    """A tensor that no call made. content: its bytes, where it is small; nothing of one without numbers."""

    place: int
    content: object = None
    followed: bool = False


@dataclass(frozen=True, slots=True)
class HeardCall:
    """name: of torch's function. given: its arguments, tensors by the order in which they came up. raised: whether it ended in an error."""

    name: str
    given: object
    raised: bool = False


@dataclass(slots=True)
class Heard:
    """The calls of one run.

    names: of the model's own tensors, by id. backward: whether user code runs in the backward pass, where it was listened to. unheard: a
    function in which user code may have run that nobody listened to.
    """

    names: Mapping[int, str]
    calls: list[HeardCall] = field(default_factory=list)
    places: Any = field(default_factory=WeakIdKeyDictionary)
    counter: Iterator[int] = field(default_factory=count)
    listening: bool = False
    backward: bool = False
    unheard: str | None = None

    @contextmanager
    def of(self, batch: Batch) -> Iterator[None]:
        """Listens; the batch's tensors come first."""
        for leaf in tree_leaves(batch):
            self.places[leaf] = next(self.counter)
        self.listening = True
        try:
            with noticed(THREADS, self.elsewhere), noticed(SAVING, self.later):
                yield
        finally:
            self.listening = False

    def elsewhere(self, *_: object, **__: object) -> None:
        self.unheard = self.unheard or "another thread"

    def later(self, *hooks: Any) -> None:
        """Inside of an operator, where no mode is, and in the backward pass; torch's own hooks recompute, or copy."""
        self.backward = True
        if any(map(calls_back, hooks)):
            self.unheard = self.unheard or "saved_tensors_hooks"

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], caller: FrameType) -> Any:
        """What the function answers."""
        name = name_of(func)
        if not self.listening or name in QUERIES or not of_the_user(caller):
            return func(*args, **kwargs)
        differentiates = name in ("grad", "backward") and own_functions(args[:1])
        if (
            differentiates
            or name in CALLING
            or (name == "grad_fn" and not by_torch(caller))
            or any(map(calls_back, (*args, *kwargs.values())))
        ):
            self.unheard = self.unheard or name
        if name in DROPOUTS and idle(*args, **kwargs):
            return self.same(args[0] if args else kwargs["input"], func(*args, **kwargs))
        getter = getattr(func, "__name__", "") == "__get__"
        given = () if getter else (self.given(args), self.given(dict(kwargs)))
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            if not getter and not stops(error):
                self.calls.append(HeardCall(name, given, raised=True))
            raise
        if not getter or torch.is_tensor(out) or name == "grad_fn":
            self.calls.append(HeardCall(name, given or self.given(args)))
        for tensor in tree_leaves(out):
            if torch.is_tensor(tensor) and id(tensor) not in self.names and tensor not in self.places:
                self.places[tensor] = next(self.counter)
        return out

    def same(self, given: Tensor, out: Tensor) -> Tensor:
        """Dropout that drops nothing, whose answer is its input or a copy of it."""
        self.tensor(given)
        if given in self.places:
            self.places[out] = self.places[given]
        return out

    def given(self, value: Any) -> object:
        """An argument, without what it holds of the records."""
        if torch.is_tensor(value):
            return self.tensor(value)
        if records(value):
            times = coefficient(value)
            return Length(value.node.expr if times is None else times)
        if isinstance(value, torch.SymInt):
            return plain(int(value))
        if isinstance(value, list | tuple):
            return tuple(map(self.given, value))
        if isinstance(value, Mapping):
            return tuple((plain(key), self.given(one)) for key, one in value.items())
        if isinstance(value, slice):
            return "slice", self.given(value.start), self.given(value.stop), self.given(value.step)
        if type(value).__module__ == "numpy":
            return type(value).__name__, repr(getattr(value, "tobytes", lambda: value)())
        return plain(value)

    def tensor(self, value: Tensor) -> object:
        if id(value) in self.names:
            return self.names[id(value)]
        place = self.places.get(value)
        if place is not None:
            return int(place)
        self.places[value] = place = next(self.counter)
        if isinstance(value, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(value):
            return Unmade(place, followed=True)
        return Unmade(place, content(value))


# What hands user code to other threads, where no mode is; and to the backward pass, for what it needs of the forward.
THREADS = ((threading.Thread, "start"), (ThreadPoolExecutor, "submit"))
SAVING = ((torch._C._autograd, "_push_saved_tensors_default_hooks"),)


@contextmanager
def noticed(homes: Sequence[tuple[Any, str]], notice: Callable[..., None]) -> Iterator[None]:
    """Tells of all that is handed to one of these functions."""
    with ExitStack() as before:
        for home, name in homes:
            handed = getattr(home, name)
            before.callback(setattr, home, name, handed)
            setattr(home, name, told_first(notice, handed))
        yield


def told_first(notice: Callable[..., None], handed: Callable[..., Any]) -> Callable[..., Any]:
    here = threading.get_ident()

    def told(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == here:
            notice(*args, **kwargs)
        return handed(*args, **kwargs)

    return told


def plain(value: Any) -> object:
    """What is neither a tensor nor made of several; of a function or another object, its kind alone."""
    told = isinstance(
        value, bool | int | float | complex | str | bytes | torch.dtype | torch.device | torch.layout | torch.memory_format
    )
    return type(value).__name__, repr(value) if told else ""


def calls_back(value: Any) -> bool:
    """Whether a function that is given it may call user code."""
    if isinstance(value, list | tuple):
        return any(map(calls_back, value))
    if isinstance(value, Tensor):
        return not type(value).__module__.startswith("torch") and "__torch_function__" in vars(type(value))
    if isinstance(value, type | torch.dtype) or type(value).__module__.partition(".")[0] in ("torch", "builtins", "numpy"):
        return isinstance(value, types.FunctionType | types.MethodType) and not by_torch_written(value)
    return callable(value) or hasattr(type(value), "__torch_function__")


def by_torch_written(value: types.FunctionType | types.MethodType) -> bool:
    return value.__code__.co_filename.startswith(TORCH)


def idle(input: Any = None, p: float = 0.5, training: bool = True, inplace: bool = False, *, train: bool = True) -> bool:
    """Whether dropout with these arguments drops nothing."""
    return p == 0.0 or not training or not train


def content(value: Tensor) -> object:
    with _disable_current_modes():
        if value.layout is not torch.strided or value.numel() > SMALL:
            return tuple(value.shape), value.dtype
        numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return tuple(value.shape), value.dtype, hashlib.blake2b(numbers.tobytes()).digest()


def name_of(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    return str(getattr(func.__self__, "__name__", name) if name == "__get__" else name)


class Listening(TorchFunctionMode):
    """Hears what is called on records."""

    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self.heard = heard

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.heard(func, args, kwargs or {}, sys._getframe(1))


def backward(losses: Tensor, parameters: Sequence[Tensor], heard: Heard) -> None:
    """The gradients of the losses, of which nothing is kept, while it is listened to."""
    with DisableTorchFunction():
        own = own_functions(losses)
        given = torch.ones_like(losses)
    before = len(heard.calls)
    gradients(losses, given, parameters)
    heard.backward |= own or len(heard.calls) > before


def own_functions(outputs: Any) -> bool:
    """Whether the gradient of these goes through somebody's torch.autograd.Function."""
    made = [tensor for tensor in tree_leaves(outputs) if torch.is_tensor(tensor) and tensor.grad_fn is not None]
    return any(
        isinstance(node, BackwardCFunction) for one in made for node in (one.grad_fn, *(below for _, _, below in edges(one)))
    )


def heard_on(model: nn.Module, loss: Loss, batch: Batch, names: Mapping[int, str], and_backward: bool) -> Heard:
    """The calls of a program on records, all of whose draws are its own."""
    heard = Heard(names)
    mode, given = Listening(heard), tree_map(torch.clone, batch)
    with _disable_current_modes(), torch.enable_grad(), unmoved(model), as_followed(), mode, heard.of(given):
        losses = loss(model, given)
        if and_backward and torch.is_tensor(losses) and losses.requires_grad:
            backward(losses, [p for p in model.parameters() if p.requires_grad], heard)
    return heard


def difference(followed: Sequence[HeardCall], found: Sequence[HeardCall], size: int) -> str | None:
    """The first call that another was expected for; None where all are the same for a batch of this size.

    A record alone need not be repeated, nor told from what all share: there only what reads numbers, or raises, must be the same.
    """
    if size == 1:
        followed, found = (
            tuple(HeardCall(c.name, (), c.raised) for c in calls if c.name in READS or c.raised) for calls in (followed, found)
        )
    for place in range(max(len(followed), len(found))):
        one = found[place] if place < len(found) else HeardCall("nothing", ())
        other = followed[place] if place < len(followed) else HeardCall("nothing", ())
        if one.name != other.name or one.raised != other.raised or not fits(other.given, one.given, size):
            return other.name if one.name == "nothing" else one.name
    return None


def fits(followed: object, found: object, size: int) -> bool:
    """Whether an argument is the one that was followed."""
    if isinstance(followed, Length):
        return found == followed.at(size)
    if isinstance(followed, tuple) and isinstance(found, tuple):
        return len(followed) == len(found) and all(fits(a, b, size) for a, b in zip(followed, found, strict=True))
    if isinstance(followed, Unmade) and followed.followed:
        return isinstance(found, Unmade) and found.place == followed.place
    return followed == found
