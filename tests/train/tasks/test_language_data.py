"""The records of language tasks (train/tasks/lm_texts.py): what is read, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="language models need the lm extra")
from dpcli.base.errors import InputError  # noqa: E402
from dpcli.random.streams import system_entropy  # noqa: E402
from dpcli.train.plan.settings import Train  # noqa: E402
from dpcli.train.plan.settings_language import Lora  # noqa: E402
from dpcli.train.tasks import causal_lm, soft_prompt  # noqa: E402
from dpcli.train.tasks.lm_library import cached_only  # noqa: E402
from tests.cases import require_each  # noqa: E402
from tests.train.tasks.language import table  # noqa: E402

LINES = "first line\n\nsecond\nthird, a longer line than others\n\n\nlast\n"
LABELLED: dict[str, Any] = {"task": "soft-prompt", "soft_prompt": 2, "labels": ("negative", "positive")}


def records(train: Train, path: str) -> list[bytes]:
    """Each record's bytes."""
    found = causal_lm.build(train, path).records
    assert isinstance(found, torch.Tensor)
    return [bytes(row[row >= 0].tolist()) for row in found]


def refusal(train: Train, path: str, module: Any = causal_lm) -> str:
    with pytest.raises(InputError) as problem:
        module.build(train, path)
    return str(problem.value).removeprefix(f"{path}: ").replace(str(Path(path).parent) + "/", "")


def beside(path: str, name: str, text: str) -> str:
    Path(path).with_name(name).write_text(text, encoding="utf-8")
    return name


def test_lines(place: str) -> None:
    source = beside(place, "some.txt", LINES)
    assert records(table(data=source), place) == [b"first line\n", b"second\n", b"third, a longer ", b"last\n"]


def test_paragraphs(place: str) -> None:
    source = beside(place, "some.txt", LINES)
    expected = [b"first line\n", b"second\nthird, a longer line th", b"last\n\n"[:6]]
    assert records(table(data=source, record="paragraph", context=30), place) == expected


def test_windows_of_a_file(place: str) -> None:
    source = beside(place, "some.txt", LINES)
    found = records(table(data=source, record="window", context=10), place)
    assert b"".join(found) == LINES.encode()
    assert {len(row) for row in found[:-1]} == {10}


def test_windows_belong_to_their_paragraph(place: str) -> None:
    source = beside(place, "some.txt", LINES)
    found = causal_lm.build(table(data=source, record="window", context=10, units="paragraph"), place)
    assert found.units is not None
    assert found.units.tolist() == [0, 1, 1, 1, 1, 2]


def test_windows_belong_to_their_row(place: str) -> None:
    rows = [{"body": "a" * 25, "who": "x"}, {"body": "b" * 10, "who": "y"}, {"body": "c", "who": "x"}]
    source = beside(place, "some.jsonl", "\n".join(map(json.dumps, rows)))
    found = causal_lm.build(table(data=source, text="body", units="who", record="window", context=10), place)
    assert found.units is not None
    assert found.units.tolist() == ["x", "x", "x", "y", "x"]


