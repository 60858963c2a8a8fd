"""Language models behind the port: counts against a dictionary, transformers against a plain forward pass, texts and vocabularies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array
from dpcli.predict.models.model_answers import Tokens, content_of
from dpcli.predict.models.model_loading import (
    ByteVocabulary,
    WordVocabulary,
    language_model,
    require_fits,
    require_same_vocabulary,
    vocabulary_of,
)
from dpcli.predict.models.ngram import UNLIMITED_CONTEXT, count_ngrams, public_ngram, unpack
from dpcli.predict.models.texts import TextSource, owned_texts, public_texts
from tests.cases import of_each

SEED = random.randrange(2**32)


def drawn(count: int, vocabulary: int, seed: int) -> list[list[int]]:
    """Records of up to 12 tokens, some empty."""
    source = random.Random(seed)
    return [[source.randrange(vocabulary) for _ in range(source.randrange(12))] for _ in range(count)]


def by_dictionary(records: list[list[int]], lengths: range, context: list[int], below: list[float]) -> list[float]:
    """The interpolation, token by token."""
    for length in lengths:
        follow: Counter[int] = Counter()
        for record in records:
            for place in range(length, len(record)):
                if length <= len(context) and record[place - length : place] == context[len(context) - length :]:
                    follow[record[place]] += 1
        if follow:
            total = follow.total() + len(follow)
            below = [(follow[token] + len(follow) * value) / total for token, value in enumerate(below)]
    return below


@of_each("order", [1, 2, 3])
def test_counts_are_interpolated_as_a_dictionary_would(order: int) -> None:
    public, private = drawn(30, 4, SEED), drawn(30, 4, SEED + 1)
    model = public_ngram(public, order, 4)
    tuned = model.tuned(model.tune(private))
    for context in drawn(20, 4, SEED + 2):
        expected = by_dictionary(public, range(order), context, [0.25] * 4)
        assert np.exp(model.next_token([context])[0]) == pytest.approx(expected, rel=1e-12), SEED
        expected = by_dictionary(private, range(min(1, order - 1), order), context, expected)
        assert np.exp(tuned.next_token([context])[0]) == pytest.approx(expected, rel=1e-12), SEED


def test_no_records_teach_nothing() -> None:
    model = public_ngram(drawn(40, 6, SEED), 2, 6)
    assert model.tuned(model.tune([])).next_token([[3]]) == pytest.approx(model.next_token([[3]]), rel=1e-15)


def test_bytes_that_are_no_counts_are_refused() -> None:
    with pytest.raises(InputError, match="expected the counts of an n-gram model"):
        unpack(b"something else", 5)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="expected token ids below 4"):
        count_ngrams([[1, 4]], 1, 4)


def test_words_come_back() -> None:
    words = WordVocabulary(["the", "cat", "sat"])
    ids = words.ids("the cat\nsat there")
    assert ids == [2, 3, 1, 4, 0]
    assert words.text(ids) == "the cat\nsat <unk>"
    assert words.end == 1


@of_each("text", ["plain", "zwölf Boxkämpfer", "\n\n", ""])
def test_bytes_come_back(text: str) -> None:
    assert ByteVocabulary().text(ByteVocabulary().ids(text)) == text


def test_what_is_no_text_is_replaced() -> None:
    assert ByteVocabulary().text([0xFF, 0x41]) == "\ufffdA"


def test_texts_have_owners(tmp_path: Path) -> None:
    (tmp_path / "mails.csv").write_text("who,text\nann,first\nbob,second\nann,third\n")
    (tmp_path / "mails.jsonl").write_text('{"who": 1, "text": "first"}\n{"who": 2, "text": "second"}\n')
    (tmp_path / "mails.txt").write_text("one\ntwo\n\nthree\n")
    path = str(tmp_path / "file.toml")
    result = owned_texts(TextSource("mails.csv", path, "pmixed.data", units="who"))
    assert (result.texts, result.units) == (("first", "second", "third"), ("ann", "bob", "ann"))
    assert owned_texts(TextSource("mails.jsonl", path, "pmixed.data", units="who")).units == (1, 2)
    assert owned_texts(TextSource("mails.txt", path, "pmixed.data")).texts == ("one", "two", "three")
    assert owned_texts(TextSource("mails.txt", path, "pmixed.data", record="paragraph")).texts == ("one\ntwo", "three\n")
    assert public_texts("mails.txt", path, "pmixed.public") == ["one", "two", "three"]
    with pytest.raises(InputError, match=r"pmixed\.public: expected a \.txt file, or module:function, found 'mails'"):
        public_texts("mails", path, "pmixed.public")


@of_each(
    "content, message",
    [
        ("who,text\nann,secret\n,other\n", "owners that are missing"),
        ("owner,text\nann,secret\n", "found a row without it"),
        ("who,text\n", "found no text"),
    ],
)
def test_bad_texts_are_refused_without_quoting_them(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "mails.csv").write_text(content)
    with pytest.raises(InputError, match=message) as error:
        owned_texts(TextSource("mails.csv", str(tmp_path / "file.toml"), "pmixed.data", units="who"))
    assert "secret" not in str(error.value)


def test_an_attribute_called_numbers_is_no_content() -> None:
    @dataclass
    class Numbered:
        numbers: Any
        vocabulary: int = 4
        context: int = 8

        def next_token(self, contexts: Sequence[Tokens]) -> Array:
            return np.full((len(contexts), 4), -np.log(4.0))

    assert content_of(Numbered([1, 2])) == content_of(Numbered(None))
    with pytest.raises(InputError, match="the public model: raised TypeError"):
        content_of(Numbered(lambda: 3))


def test_models_of_another_vocabulary_are_refused() -> None:
    public, other = public_ngram([[1, 2]], 2, 5), public_ngram([[1, 2]], 2, 6)
    require_same_vocabulary(public, public, "shard 3")
    with pytest.raises(InputError, match="shard 3: expected the public model's vocabulary of 5 tokens, found 6"):
        require_same_vocabulary(public, other, "shard 3")


OWN = """
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.models.model_loading import WordVocabulary

