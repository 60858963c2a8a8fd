"""Language models and vocabularies for private prediction: loading them as a file names them, and checks of the loaded ones.

pmixed, prompt and generate load their public model here. A model or a vocabulary (a tokenizer) is named by a folder, by a name that
transformers knows, or by module:function. `ByteVocabulary`, `WordVocabulary` and `PretrainedVocabulary` are the vocabularies of this
package. `path` is the path of the pipeline file, from whose folder relative names start, and `table` the section that names the model;
messages about a key begin with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import LanguageModel, Tokens, Vocabulary, require_ids, text_of_tokens

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Transformer, Tuning

UNKNOWN, LINE_END = "<unk>", "<end>"  # the first two words of every `WordVocabulary`
UNLIMITED = 10**9  # context of a model that states none, and limit of every tokenizer (`require_fits` checks prompts)


def language_model(
    name: str, tokenizer: str | None, path: str, table: str = "pmixed", tuning: Tuning | None = None, device: str = "cpu"
) -> tuple[LanguageModel, Vocabulary]:
    """Return the public model that a table of a file names, and its vocabulary.

    Args:
        name: A folder, a name that transformers knows, or module:function written by the user. The function returns a LanguageModel, a
            torch module that gives logits (B, T, vocabulary) from ids (B, T) of B texts of T tokens, or a pair of such a model and its
            vocabulary.
        tokenizer: "bytes", a folder, a name, or module:function; the model's own tokenizer if None.
        table: Name of its table that has the keys `model` and `tokenizer`, for messages.
        tuning: Parameters for fine-tuning a torch module on private shards, or None. A LanguageModel of the user ignores them.
        device: torch device for a torch module. A LanguageModel of the user ignores it.

    Raises:
        InputError: If the model or its vocabulary cannot be loaded, or the model is not a language model.
        Unavailable: If a package that the model needs is not installed.
    """
    from dpcli.train.tasks.user_code import public_result

    if ":" not in name:
        require("torch", "transformers", "safetensors")
        from dpcli.train.tasks.lm_models import causal_model

        return _torch_model(causal_model(name, path, table), path, table, tuning, device), vocabulary_of(
            tokenizer or name, path, table
        )
    built = public_result(name, path)
    model, vocabulary = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if tokenizer is not None:
        vocabulary = vocabulary_of(tokenizer, path, table)
    if vocabulary is None:
        raise InputError(
            f"{path}: {table}.tokenizer: a model from module:function needs a tokenizer: bytes, a path, a name or module:function, "
            "or one that the function returns with the model"
        )
    if all(hasattr(model, part) for part in ("next_token", "vocabulary", "context")):
        sizes = (model.vocabulary, model.context)
        if not all(isinstance(size, int) and size >= 1 for size in sizes):
            raise InputError(f"{path}: {table}.model: expected whole numbers as its vocabulary and context, found {sizes!r:.60}")
        return model, vocabulary
    require("torch")
    return _torch_model(model, path, table, tuning, device), vocabulary


def require_same_vocabulary(public: LanguageModel, model: LanguageModel, who: str) -> None:
    """Raise InputError, with `who` first, if the models have different numbers of tokens: probabilities of the same tokens are mixed."""
    size = getattr(model, "vocabulary", None)
    if type(size) is not int or size != public.vocabulary or not hasattr(model, "next_token"):
        actual = size if type(size) is int else type(model).__name__
        raise InputError(f"{who}: expected the public model's vocabulary of {public.vocabulary} tokens, found {actual}")


def require_fits(model: LanguageModel, prompt: Tokens, more: int) -> None:
    """Raise InputError if the model cannot continue a prompt by `more` tokens, or the prompt has tokens that the model does not know.

    The last new token is never an input of the model. The prompt may therefore have context - more + 1 tokens.
    """
    if len(prompt) + more - 1 > model.context:
        raise InputError(
            f"prompt: expected at most {max(model.context - more + 1, 0)} tokens before {more} new ones (the model's context is "
            f"{model.context}), found {len(prompt)}; prompts are never cut"
        )
    require_ids(prompt, model.vocabulary, "prompt: ")


def _torch_model(model: Any, path: str, table: str, tuning: Tuning | None, device: str) -> Transformer:
    """Return a torch module as a language model on the device. Raises InputError if it is not a torch module that gives logits."""
    from torch import nn

    from dpcli.predict.models.transformer import Transformer

    if not isinstance(model, nn.Module):
        raise InputError(f"{path}: {table}.model: expected a language model or a torch module, found {type(model).__name__}")
    config = getattr(model, "config", None)
    longest = getattr(config, "max_position_embeddings", None) or UNLIMITED
    model = model.to(device).eval().requires_grad_(False)
    start = getattr(config, "bos_token_id", None)  # the token that stands for an empty context
    return Transformer(model, vocabulary=_token_count(model, path, table), context=longest, path=path, tuning=tuning, start=start)


def _token_count(model: Any, path: str, table: str) -> int:
    """Return the number of tokens for which a torch module gives logits. Raises InputError if a trial call gives no logits."""
    import torch

    from dpcli.train.tasks.lm_models import logits

    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    with torch.no_grad():
        try:
            shape = logits(model, torch.zeros(1, 2, dtype=torch.int64, device=device)).shape
            rows, positions, vocabulary_size = shape
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as problem:
            raise InputError(f"{path}: {table}.model: expected logits (B, T, vocabulary) from ids (B, T) ({problem})") from None
    if (rows, positions) != (1, 2):
        raise InputError(f"{path}: {table}.model: expected logits (1, 2, vocabulary) from ids (1, 2), found {tuple(shape)}")
    return int(vocabulary_size)


@dataclass(frozen=True, slots=True)
class ByteVocabulary:
    """A vocabulary whose tokens are the 256 bytes of UTF-8 text. A text ends at a line end."""

    end: int | None = ord("\n")
    size: int = 256

    def ids(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def text(self, ids: Tokens) -> str:
        return bytes(ids).decode(errors="replace")


class WordVocabulary:
    """A vocabulary of the words of a list, for a user's module:function. Texts are split at white space.

    A word not in the list is <unk>, and a line end is <end>: with the words a and b, "a c\\nb" is the tokens 2, 0, 1, 3.

    The list must be public. If it were made from private texts, a word in it would reveal that somebody used the word.
    """

    end: int | None = 1  # position of LINE_END in `words`

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(dict.fromkeys((UNKNOWN, LINE_END, *words)))
        self._tokens = {word: token for token, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        return len(self.words)

    def ids(self, text: str) -> list[int]:
        tokens: list[int] = []
        for number, line in enumerate(text.split("\n")):
            if number > 0:
                tokens.append(self._tokens[LINE_END])
            tokens += [self._tokens.get(word, self._tokens[UNKNOWN]) for word in line.split()]
        return tokens

    def text(self, ids: Tokens) -> str:
        text = " ".join("\n" if token == self.end else self.words[token] for token in ids)
        return text.replace(" \n", "\n").replace("\n ", "\n")


@dataclass(frozen=True, slots=True)
class PretrainedVocabulary:
    """A tokenizer of transformers. It adds no special token before or after a text."""

    tokenizer: Any

    @property
    def end(self) -> int | None:
        end: int | None = self.tokenizer.eos_token_id
        return end

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, ids: Tokens) -> str:
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def require_token_texts(vocabulary: Vocabulary, row: Array, place: str) -> None:
    """Raise InputError if a token with a positive probability has no text. `row` has the log-probabilities of tokens, (vocabulary,).

    A tokenizer of transformers is not checked, as it has a text, which may be empty, for every token.
    """
    if isinstance(vocabulary, PretrainedVocabulary):
        return
    for token in np.flatnonzero(row > -np.inf).tolist():
        text_of_tokens(vocabulary, [token], f"{place}: token {token} of the model's {len(row)}")


def vocabulary_of(source: str, path: str, table: str) -> Vocabulary:
    """Return the vocabulary that a file names: bytes, module:function, a folder, or a name that transformers knows.

    Raises:
        InputError: If the vocabulary cannot be loaded, or lacks `ids`, `text` or `end`.
        Unavailable: If transformers is needed and not installed.
    """
    from dpcli.train.tasks.lm_library import library, load_pretrained
    from dpcli.train.tasks.user_code import public_result

    if source == "bytes":
        return ByteVocabulary()
    if ":" in source:
        built = public_result(source, path)
        if not all(callable(getattr(built, name, None)) for name in ("ids", "text")) or not hasattr(built, "end"):
            raise InputError(
                f"{path}: {table}.tokenizer: expected an object with ids, text and end from {source}, found {type(built).__name__}"
            )
        vocabulary: Vocabulary = built
        return vocabulary
    load = library("transformers").AutoTokenizer.from_pretrained
    return PretrainedVocabulary(load_pretrained(source, "tokenizer", path, partial(load, model_max_length=UNLIMITED), table))


def size_of(vocabulary: Vocabulary, path: str, table: str) -> int:
    """Return the number of tokens of a vocabulary. Raises InputError if its `size` is missing, or not a positive whole number."""
    size = getattr(vocabulary, "size", None)
    if type(size) is not int or size < 1:
        raise InputError(f"{path}: {table}.tokenizer: expected a vocabulary with a size, its number of tokens, found {size!r:.60}")
    return size
