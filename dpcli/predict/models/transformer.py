"""Causal language models of torch: the next token by one forward pass, fine-tuned by low-rank adapters.

An adapter is low-rank matrices beside the frozen weights (Hu et al. 2021, arXiv:2106.09685). All adapters share one model in memory, which
holds one of them at a time; together.py asks several in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.asked import CLOSE
from dpcli.predict.models.port import LanguageModel, Tokens
from dpcli.predict.models.together import NotTogether, last_scores
from dpcli.train.tasks.lm_models import logits, lora

if TYPE_CHECKING:
    from dpcli.train.plan.settings_language import Lora

PADDING = -100


@dataclass(frozen=True, slots=True)
class Tuning:
    """How an adapter is trained: Adam, each batch a random part of the records, the learning rate falling to zero."""

    lora: Lora
    learning_rate: float
    epochs: int
    batch_size: int


@dataclass(slots=True)
class Transformer:
    """A public model.

    context: most tokens that it looks back on. tuning: how it is fine-tuned, where it is. start: the token that stands before an empty
    context; None where the model has none, and an empty context is then refused.
    """

    model: nn.Module
    vocabulary: int
    context: int
    path: str
    tuning: Tuning | None = None
    start: int | None = None
    _adapted: nn.Module | None = field(default=None, init=False)
    _agrees: bool | None = field(default=None, init=False)

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.read(self._bare(), contexts)

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Its weights, by name: of the public model, before it has an adapter."""
        for name, value in sorted(self.model.state_dict().items()):
            yield f"{name} {value.dtype}", value.detach().cpu().contiguous().view(torch.uint8).numpy()

    def ready(self) -> None:
        """Make the adapter's place, which every process that is forked from here then has."""
        self._wrapped()

    def along(self, tokens: Tokens) -> Array:
        """Log-probabilities of the next token after each of the tokens, (tokens, vocabulary)."""
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
            raise InputError(f"expected the weights of an adapter, found something else: {problem}") from None
        model = self._fresh()
        shapes = {name: tuple(value.shape) for name, value in _low_rank(model).items()}
        if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
            raise InputError("expected the weights of an adapter of this model and rank, found others")
        return Adapted(self, weights)

    def together(self, models: Sequence[LanguageModel], tokens: Tokens) -> Array | None:
        """Log-probabilities after one context by several models that `tuned` returned, (models, vocabulary), in as few passes as memory
        allows; None where they have to be asked one at a time.

        Each row is as if its model were asked alone, up to CLOSE: which is tried once, with made-up adapters. That of one model does not
        depend on what others have learnt.
        """
        adapters = [model.weights for model in models if isinstance(model, Adapted) and model.public is self]
        if len(adapters) != len(models) or len(models) < 2:
            return None
        if self._agrees is None:
            self._agrees = self._agreeing()
        return _float(last_scores(self._wrapped(), adapters, self._known(tokens), self.vocabulary)) if self._agrees else None

    def _agreeing(self) -> bool:
        """Whether two made-up adapters answer together as they do alone."""
        chance = torch.Generator().manual_seed(0)
        shapes = {name: value.shape for name, value in _low_rank(self._wrapped()).items()}
        made = [{name: 0.1 * torch.randn(shape, generator=chance) for name, shape in shapes.items()} for _ in range(2)]
        known = [place % self.vocabulary for place in range(min(3, self.context))]
        try:
            found = _float(last_scores(self._wrapped(), made, known, self.vocabulary))
        except (NotTogether, RuntimeError, ValueError, TypeError, IndexError):
            return False
        alone = np.concatenate([Adapted(self, one).next_token([known]) for one in made])
        return found.shape == alone.shape and bool(np.abs(found - alone).max() <= CLOSE)

    def with_adapter(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The one model, holding these weights."""
        model = self._wrapped()
        with torch.no_grad():
            for name, value in _low_rank(model).items():
                value.copy_(weights[name])
        return model

    def read(self, model: nn.Module, contexts: Sequence[Tokens]) -> Array:
        """By this version of the model; each context alone, so that no other one moves the last bits of its answer."""
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
        """Without what any adapter adds: both matrices are zero, as what a private one holds (NaN, say) must not show here."""
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
        """The one model with an adapter that has learnt nothing: what follows does not depend on what was learnt before."""
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
            raise InputError(f"{self.path}: expected lora, which says how the model is fine-tuned, found none")
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
        """As the public model's."""
        return self.public._along(self.public.with_adapter(self.weights), tokens)


def _low_rank(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if "lora_" in name}


def _float(scores: Tensor) -> Array:
    """Log-probabilities, normalised in double precision."""
    found: Array = functional.log_softmax(scores.double(), -1).cpu().numpy()
    return found


def _train(model: nn.Module, records: Sequence[Tokens], how: Tuning) -> None:
    """Without noise: what comes of it stays on the private side."""
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
