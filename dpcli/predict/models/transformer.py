"""Causal language models of torch: the next token by one forward pass, and fine-tuning by low-rank adapters.

`dpcli pmixed` fits one adapter on each private shard; prompt and generate use the public model alone. An adapter is a set of low-rank
matrices on top of the frozen weights (Hu et al. 2021, arXiv:2106.09685). All adapters share one model in memory, which holds one adapter at
a time.

Several adapters may be evaluated in one joint pass: the batch then has a copy of the context for each adapter, which the low-rank layers
multiply by that adapter's matrices. The copies do not interact: as long as the number and order of the adapters stay the same, the weights
of one adapter, even NaN, change no bit of another's answer. The number of adapters may change the last bits of all answers.
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

PASS_BYTES = 2 * 2**30  # most memory of a joint pass, in addition to the model; arbitrary, more adapters in a pass save time
PADDING = -100  # label of padding, which cross_entropy ignores
Adapter = Mapping[str, Tensor]  # parameter name -> low-rank matrix


@dataclass(frozen=True, slots=True)
class Tuning:
    """Parameters for training an adapter by Adam. Batches are random, and the learning rate decreases linearly to zero."""

    lora: Lora
    learning_rate: float
    epochs: int
    batch_size: int


@dataclass(slots=True)
class Transformer:
    """A public language model of torch, which can be fine-tuned by adapters.

    Attributes:
        vocabulary: Number of tokens.
        context: Largest number of tokens in a context.
        path: Path of the pipeline file, for messages.
        tuning: Parameters of fine-tuning; None if the model is not fine-tuned.
        start: Token that stands for an empty context. None if the model has no such token; an empty context is then refused.
    """

    model: nn.Module
    vocabulary: int
    context: int
    path: str
    tuning: Tuning | None = None
    start: int | None = None
    _adapted: nn.Module | None = field(default=None, init=False)
    _joint_pass_works: bool | None = field(default=None, init=False)

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.read(self._public_model(), contexts)

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Yield the weights of the public model with their names, as bytes, for a digest of the model (`LanguageModel`).

        Must be called before the model has an adapter.
        """
        for name, value in sorted(self.model.state_dict().items()):
            yield f"{name} {value.dtype}", value.detach().cpu().contiguous().view(torch.uint8).numpy()

    def ready(self) -> None:
        """Insert the layers of the adapter now, so that processes forked later inherit them."""
        self._with_adapter_layers()

    def along(self, tokens: Tokens) -> Array:
        """Return log-probabilities of the next token after each prefix of the tokens, (tokens, vocabulary)."""
        return self.read_along(self._public_model(), tokens)

    def tune(self, records: Sequence[Tokens]) -> bytes:
        from safetensors.torch import save

        model = self._with_new_adapter()
        if any(len(record) > 1 for record in records):
            _train(model, records, self._require_tuning())
        return save({name: value.detach().cpu().contiguous() for name, value in _low_rank(model).items()})

    def tuned(self, learnt: bytes) -> LanguageModel:
        from safetensors.torch import load

        try:
            weights = load(learnt)
        except Exception as problem:  # whatever safetensors raises for malformed bytes
            raise InputError(f"expected the weights of an adapter ({problem})") from None
        model = self._with_new_adapter()
        shapes = {name: tuple(value.shape) for name, value in _low_rank(model).items()}
        if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
            raise InputError("expected the weights of an adapter of this model and rank, found weights of other shapes")
        return Adapted(self, weights)

    def joint_next_token(self, models: Sequence[LanguageModel], tokens: Tokens) -> Array | None:
        """Return log-probabilities after one context by several models that `tuned` returned, (models, vocabulary).

        The models are evaluated in as few passes as memory allows. The result is None if they have to be evaluated one at a time. Each row
        equals the answer of its model alone, up to SAME_ANSWER nats. The first call tests this with random adapters. The row of one model
        does not depend on the weights of the other models.
        """
        adapters = [model.weights for model in models if isinstance(model, Adapted) and model.public is self]
        if len(adapters) != len(models) or len(models) < 2:
            return None
        if self._joint_pass_works is None:
            self._joint_pass_works = self._joint_agrees()
        if not self._joint_pass_works:
            return None
        context = self._checked_context(tokens)
        return _log_probabilities(last_scores(self._with_adapter_layers(), adapters, context, self.vocabulary))

    def _joint_agrees(self) -> bool:
        """Return whether two random adapters give equal answers in a joint pass and alone, up to SAME_ANSWER.

        The seed, the size of the weights and the context are arbitrary. The weights must not be 0, or every adapter would give one answer.
        """
        generator = torch.Generator().manual_seed(0)
        shapes = {name: value.shape for name, value in _low_rank(self._with_adapter_layers()).items()}
        adapters = [{name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()} for _ in range(2)]
        context = [token % self.vocabulary for token in range(min(3, self.context))]
        try:
            joint = _log_probabilities(last_scores(self._with_adapter_layers(), adapters, context, self.vocabulary))
        except (NotJoint, RuntimeError, ValueError, TypeError, IndexError):
            return False
        alone = np.concatenate([Adapted(self, weights).next_token([context]) for weights in adapters])
        return joint.shape == alone.shape and bool(np.abs(joint - alone).max() <= SAME_ANSWER)

    def with_adapter(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """Return the model after copying the weights of an adapter into it."""
        model = self._with_adapter_layers()
        with torch.no_grad():
            for name, value in _low_rank(model).items():
                value.copy_(weights[name])
        return model

    def read(self, model: nn.Module, contexts: Sequence[Tokens]) -> Array:
        """Return log-probabilities of the next token by a model with or without an adapter, (contexts, vocabulary).

        Each context is evaluated alone, so that no other context changes the last bits of its answer.
        """
        return _log_probabilities(torch.cat([self._logits(model, context)[-1:] for context in contexts]))

    def read_along(self, model: nn.Module, tokens: Tokens) -> Array:
        """Return log-probabilities of the next token after each prefix of the tokens, by a model with or without an adapter."""
        return _log_probabilities(self._logits(model, tokens))

    @torch.no_grad()
    def _logits(self, model: nn.Module, tokens: Tokens) -> Tensor:
        device = next(iter(model.parameters())).device
        return logits(model, torch.tensor([self._checked_context(tokens)], device=device))[0]

    def _checked_context(self, tokens: Tokens) -> list[int]:
        """Return the tokens of a context; `start` if it is empty. Raises InputError if it is too long, or empty without a `start`."""
        context = list(tokens)
        if not context and self.start is not None:
            context = [self.start]
        if not 1 <= len(context) <= self.context:
            raise InputError(f"expected from 1 to {self.context} tokens before the next one, found {len(context)}")
        return context

    def _public_model(self) -> nn.Module:
        """Return the public model, with the matrices of the adapter set to zero.

        Both matrices are set to zero, since 0 times NaN of a private adapter would show in the answer.
        """
        if self._adapted is None:
            return self.model
        with torch.no_grad():
            for value in _low_rank(self._adapted).values():
                value.zero_()
        return self._adapted

    def _with_adapter_layers(self) -> nn.Module:
        """Return the model with the layers of an adapter, which the first call inserts."""
        if self._adapted is None:
            self._adapted = lora(self.model, self._require_tuning().lora, self.path, "pmixed").eval()
        return self._adapted

    def _with_new_adapter(self) -> nn.Module:
        """Return the model with a newly initialised adapter, so that nothing depends on earlier training."""
        model = self._with_adapter_layers()
        with torch.no_grad():
            for name, value in _low_rank(model).items():
                if "lora_B" in name:  # the second of the two matrices is 0, so a new adapter changes no answer
                    value.zero_()
                else:
                    nn.init.kaiming_uniform_(value, a=5**0.5)  # as torch initialises a linear layer
        return model

    def _require_tuning(self) -> Tuning:
        if self.tuning is None:
            raise InputError(f"{self.path}: pmixed.lora: set the parameters of fine-tuning")
        return self.tuning


@dataclass(frozen=True, slots=True)
class Adapted:
    """The public model with one adapter, whose weights are copied into the model before each forward pass."""

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
        """Return log-probabilities of the next token after each prefix of the tokens, (tokens, vocabulary)."""
        return self.public.read_along(self.public.with_adapter(self.weights), tokens)


class NotJoint(Exception):
    """The adapters of the model cannot be evaluated in a joint pass. They are then evaluated one at a time."""


@torch.no_grad()
def last_scores(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int], vocabulary: int) -> Tensor:
    """Return the logits of the next token by the model with each of the adapters, (adapters, vocabulary).

    Raises NotJoint if an adapted layer is not a plain matrix, or its input is not one copy of the context for each adapter.
    """
    most = most_adapters(adapters[0], len(tokens), vocabulary)
    parts = [adapters[start : start + most] for start in range(0, len(adapters), most)]
    return torch.cat([_joint_logits(model, part, tokens) for part in parts])