def test_own_arrays_and_owners(place: str) -> None:
    assert records(table(data="own_language:arrays", tokenizer=None), place)[1] == bytes(range(10, 20))
    found = causal_lm.build(table(data="own_language:owned", units="anything"), place)
    assert found.units is not None
    assert found.units.tolist() == [i // 2 for i in range(40)]


def test_held_out_records_are_no_private_ones(place: str) -> None:
    private = records(table(public="held-out", held_out=0.25), place)
    everything = records(table(), place)
    assert private == [row for at, row in enumerate(everything) if at % 4]


def test_perplexity_is_per_token_and_in_any_parts(place: str) -> None:
    source = beside(place, "public.txt", LINES)
    found = [causal_lm.build(table(public=source, physical_batch_size=part), place) for part in (1, 256)]
    found[1].model.load_state_dict(found[0].model.state_dict())
    losses = [
        torch.nn.functional.cross_entropy(found[0].model(ids[None]).logits[0, :-1], ids[1:], reduction="none")
        for text in ("first line\n", "second\n", "third, a longer ", "last\n")
        for ids in [torch.tensor(list(text.encode()))]
    ]
    expected = float(torch.cat(losses).mean().exp().detach())
    for one in found:
        assert one.measure()["perplexity"] == pytest.approx(expected, rel=1e-5)


def test_a_loss_is_over_the_records_own_tokens(place: str) -> None:
    found = causal_lm.build(table(data=beside(place, "some.txt", LINES)), place)
    mean, total = causal_lm.mean_loss(found.model, found.records), causal_lm.sum_loss(found.model, found.records)
    torch.testing.assert_close(total, mean * torch.tensor([10, 6, 15, 4]))
    alone = torch.tensor([list(b"second\n")])
    torch.testing.assert_close(mean[1], found.model(alone, labels=alone).loss)


def test_a_record_without_a_next_token_has_no_loss(place: str) -> None:
    found = causal_lm.build(table(data="own_language:arrays", tokenizer=None), place)
    batch = torch.full((2, 5), -100, dtype=torch.int32)
    batch[0, :3], batch[1, 0] = 65, 65
    losses = causal_lm.mean_loss(found.model, batch)
    assert losses[1] == 0.0 < losses[0]


def test_drawn_records_are_uniform(place: str) -> None:
    found = causal_lm.build(table(), place)
    assert found.draw is not None
    canaries = found.draw(4000, system_entropy().initialisation)
    assert isinstance(canaries, torch.Tensor)
    assert (canaries.shape[1:], canaries.dtype) == (found.records.shape[1:], found.records.dtype)  # type: ignore[union-attr]
    counts = torch.bincount(canaries.flatten().long(), minlength=256).double()
    expected = canaries.numel() / 256
    assert float(((counts - expected) ** 2 / expected).sum()) < 255 + 8 * (2 * 255) ** 0.5  # chi-square, eight deviations


def test_labelled_texts(place: str) -> None:
    source = beside(place, "some.csv", "text,label\nvery good,positive\n,negative\nbad, negative\n")
    ids, labels = soft_prompt.build(table(**LABELLED, data=source, template="T: {text}!", context=8), place).records
    assert [bytes(row[row >= 0].tolist()) for row in ids] == [b"T: very!", b"T: !", b"T: bad!"]
    assert labels.tolist() == [1, 0, 0]  # type: ignore[union-attr]


def test_scores_are_those_behind_the_last_token(place: str) -> None:
    found = soft_prompt.build(table(**LABELLED, data="own_language:labelled", public="held-out"), place)
    ids, labels = found.records
    assert isinstance(ids, torch.Tensor) and isinstance(labels, torch.Tensor)
    losses, right = found.loss(found.model, found.records), []
    for row, label, loss in zip(ids, labels, losses, strict=True):
        scores = found.model(row[row >= 0][None].long()).logits[0, -1, [ord("n"), ord("p")]]
        torch.testing.assert_close(torch.nn.functional.cross_entropy(scores, label), loss)
        right.append(bool(scores.argmax() == label))
    held = found.measure()["accuracy"]
    assert 0.0 <= held <= 1.0


def test_labels_that_are_numbers_are_no_places(place: str) -> None:
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": "0"}]
    source = beside(place, "some.jsonl", "\n".join(map(json.dumps, rows)))
    words = {"labels": ("1", "0"), "verbalizers": ("yes", "no"), "data": source}
    found = soft_prompt.build(table(**{**LABELLED, **words}), place)
    assert found.records[1].tolist() == [0, 1]  # type: ignore[index]


def test_labels_of_a_function_may_be_numbers_or_words(place: str) -> None:
    found = soft_prompt.build(table(**LABELLED, data="own_language:labelled"), place)
    assert found.records[1].tolist() == [1, 0] * 20  # type: ignore[index]


def test_refusals(place: str) -> None:
    def check(case: tuple[dict[str, Any], str]) -> None:
        settings, said = case
        beside(place, "some.csv", "body,label\na,0\n")
        beside(place, "some.txt", LINES)
        assert refusal(table(**settings), place) == said

    require_each(
        [
            ({"data": "absent.txt"}, "train.data: no such file: absent.txt"),
            ({"data": "digits"}, "train.data: expected a .txt, .jsonl, .csv, .parquet file, or module:function, found 'digits'"),
            ({"tokenizer": None}, "train.tokenizer: a model of your own needs a tokenizer: bytes, a path or a name"),
            ({"model": "own_language:narrow"}, "train.tokenizer: expected token ids below the model's 50 (an id is not)"),
            ({"context": 33}, "train.context: expected at most the model's 32 tokens, including the prompt, found more"),
            (
                {"context": 30, "soft_prompt": 3},
                "train.context: expected at most the model's 32 tokens, including the prompt, found more",
            ),
            ({"context": 1}, "train.data: no record has two tokens or more"),
            ({"model": "own_language:arrays"}, "train.model: expected a torch module from own_language:arrays, found ndarray"),
            (
                {"model": "own_language:bag", "soft_prompt": 2},
                "train.soft_prompt: expected a model of transformers, found Sequential",
            ),
            ({"model": "./absent"}, "train.model: no such folder: ./absent"),
            (
                {"public": "held-out", "units": "who", "data": "own_language:owned"},
                "train.public: expected a separate file with units, found held-out, which would split a unit's records",
            ),
            ({"public": "held-out", "held_out": 0.9}, "train.held_out: expected at most half of the records, found 0.9"),
            ({"data": "some.csv"}, "some.csv: expected 'text' in every row, found a row without it"),
            (
                {"data": "some.txt", "units": "line"},
                "some.txt: train.units: expected line or paragraph with record = \"window\", found 'line'",
            ),
        ],
        check,
    )


def test_refusals_of_labels(place: str) -> None:
    def check(case: tuple[dict[str, Any], str]) -> None:
        settings, said = case
        beside(place, "some.txt", LINES)
        chosen = {**LABELLED, "data": "own_language:labelled", **settings}
        assert refusal(table(**chosen), place, soft_prompt) == said

    require_each(
        [
            (
                {"labels": ("pos", "positive")},
                "train.verbalizers: expected words that begin with different tokens, found pos, positive",
            ),
            ({"labels": ("good", "bad")}, "train.labels: a label in the data is not declared"),
            (
                {"template": "0123456789abcdef{text}"},
                "train.context: the template leaves no room for the text",
            ),
            (
                {"model": "own_language:narrow"},
                "train.verbalizers: expected words whose tokens the model has, found negative, positive",
            ),
            ({"data": "some.txt"}, "some.txt: expected a .csv, .jsonl or .parquet file with labels, found plain text"),
        ],
        check,
    )


def test_a_model_that_gives_no_logits_is_refused(place: str) -> None:
    assert refusal(table(model="own_language:wrong"), place).startswith(
        "train.model: expected logits (B, T, vocabulary) from ids (B, T)"
    )


def test_layers_that_are_not_there_are_refused(place: str) -> None:
    said = refusal(table(lora=Lora(2, targets=("nowhere",))), place)
    assert said.startswith("train.lora.targets: expected names of layers that PEFT can adapt: ")


def test_a_name_that_is_not_cached_is_refused_in_plain_words(place: str) -> None:
    with cached_only():
        said = refusal(table(model="nobody/no-such-model"), place)
    assert said.startswith(
        "train.model: expected a folder, or a name that transformers knows, found 'nobody/no-such-model', "
        "a name that is not cached here ("
    )


def test_weights_that_are_missing_are_not_made_up(place: str) -> None:
    """transformers would draw them at random, with a warning."""
    import own_language

    half = own_language.gpt2()
    half.config.tie_word_embeddings = False
    half.transformer.save_pretrained(Path(place).with_name("half"))
    said = refusal(table(model="half"), place)
    assert said == "train.model: expected the weights of a causal language model; lm_head.weight have none"


def test_a_cached_name_needs_no_network(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a download leaves it: a folder of snapshots, and which of them is the newest."""
    import huggingface_hub
    import own_language

    cache = Path(place).with_name("cache")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    own_language.gpt2().save_pretrained(cache / "models--somebody--tiny" / "snapshots" / "0123")
    (cache / "models--somebody--tiny" / "refs").mkdir()
    (cache / "models--somebody--tiny" / "refs" / "main").write_text("0123")
    with cached_only():
        found = causal_lm.build(table(model="somebody/tiny"), place)
    assert type(found.model).__name__ == "GPT2LMHeadModel"
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


def test_without_transformers_it_says_what_to_install(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert refusal(table(model="gpt2"), place) == "language models: transformers is not installed: pip install 'dpcli[lm]'"


def test_a_folder_of_transformers(place: str) -> None:
    """A saved model and its saved tokenizer, by relative path."""
    folder = Path(place).with_name("saved")
    import own_language
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = own_language.gpt2()
    model.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"some": 3, "text": 5, "[UNK]": 0, "[END]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="[END]").save_pretrained(folder)
    found = causal_lm.build(table(model="saved", tokenizer=None), place)
    assert found.records[0].tolist() == [5, 0, 0, 0, 3, 1]  # type: ignore[index]
    for name, value in model.state_dict().items():
        assert torch.equal(value, found.model.state_dict()[name])
    assert bool(found.loss(found.model, found.records).isfinite().all())