WORDS = WordVocabulary(["a", "b"])

def both():
    return public_ngram([WORDS.ids("a b a b")], 2, 4), WORDS

def alone():
    return public_ngram([WORDS.ids("a b a b")], 2, 4)

def words():
    return WORDS

def neither():
    return 3
"""


def test_a_model_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_port.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = str(tmp_path / "file.toml")
    model, vocabulary = language_model("own_port:both", None, path)
    assert model.vocabulary == 4 and vocabulary.ids("a c") == [2, 0]
    assert language_model("own_port:alone", "own_port:words", path)[0].context == UNLIMITED_CONTEXT
    with pytest.raises(InputError, match=r"pmixed\.tokenizer: a model from module:function needs a tokenizer: bytes"):
        language_model("own_port:alone", None, path)
    with pytest.raises(InputError, match=r"prompt\.tokenizer: expected an object with ids, text and end"):
        vocabulary_of("own_port:neither", path, "prompt")


@pytest.mark.long
@pytest.mark.needs("torch", "transformers", "peft", "safetensors")
def test_a_transformer_answers_as_its_forward_pass_does(tmp_path: Path) -> None:
    import torch
    import transformers

    from dpcli.predict.models.transformer import Transformer, Tuning
    from dpcli.train.plan.settings_language import Lora

    torch.manual_seed(SEED)
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 256, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    bare = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    bare.save_pretrained(tmp_path / "model")
    tuning = Tuning(Lora(2, targets=("c_attn",)), 0.01, 2, 4)
    model, vocabulary = language_model(str(tmp_path / "model"), "bytes", str(tmp_path / "file.toml"), tuning=tuning)
    assert isinstance(model, Transformer) and (model.vocabulary, model.context) == (256, 32)
    contexts = [vocabulary.ids(text) for text in ("a", "some words", "other")]
    with torch.no_grad():
        expected = [torch.log_softmax(bare(torch.tensor([ids])).logits[0].double(), -1).numpy() for ids in contexts]
    assert model.next_token(contexts) == pytest.approx(np.stack([rows[-1] for rows in expected]), abs=1e-5)
    assert model.along(contexts[1]) == pytest.approx(expected[1], abs=1e-5)
    assert np.exp(model.next_token([[]])).sum() == pytest.approx(1.0)  # behind the token that begins a text
    first, second = model.tune([vocabulary.ids("aaaaaaaaaa")] * 8), model.tune([vocabulary.ids("abababab")] * 8)
    one, two = model.tuned(first), model.tuned(second)
    before = one.next_token(contexts)
    assert not np.allclose(before, two.next_token(contexts)) and not np.allclose(before, model.next_token(contexts))
    assert (one.next_token(contexts) == before).all()  # whatever the others were asked meanwhile
    assert model.next_token(contexts) == pytest.approx(np.stack([rows[-1] for rows in expected]), abs=1e-5)
    assert model.tuned(model.tune([])).next_token(contexts) == pytest.approx(model.next_token(contexts), abs=1e-6)
    from safetensors.torch import load, save

    away = model.tuned(save({name: value * float("nan") for name, value in load(first).items()}))
    assert np.isnan(away.next_token(contexts)).all()
    assert model.next_token(contexts) == pytest.approx(np.stack([rows[-1] for rows in expected]), abs=1e-5)
    with pytest.raises(InputError, match="expected from 1 to 32 tokens before the next one, found 33"):
        model.next_token([[1] * 33])
    with pytest.raises(InputError, match=r"prompts are never cut"):
        require_fits(model, [1] * 30, 4)
    require_fits(model, [1] * 29, 4)
    with pytest.raises(InputError, match="below the model's 256: the tokenizer belongs to another model"):
        require_fits(model, [256], 4)
    with pytest.raises(InputError, match="expected the weights of an adapter"):
        model.tuned(b"something else")