def most_adapters(adapter: Adapter, tokens: int, vocabulary: int) -> int:
    """Return the largest number of adapters in a joint pass, at least one.

    The estimate for each adapter is the memory of its matrices and of its copy of the context. Each token of the copy is estimated at 3
    numbers per word of the vocabulary, 64 per unit of the widest adapted layer, and 64 per token. A number is estimated at 8 bytes.
    """
    widest = max(max(value.shape) for value in adapter.values())
    matrix_numbers = sum(value.numel() for value in adapter.values())
    context_numbers = tokens * (3 * vocabulary + 64 * (widest + tokens))
    return max(1, PASS_BYTES // (8 * (matrix_numbers + context_numbers)))


def _joint_logits(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int]) -> Tensor:
    """Return the logits of the next token by the model with each of the adapters, in one pass."""
    device = next(iter(model.parameters())).device
    with _stacked_adapters(model, adapters):
        return logits(model, torch.tensor([list(tokens)] * len(adapters), device=device))[:, -1]


@contextmanager
def _stacked_adapters(model: nn.Module, adapters: Sequence[Adapter]) -> Iterator[None]:
    """Within the block, each low-rank layer of the model multiplies copy k of the context by the matrix of adapter k."""
    with ExitStack() as hooks:
        for name in adapters[0]:  # the name of a low-rank matrix is the name of its layer with ".weight" appended
            layer_name, _, parameter = name.rpartition(".")
            layer = model.get_submodule(layer_name)
            if not isinstance(layer, nn.Linear) or parameter != "weight" or layer.bias is not None:
                raise NotJoint(layer_name)
            matrices = torch.stack([adapter[name] for adapter in adapters]).to(layer.weight)
            hooks.callback(layer.register_forward_hook(_multiply_by(matrices)).remove)
        yield


