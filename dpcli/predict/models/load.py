"""The language model that a file names, with its vocabulary."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.predict.models.port import LanguageModel, Tokens, Vocabulary
from dpcli.predict.models.vocabularies import vocabulary_of

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Transformer, Tuning


def language_model(
    name: str, tokenizer: str | None, path: str, table: str = "pmixed", tuning: Tuning | None = None, device: str = "cpu"
) -> tuple[LanguageModel, Vocabulary]:
    """The public model that a table of a file names, and its vocabulary.

    Args:
        name: a folder, a name that transformers knows, or module:function of the user's own: it returns a language model (see port.py),
            a torch module that gives logits (B, T, vocabulary) from ids (B, T), or a pair of one of these and its vocabulary.
        tokenizer: bytes, a folder, a name, or module:function; None: the model's own.
        path, table: of the file, and of its table with the keys `model` and `tokenizer`.
        tuning: how a torch module is fine-tuned, where it is to be.

    Raises:
        InputError: it cannot be had, or it is none. Unavailable: it needs a package that is not installed.
    """
    from dpcli.train.tasks.user_code import result

    if ":" not in name:
        require("torch", "transformers", "safetensors")
        found, own = _pretrained(name, path, table), tokenizer or name
        return _wrapped(found, path, table, tuning, device), vocabulary_of(own, path, table)
    made = result(name, path)
    model, vocabulary = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if tokenizer is not None:
        vocabulary = vocabulary_of(tokenizer, path, table)
    if vocabulary is None:
        raise InputError(
            f"{path}: {table}.tokenizer: expected bytes, a path, a name or module:function for a model of your own, found none"
        )
    if all(hasattr(model, part) for part in ("next_token", "vocabulary", "context")):
        if not all(isinstance(size, int) and size >= 1 for size in (model.vocabulary, model.context)):
            raise InputError(f"{path}: {table}.model: expected whole numbers as its vocabulary and context, found something else")
        return model, vocabulary
    require("torch")
    return _wrapped(model, path, table, tuning, device), vocabulary


def require_same_vocabulary(public: LanguageModel, model: LanguageModel, who: str) -> None:
    """Raise InputError where a model does not tell the same tokens apart as the public one: their probabilities cannot be mixed."""
    found = getattr(model, "vocabulary", None)
    if type(found) is not int or found != public.vocabulary or not hasattr(model, "next_token"):
        raise InputError(
            f"{who}: expected the public model's vocabulary of {public.vocabulary} tokens, found "
            f"{found if type(found) is int else type(model).__name__}"
        )


def require_fits(model: LanguageModel, prompt: Tokens, more: int) -> None:
    """Raise InputError where a prompt and all tokens that may follow are longer than the model's context, or are no tokens of it."""
    if len(prompt) + more - 1 > model.context:
        raise InputError(
            f"prompt: expected at most {max(model.context - more + 1, 0)} tokens before {more} new ones (the model's context is "
            f"{model.context}), found {len(prompt)}; a prompt is not cut"
        )
    if not all(0 <= token < model.vocabulary for token in prompt):
        raise InputError(
            f"prompt: expected token ids below the model's {model.vocabulary}, found others: the tokenizer is another model's"
        )


def _pretrained(name: str, path: str, table: str) -> Any:
    import torch

    from dpcli.train.tasks.lm_library import library, pretrained

    load = library("transformers").AutoModelForCausalLM.from_pretrained
    found, report = pretrained(name, "model", path, partial(load, dtype=torch.float32, output_loading_info=True), table)
    if report["missing_keys"]:
        absent = ", ".join(sorted(report["missing_keys"])[:3])
        raise InputError(f"{path}: {table}.model: expected the weights of a causal language model, found none for {absent}")
    return found


def _wrapped(model: Any, path: str, table: str, tuning: Tuning | None, device: str) -> Transformer:
    from torch import nn

    from dpcli.predict.models.transformer import Transformer

    if not isinstance(model, nn.Module):
        raise InputError(f"{path}: {table}.model: expected a language model or a torch module, found {type(model).__name__}")
    config = getattr(model, "config", None)
    longest = getattr(config, "max_position_embeddings", None) or 10**9
    model = model.to(device).eval().requires_grad_(False)
    return Transformer(model, _width(model, path, table), longest, path, tuning, getattr(config, "bos_token_id", None))


def _width(model: Any, path: str, table: str) -> int:
    """How many tokens a torch module tells apart."""
    import torch

    from dpcli.train.tasks.lm_models import logits

    place = next((value.device for value in model.parameters()), torch.device("cpu"))
    with torch.no_grad():
        try:
            rows, places, width = logits(model, torch.zeros(1, 2, dtype=torch.int64, device=place)).shape
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as problem:
            raise InputError(f"{path}: {table}.model: expected logits (B, T, vocabulary) from ids (B, T) ({problem})") from None
    if (rows, places) != (1, 2):
        raise InputError(f"{path}: {table}.model: expected a logit for each token at each place, found another shape")
    return int(width)
