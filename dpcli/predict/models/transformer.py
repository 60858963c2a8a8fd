"""Causal language models of torch: the next token by one forward pass, fine-tuned by low-rank adapters.

An adapter is low-rank matrices on top of the frozen weights (Hu et al. 2021, arXiv:2106.09685). All adapters share one model in memory,
which holds one of them at a time; or several are asked in one pass: one copy of the context for each, which low-rank layers multiply by
that adapter's matrices. No copy meets another: what one adapter holds, NaN too, moves no bit of another's answer, as long as their number
and order stay. How many there are may move the last bits of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import SAME_ANSWER, LanguageModel, Tokens
from dpcli.train.tasks.lm_models import logits, lora

if TYPE_CHECKING:
    from dpcli.train.plan.settings_language import Lora

ROOM = 2 * 2**30  # bytes that a pass takes at most on top of the model
PADDING = -100
Adapter = Mapping[str, Tensor]  # the low-rank matrices by their parameters' names


@dataclass(frozen=True, slots=True)
class Tuning:
    """The training of an adapter: Adam, each batch a random part of the records, the learning rate falling to zero."""

    lora: Lora
    learning_rate: float
    epochs: int
    batch_size: int


@dataclass(slots=True)
class Transformer:
    """A public model.

    Attributes:
        context: Most tokens that it looks back on.
        tuning: How it is fine-tuned, if it is.
        start: The token before an empty context; None if the model has none, and an empty context is then refused.
    """

    model: nn.Module
    vocabulary: int
    context: int
    path: str
    tuning: Tuning | None = None
    start: int | None = None
    _adapted: nn.Module | None = field(default=None, init=False)
    _has_joint: bool | None = field(default=None, init=False)

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.read(self._bare(), contexts)

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Yield the weights of the public model, by name, before it has an adapter."""
        for name, value in sorted(self.model.state_dict().items()):
            yield f"{name} {value.dtype}", value.detach().cpu().contiguous().view(torch.uint8).numpy()

    def ready(self) -> None:
        """Make the adapter's place, which every process that is forked from here then has."""
        self._wrapped()

    def along(self, tokens: Tokens) -> Array:
        """Return log-probabilities of the next token after each of the tokens, (tokens, vocabulary)."""
        return self._along(self._bare(), tokens)

    def tune(self, records: Sequence[Tokens]) -> bytes:
        from safetensors.torch import save

        model = self._fresh()
        if any(len(record) > 1 for record in records):
            _train(model, records, self._how())
        return save({name: value.detach().cpu().contiguous() for name, value in _low_rank(model).items()})

    def tuned(self, learnt: bytes) -> LanguageModel:
        from safetensors.torch import load

        try:
            weights = load(learnt)
        except Exception as problem:  # whatever safetensors raises for what is no such file
            raise InputError(f"expected the weights of an adapter ({problem})") from None
        model = self._fresh()
        shapes = {name: tuple(value.shape) for name, value in _low_rank(model).items()}
        if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
            raise InputError("expected the weights of an adapter of this model and rank, found those of other shapes")
        return Adapted(self, weights)

    def joint_next_token(self, models: Sequence[LanguageModel], tokens: Tokens) -> Array | None:
        """Return log-probabilities after one context by several models that `tuned` returned, (models, vocabulary), in as few passes as
        memory allows; None if they have to be asked one at a time.

        Each row is as if its model were asked alone, up to SAME_ANSWER: which is tried once, with made-up adapters. That of one model
        does not depend on what others have learnt.
        """
        adapters = [model.weights for model in models if isinstance(model, Adapted) and model.public is self]
        if len(adapters) != len(models) or len(models) < 2:
            return None
        if self._has_joint is None:
            self._has_joint = self._joint_agrees()
        return _float(last_scores(self._wrapped(), adapters, self._known(tokens), self.vocabulary)) if self._has_joint else None

    def _joint_agrees(self) -> bool:
        """Return whether two made-up adapters answer together as they do alone."""
        chance = torch.Generator().manual_seed(0)
        shapes = {name: value.shape for name, value in _low_rank(self._wrapped()).items()}
        made = [{name: 0.1 * torch.randn(shape, generator=chance) for name, shape in shapes.items()} for _ in range(2)]
        known = [place % self.vocabulary for place in range(min(3, self.context))]
        try:
            joint = _float(last_scores(self._wrapped(), made, known, self.vocabulary))
        except (NotJoint, RuntimeError, ValueError, TypeError, IndexError):
            return False
        alone = np.concatenate([Adapted(self, one).next_token([known]) for one in made])
        return joint.shape == alone.shape and bool(np.abs(joint - alone).max() <= SAME_ANSWER)

    def with_adapter(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """Return the one model, holding these weights."""
        model = self._wrapped()
        with torch.no_grad():
            for name, value in _low_rank(model).items():
                value.copy_(weights[name])
        return model

    def read(self, model: nn.Module, contexts: Sequence[Tokens]) -> Array:
        """Return the answers of this version of the model; each context alone, so that no other moves the last bits of its answer."""
        return _float(torch.cat([self._logits(model, context)[-1:] for context in contexts]))

    def _along(self, model: nn.Module, tokens: Tokens) -> Array:
        return _float(self._logits(model, tokens))

    @torch.no_grad()
    def _logits(self, model: nn.Module, tokens: Tokens) -> Tensor:
        place = next(iter(model.parameters())).device
        return logits(model, torch.tensor([self._known(tokens)], device=place))[0]

    def _known(self, tokens: Tokens) -> list[int]:
        known = list(tokens)
        if not known and self.start is not None:
            known = [self.start]
        if not 1 <= len(known) <= self.context:
            raise InputError(f"expected from 1 to {self.context} tokens before the next one, found {len(known)}")
        return known

    def _bare(self) -> nn.Module:
        """Return the model without what any adapter adds: both matrices are zero, as what a private one holds (NaN, say) must not show."""
        if self._adapted is None:
            return self.model
        with torch.no_grad():
            for value in _low_rank(self._adapted).values():
                value.zero_()
        return self._adapted

    def _wrapped(self) -> nn.Module:
        if self._adapted is None:
            self._adapted = lora(self.model, self._how().lora, self.path).eval()
        return self._adapted

    def _fresh(self) -> nn.Module:
        """Return the one model with an adapter that has learnt nothing, so that nothing depends on what was learnt before."""
        model = self._wrapped()
        with torch.no_grad():
            for name, value in _low_rank(model).items():
                if "lora_B" in name:
                    value.zero_()
                else:
                    nn.init.kaiming_uniform_(value, a=5**0.5)
        return model

    def _how(self) -> Tuning:
        if self.tuning is None:
            raise InputError(f"{self.path}: expected lora, which says how the model is fine-tuned")
        return self.tuning


@dataclass(frozen=True, slots=True)
class Adapted:
    """The public model with one adapter, which is put in place for each forward pass."""

    public: Transformer
    weights: Mapping[str, Tensor]

    @property
    def vocabulary(self) -> int:
        return self.public.vocabulary

    @property
    def context(self) -> int:
        return self.public.context

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.public.read(self.public.with_adapter(self.weights), contexts)

    def along(self, tokens: Tokens) -> Array:
        """Return what the public model's method does."""
        return self.public._along(self.public.with_adapter(self.weights), tokens)


class NotJoint(Exception):
    """The model's adapters cannot be asked in one pass."""


@torch.no_grad()
def last_scores(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int], vocabulary: int) -> Tensor:
    """Return logits after the tokens by the model with each of the adapters, (adapters, vocabulary).

    Raises NotJoint where an adapted layer is no matrix, or does not see one copy of the context for each adapter.
    """
    most = at_once(adapters[0], len(tokens), vocabulary)
    parts = [adapters[start : start + most] for start in range(0, len(adapters), most)]
    return torch.cat([_pass(model, part, tokens) for part in parts])