def _multiply_by(matrices: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    """Return a forward hook that multiplies copy k of the input by matrix k, (copies, out, in)."""

    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        (x,) = inputs
        if x.dim() != 3 or x.shape[0] != matrices.shape[0]:
            raise NotJoint(f"copies of shape {tuple(x.shape)}")
        return torch.bmm(x, matrices.transpose(1, 2))

    return hook


def _low_rank(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of the adapter, by name."""
    return {name: value for name, value in model.named_parameters() if "lora_" in name}


def _log_probabilities(scores: Tensor) -> Array:
    """Return the log-probabilities of logits, normalised in double precision."""
    rows: Array = functional.log_softmax(scores.double(), -1).cpu().numpy()
    return rows


def _train(model: nn.Module, records: Sequence[Tokens], tuning: Tuning) -> None:
    """Train the adapter of the model without noise. The trained weights are private."""
    rows = _pad_records(records)
    trained = list(_low_rank(model).values())
    optimizer = torch.optim.Adam(trained, lr=tuning.learning_rate)
    batches = -(-len(rows) // tuning.batch_size)  # rounded up
    steps = tuning.epochs * batches
    with torch.enable_grad():
        for step in range(steps):
            if step % batches == 0:
                order = torch.randperm(len(rows))  # a new order in each epoch, dealt out to its batches in turn
            optimizer.param_groups[0]["lr"] = tuning.learning_rate * (1.0 - step / steps)
            batch = rows[order[step % batches :: batches]].to(trained[0].device)
            optimizer.zero_grad()
            scores = logits(model, batch)[:, :-1].flatten(0, 1)
            torch.autograd.backward(functional.cross_entropy(scores, batch[:, 1:].flatten(), ignore_index=PADDING))
            optimizer.step()


def _pad_records(records: Sequence[Tokens]) -> Tensor:
    """Return the records of two tokens or more, padded to the longest, (records, tokens)."""
    usable = [torch.tensor(list(record)) for record in records if len(record) > 1]
    return nn.utils.rnn.pad_sequence(usable, batch_first=True, padding_value=PADDING)