def at_once(adapter: Adapter, tokens: int, vocabulary: int) -> int:
    """Return how many adapters a pass may have, at least one.

    Each copy has its matrices, and for each token 3 numbers for each word of the vocabulary, 64 for each of the widest adapted layer and 64
    for each token, of 8 bytes.
    """
    widest = max(max(value.shape) for value in adapter.values())
    numbers = sum(value.numel() for value in adapter.values()) + tokens * (3 * vocabulary + 64 * (widest + tokens))
    return max(1, ROOM // (8 * numbers))


def _pass(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int]) -> Tensor:
    place = next(iter(model.parameters())).device
    with _stacked_adapters(model, adapters):
        return logits(model, torch.tensor([list(tokens)] * len(adapters), device=place))[:, -1]


@contextmanager
def _stacked_adapters(model: nn.Module, adapters: Sequence[Adapter]) -> Iterator[None]:
    """Let each low-rank layer of the model multiply the copies by the adapters' matrices, in order."""
    with ExitStack() as hooks:
        for name in adapters[0]:
            owner, _, own = name.rpartition(".")
            layer = model.get_submodule(owner)
            if not isinstance(layer, nn.Linear) or own != "weight" or layer.bias is not None:
                raise NotJoint(owner)
            matrices = torch.stack([adapter[name] for adapter in adapters]).to(layer.weight)
            hooks.callback(layer.register_forward_hook(_multiply_by(matrices)).remove)
        yield


def _multiply_by(matrices: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        (x,) = inputs
        if x.dim() != 3 or x.shape[0] != matrices.shape[0]:
            raise NotJoint(f"copies of shape {tuple(x.shape)}")
        return torch.bmm(x, matrices.transpose(1, 2))

    return hook


def _low_rank(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if "lora_" in name}


def _float(scores: Tensor) -> Array:
    """Return log-probabilities, normalised in double precision."""
    rows: Array = functional.log_softmax(scores.double(), -1).cpu().numpy()
    return rows


def _train(model: nn.Module, records: Sequence[Tokens], how: Tuning) -> None:
    """Train without noise: what comes of it stays on the private side."""
    rows = _padded(records)
    trained = list(_low_rank(model).values())
    optimizer = torch.optim.Adam(trained, lr=how.learning_rate)
    batches = -(-len(rows) // how.batch_size)
    steps = how.epochs * batches
    with torch.enable_grad():
        for step in range(steps):
            if step % batches == 0:
                order = torch.randperm(len(rows))
            optimizer.param_groups[0]["lr"] = how.learning_rate * (1.0 - step / steps)
            batch = rows[order[step % batches :: batches]].to(trained[0].device)
            optimizer.zero_grad()
            scores = logits(model, batch)[:, :-1].flatten(0, 1)
            torch.autograd.backward(functional.cross_entropy(scores, batch[:, 1:].flatten(), ignore_index=PADDING))
            optimizer.step()


def _padded(records: Sequence[Tokens]) -> Tensor:
    long = [torch.tensor(list(record)) for record in records if len(record) > 1]
    return nn.utils.rnn.pad_sequence(long, batch_first=True, padding_value=PADDING)
