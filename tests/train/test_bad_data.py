"""Faulty data and functions of the user's own: exit code 2, and messages that show no record."""

from __future__ import annotations

import functools
import io
import sys
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.lazy import load
from dpcli.train.plan.clipping import FlatClipping
from dpcli.train.plan.settings import Train
from dpcli.train.plugin import TASKS
from dpcli.train.tasks import causal_lm, classification, custom, soft_prompt
from dpcli.train.tasks.files import csv_table, owners_of
from dpcli.train.tasks.user_code import own_function
from tests.cases import require_each
from tests.command import dpcli

HEAD = """
format = 1
name = "bad"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 100
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 2
sampling = { scheme = "poisson", rate = 0.2 }
"""
CUSTOM = """
[train]
task = "custom"
model = "bad_user:model"
data = "bad_user:records"
loss = "bad_user:LOSS"
metric = "bad_user:METRIC"
public = "bad_user:others"
learning_rate = 1.0
clipping = { norm = 1.0 }
"""
OWN = """
import json, sys
import numpy as np
import torch
from torch import nn

def model():
    return nn.Linear(3, 2)
def records():
    return torch.rand(40, 3), torch.arange(40) % 2
def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
def metric(model, batch):
    return {"loss": float(loss(model, batch).mean())}

def leaves(*arguments):
    sys.exit()
def quotes(*arguments):
    raise ValueError("Alice Smith")
@torch.no_grad()
def decodes(*arguments):
    json.loads("Alice Smith")
def number(*arguments):
    return 0.5
def words(*arguments):
    return {"name": "Alice Smith"}
def of_columns(model, inputs, labels):
    return loss(model, (inputs, labels))
def others():
    return records()
"""
SECRET = "Alice"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "bad_user", raising=False)
    return tmp_path


def train(task: str = "classification", **settings: Any) -> Any:
    """A [train] table of a task, with two classes where it has classes."""
    known = {"data": "bad.csv", "learning_rate": 1.0, "clipping": FlatClipping(norm=1.0)}
    return load(TASKS[task])(**{**known, **({"classes": 2} if task == "classification" else {}), **settings})


def refusal(settings: Train, build: Callable[[Any, str], Any] = classification.build) -> str:
    with pytest.raises(InputError) as problem:
        build(settings, "bad.toml")
    assert SECRET not in str(problem.value)
    return str(problem.value).removeprefix("bad.toml: ").removeprefix(str(Path.cwd()) + "/")


def returning(values: Any, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Train:
    """Data that a function returns."""
    module = type(sys)("bad_user")
    module.load = lambda: values  # type: ignore[attr-defined]
    module.model, module.loss = lambda: nn.Linear(2, 2), lambda model, batch: batch  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bad_user", module)
    return train(data="bad_user:load", **settings)


TEXTS = {
    "latin-1": ("a,name,label\n1,J\xf6rg,0\n".encode("latin-1"), "expected text in UTF-8"),
    "long": (b"a,label\n" + b"1" * 131073 + b",0\n", "expected comma-separated values of at most 131072 characters"),
    "no header": (b"0.5,0\n0.25,1\n", "expected the names of the columns in the first line, found numbers only"),
    "twice": (b"a,a,label\n1,2,0\n", "expected columns of different names, found two columns of the same name"),
    "empty": (b"", "expected the names of the columns in the first line, found an empty file"),
    "no rows": (b"a,label\n", "train.data: there are no records"),
    "label alone": (b"label\n0\n1\n", "expected a column of numbers and the label, found only the label"),
    "a name": (b"a,who,label\n1,Alice Smith,0\n", "expected numbers in column 2, found a value that is not a number"),
    "ragged": (b"a,label\n1,0,Alice\n", "expected as many values in each line as in the first line"),
    "nan": (b"a,label\nnan,0\n", "train.data: expected finite inputs"),
    "beyond single precision": (b"a,label\n1e300,0\n", "train.data: expected finite inputs"),
    "half a label": (b"a,label\n1,0.7\n", "train.data: expected whole numbers as labels (a label is not)"),
    "a third label": (b"a,label\n1,2\n", "train.classes: expected labels from 0 to 1 (a label is not)"),
}


def test_a_csv_that_is_none() -> None:
    def check(case: str) -> None:
        content, words = TEXTS[case]
        Path("bad.csv").write_bytes(content)
        assert refusal(train()).removeprefix("bad.csv: ").startswith(words)

    require_each(TEXTS, check)
    declared = "train.classes: expected classes (the number of labels) or train.labels, found neither"
    assert refusal(train(classes=None)) == declared


def test_a_column_that_is_not_there() -> None:
    Path("bad.csv").write_text("Alice,label\n1,0\n")
    assert (
        refusal(train(label="labl")) == "bad.csv: expected a column 'labl', found none"
    )  # whether Alice is a column, nobody knows
    assert refusal(train(label="Label")) == "bad.csv: expected a column 'Label', found none: did you mean 'label'?"


def zipped(**parts: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **parts)
    return buffer.getvalue()


INPUTS, LABELS = np.ones((4, 2)), np.array([0, 1, 0, 1])
UNREADABLE = "bad.npz: expected a .npz file of plain arrays, without objects, found one that cannot be read as such"
ARCHIVES = {
    "text": (b"Alice Smith", UNREADABLE),
    "empty": (b"", UNREADABLE),
    "other names": (zipped(x=INPUTS, y=LABELS), "bad.npz: expected arrays named inputs and labels; at least one is missing"),
    "a scalar": (zipped(inputs=np.float64(1), labels=LABELS), "train.data: expected inputs of shape (n, ...)"),
    "texts": (zipped(inputs=INPUTS, labels=np.array(["Alice"] * 4)), "train.data: expected labels as an array of numbers, found"),
    "too few labels": (
        zipped(inputs=INPUTS, labels=LABELS[:3]),
        "train.data: expected one label for each record, but their numbers differ",
    ),
}


def test_a_npz_that_is_none() -> None:
    def check(case: str) -> None:
        content, words = ARCHIVES[case]
        Path("bad.npz").write_bytes(content)
        assert refusal(train(data="bad.npz")).startswith(words)

    require_each(ARCHIVES, check)


RETURNED = {
    "nothing": (None, "bad_user:load: expected (inputs, labels), found NoneType"),
    "a number": (3.0, "bad_user:load: expected (inputs, labels), found float"),
    "three parts": ((INPUTS, LABELS, LABELS), "bad_user:load: expected (inputs, labels), found another number of parts"),
    "ragged": (([[1.0], [1.0, 2.0]], [0, 1]), "train.data: expected inputs as an array of numbers, found a value that is no array"),
    "names": (([["Alice"]], [0]), "train.data: expected inputs as an array of numbers, found one of str_"),
    "unequal": ((INPUTS, LABELS[:2]), "train.data: expected one label for each record, but their numbers differ"),
    "on a graph": ((torch.ones(2, 2, requires_grad=True), [0, 1]), "train.data: expected inputs as an array of numbers, found"),
}


def test_a_function_that_returns_no_arrays() -> None:
    def check(case: str) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            values, words = RETURNED[case]
            assert refusal(returning(values, monkeypatch)).startswith(words)

    require_each(RETURNED, check)


NO_RECORDS = "bad_user:load: expected dense arrays or tensors whose first dimension counts records, padded to one length"


TEXTS_FOUND = ", found an array of texts, dates or objects"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (None, ", found NoneType"),
        (3.0, ""),
        ([[1.0], [1.0, 2.0]], ""),
        ((INPUTS, LABELS[:2]), ""),
        ({"x": np.array(["Alice"])}, TEXTS_FOUND),
        (UserDict({"x": INPUTS, "who": [SECRET]}), ", found str"),
        (np.array([SECRET], object), TEXTS_FOUND),
        (torch.utils.data.TensorDataset(torch.ones(2, 3)), ", found TensorDataset"),
        ((), ""),
    ],
    ids=["nothing", "a number", "ragged", "unequal", "texts", "a mapping with texts", "objects", "a dataset", "empty"],
)
def test_records_of_a_custom_task_that_are_none(values: Any, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"task": "custom", "model": "bad_user:model", "loss": "bad_user:loss"}
    assert refusal(returning(values, monkeypatch, **chosen), custom.build) == NO_RECORDS + found
    # Beside units the records are the first of two parts.
    owned = returning((values, [1]), monkeypatch, units="user", **chosen)
    assert refusal(owned, custom.build) == NO_RECORDS + found


def test_a_mapping_of_a_librarys_class_is_a_dict_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as what a tokenizer returns."""
    values = UserDict({"input_ids": torch.arange(6).view(2, 3), "mask": np.ones((2, 3))})
    chosen = {"task": "custom", "model": "bad_user:model", "loss": "bad_user:loss"}
    records = custom.build(returning(values, monkeypatch, **chosen), "bad.toml").records  # type: ignore[arg-type]
    assert type(records) is dict and records["mask"].dtype == torch.float32


def test_records_of_a_custom_task_without_owners() -> None:
    def check(values: Any) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            owned = returning(values, monkeypatch, units="user", task="custom", model="bad_user:model", loss="bad_user:loss")
            kind = type(values).__name__ + (" of another length" if isinstance(values, tuple) else "")
            assert refusal(owned, custom.build) == f"bad_user:load: expected a pair (records, units), found {kind}"

    require_each([None, 3.0, INPUTS[:2], (INPUTS,), (INPUTS, LABELS, LABELS)], check)


UNITS = {
    "none": ([1, None, 2], "some that are missing"),
    "nan": ([1.0, float("nan")], "some that are missing"),
    "no name": (["Alice", ""], "some that are missing"),
    "infinite": ([1.0, float("inf")], "some that are not finite"),
    "mixed": ([1, "1", 1.0], "values of type float and int and str"),
    "objects": (np.array([1, "Alice"], object), "values of type int and str"),
    "pairs": (np.ones((2, 2)), "values of type list"),
    "flags": ([True, False], "values of type bool"),
    "nothing": (None, "a value of type NoneType"),
    "a number": (3, "a value of type int"),
}


def test_owners_that_are_missing_or_ambiguous() -> None:
    def check(case: str) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            values, words = UNITS[case]
            with pytest.raises(InputError) as problem:
                owners_of(values, "bad.toml")
            assert str(problem.value) == f"bad.toml: train.units: expected the owner of each record, found {words}"
            if case in ("nan", "none"):
                count = len(values)
                chosen = returning((INPUTS[:count], LABELS[:count], values), monkeypatch, units="user")
                assert refusal(chosen) == f"train.units: expected the owner of each record, found {words}"
                chosen = returning(
                    (INPUTS[:count], values), monkeypatch, units="user", task="custom", model="bad_user:model", loss="bad_user:loss"
                )
                assert refusal(chosen, custom.build) == f"train.units: expected the owner of each record, found {words}"

    require_each(UNITS, check)


def test_owners_keep_apart_what_numpy_would_round() -> None:
    assert len(set(owners_of([2**63 + 1, 2**63 + 2, -1], "").tolist())) == 3
    assert owners_of(np.array([3, 1, 3]), "").tolist() == [3, 1, 3]
    assert owners_of([np.int64(3), torch.tensor(1)], "").tolist() == [3, 1]
    assert owners_of(("b", "a"), "").tolist() == ["b", "a"]


class Tiny(nn.Module):
    """Ids in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(256, 4)
        self.dropout = nn.Dropout(0.9)
        self.last = nn.Linear(4, 256)

    def get_input_embeddings(self) -> nn.Module:
        return self.table

    def forward(self, ids: Any = None, inputs_embeds: Any = None, use_cache: bool = False) -> Any:
        return self.last(self.dropout(self.table(ids) if inputs_embeds is None else inputs_embeds))


SPOKEN = {"task": "soft-prompt", "labels": ("no", "yes"), "verbalizers": ("n", "y"), "soft_prompt": 2}


def language(monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, **settings: Any) -> Train:
    Path(name).write_bytes(content)
    module = type(sys)("bad_user")
    module.model = Tiny  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bad_user", module)
    return train(**{"task": "causal-lm", "model": "bad_user:model", "tokenizer": "bytes", "data": name, **settings})


LANGUAGE: dict[str, tuple[str, bytes, str]] = {
    "no json": (
        "bad.jsonl",
        b'{"text": "a"}\nAlice Smith\n',
        "bad.jsonl: a line is not JSON (its number is private)",
    ),
    "nested": (
        "bad.jsonl",
        b"[" * 100_000,
        "bad.jsonl: a line is not JSON (its number is private)",
    ),
    "json latin-1": ("bad.jsonl", b'{"text": "J\xf6rg Alice"}\n', "bad.jsonl: expected text in UTF-8"),
    "a list": ("bad.jsonl", b'["Alice"]\n', "bad.jsonl: expected 'text' in every row, found a row without it"),
    "a surrogate": (
        "bad.jsonl",
        b'{"text": "Alice \\ud800"}\n',
        "train.data: expected texts or one-dimensional arrays of token ids",
    ),
}


def test_texts_that_cannot_be_read() -> None:
    def check(case: str) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            name, content, words = LANGUAGE[case]
            assert refusal(language(monkeypatch, name, content), causal_lm.build).startswith(words)

    require_each(LANGUAGE, check)


def test_owners_of_texts_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    owned = language(monkeypatch, "bad.csv", b"text,label,user\nab,no,Alice\ncd,yes,\n", units="user")
    missing = "train.units: expected the owner of each record, found some that are missing"
    assert refusal(owned, causal_lm.build) == missing
    spoken = language(monkeypatch, "bad.csv", b"text,label,user\nab,no,Alice\ncd,yes,\n", units="user", **SPOKEN)
    assert refusal(spoken, soft_prompt.build) == missing


def test_a_function_that_returns_no_texts() -> None:
    def check(values: Any) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            settings = language(monkeypatch, "bad.txt", b"", data="bad_user:load")
            sys.modules["bad_user"].load = lambda: values  # type: ignore[attr-defined]
            assert refusal(settings, causal_lm.build).startswith("bad_user:load: expected lists or arrays, found ")

    require_each([None, "Alice", 3, {"Alice": 1}, np.array(1)], check)


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "double precision": (lambda: nn.Linear(2, 2).double(), "scores (B, 2) from float32 inputs (B, 2): RuntimeError"),
    "too many scores": (lambda: nn.Linear(2, 3), "scores (B, 2) from float32 inputs (B, 2), found (2, 3)"),
    "double scores": (lambda: nn.Sequential(Doubled(), nn.Linear(2, 2).double()), "(B, 2) in float32, found torch.float64"),
}


class Doubled(nn.Module):
    def forward(self, values: Any) -> Any:
        return values.double()


def test_a_model_that_does_not_fit() -> None:
    def check(case: str) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            build, words = MODELS[case]
            settings = returning((INPUTS, LABELS), monkeypatch, model="bad_user:model")
            monkeypatch.setattr(sys.modules["bad_user"], "model", build)
            assert words in refusal(settings)

    require_each(MODELS, check)


def test_public_records_of_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = returning((INPUTS, LABELS), monkeypatch, public="bad_user:public")
    monkeypatch.setattr(sys.modules["bad_user"], "public", lambda: (INPUTS[:, :1], LABELS), raising=False)
    assert refusal(settings) == "train.public: expected records of the same shape as the private records"


def test_metrics_are_taken_without_dropout_and_leave_the_modes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9), nn.BatchNorm1d(2))
    model[2].eval()
    seen: list[list[bool]] = []

    def metric(model: nn.Module, batch: Any) -> dict[str, float]:
        seen.append([module.training for module in model.modules()] + [torch.is_grad_enabled()])
        return {"mean": float(model(batch[0]).mean())}

    chosen = {"task": "custom", "model": "bad_user:model", "loss": "bad_user:loss", "metric": "bad_user:metric"}
    settings = returning((INPUTS, LABELS), monkeypatch, public="bad_user:others", **chosen)
    monkeypatch.setattr(sys.modules["bad_user"], "model", lambda: model)
    monkeypatch.setattr(sys.modules["bad_user"], "others", lambda: (INPUTS[:3], LABELS[:3]), raising=False)
    monkeypatch.setattr(sys.modules["bad_user"], "metric", metric, raising=False)
    found = custom.build(settings, "bad.toml").measure()
    with torch.no_grad():
        assert found["mean"] == pytest.approx(float(nn.Sequential(model[0], model[2])(torch.ones(4, 2)).mean()))
    assert seen == [[False] * 5]
    assert [module.training for module in model.modules()] == [True, True, True, False]


def test_a_users_module_does_not_stand_in_for_pythons_own(folder: Path) -> None:
    (folder / "colorsys.py").write_text("def load():\n    return 1\n")
    sys.modules.pop("colorsys", None)
    with pytest.raises(InputError, match=r"^colorsys:load: expected a function, found nothing in .*colorsys\.py$") as problem:
        own_function("colorsys:load", "bad.toml")
    assert str(folder) not in str(problem.value)
    (folder / "only_here.py").write_text("def load():\n    return 1\n")
    assert own_function("only_here:load", "bad.toml")() == 1
    assert sys.path[0] != str(folder)


def run_custom(
    loss: str = "loss", metric: str = "metric", data: str = "records", model: str = "model", more: str = ""
) -> tuple[int, str]:
    Path("bad_user.py").write_text(OWN + more)
    text = CUSTOM.replace("LOSS", loss).replace("METRIC", metric)
    text = text.replace('data = "bad_user:records"', f'data = "bad_user:{data}"').replace("bad_user:model", f"bad_user:{model}")
    Path("bad.toml").write_text(HEAD + text)
    found = dpcli("train", "bad.toml", folder=Path.cwd())
    return found.code, found.err.removeprefix("dpcli: ").removeprefix("bad.toml: ").strip()


FOLLOWED = "loss: expected a program that runs on made-up records, found"
TWO_ARGUMENTS = "expected a function of two arguments, the model and a batch with the structure of the data"
HIDDEN = "(its message may quote a private record, and is not shown)"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": "leaves"}, f"{FOLLOWED} SystemExit at bad_user.py, line 17 {HIDDEN}"),
        ({"metric": "leaves"}, "bad_user:leaves: raised SystemExit"),
        ({"data": "leaves"}, f"bad_user:leaves: raised SystemExit at bad_user.py, line 17 {HIDDEN}"),
        ({"model": "leaves"}, "bad_user:leaves: raised SystemExit"),
        ({"loss": "quotes"}, f"{FOLLOWED} ValueError at bad_user.py, line 19 {HIDDEN}"),
        ({"data": "quotes"}, f"bad_user:quotes: raised ValueError at bad_user.py, line 19 {HIDDEN}"),
        ({"data": "decodes"}, f"bad_user:decodes: raised JSONDecodeError at bad_user.py, line 22 {HIDDEN}"),
        ({"loss": "of_columns"}, f"bad_user:of_columns: {TWO_ARGUMENTS}, found one of model, inputs, labels"),
        ({"loss": "number"}, "bad_user:number: expected a tensor with one loss for each record, found float"),
        ({"metric": "number"}, "bad_user:number: expected metrics as a mapping of names to numbers, found float"),
        ({"metric": "words"}, "bad_user:words: expected metrics as a mapping of names to numbers, found dict"),
    ],
)
def test_functions_that_fail(given: dict[str, str], words: str) -> None:
    assert run_custom(**given) == (2, words)


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda: None, "no arguments"),
        (lambda batch: batch, "batch"),
        (lambda model, inputs, labels: inputs, "model, inputs, labels"),
        (lambda model, *, batch: batch, "model, batch"),
        (functools.partial(lambda model, batch: batch, None), "batch"),
    ],
)
def test_a_loss_of_other_arguments_is_refused_by_their_names(loss: Callable[..., Any], found: str) -> None:
    with pytest.raises(InputError) as problem:
        custom.own_loss("loss", loss)
    assert str(problem.value) == f"loss: {TWO_ARGUMENTS}, found one of {found}"


class Callables:
    def method(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return batch

    def __call__(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return batch


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that passes the columns of a batch on: the function behind it takes three arguments."""

    @functools.wraps(function)
    def spreading(model: nn.Module, batch: Any) -> Any:
        return function(model, *batch)

    return spreading


@pytest.mark.parametrize(
    "loss",
    [
        lambda *arguments: arguments[1],
        lambda model, batch, smoothing=0.1: batch,
        functools.partial(lambda model, batch, smoothing: batch, smoothing=0.1),
        Callables().method,
        Callables(),
        spread(lambda model, batch: batch),
        torch.sub,
    ],
)
def test_a_loss_that_can_be_called_with_two_arguments_is_called(loss: Callable[..., Any]) -> None:
    function = custom.own_loss("loss", loss)
    assert torch.is_tensor(function(torch.zeros(1), torch.zeros(1, 3)))  # type: ignore[arg-type]


def test_a_loss_that_branches_on_values_is_taken_one_record_at_a_time() -> None:
    """What it raises under vmap alone is no refusal."""
    shifting = "def shifting(model, batch):\n    return loss(model, batch) * (1.0 if batch[0].sum().item() > -1e9 else 2.0)\n"
    assert run_custom(loss="shifting", more=shifting)[0] == 0
    given = {"task": "custom", "model": "bad_user:model", "data": "bad_user:records", "loss": "bad_user:shifting"}
    found = custom.build(train(**given), "bad.toml")
    with pytest.raises(DpcliError, match=r"raised RuntimeError at bad_user\.py") as problem:
        torch.func.vmap(lambda x, y: found.loss(found.model, (x[None], y[None])))(*found.records)
    assert not isinstance(problem.value, InputError)


def test_what_a_loss_raises_on_made_up_records_is_not_quoted() -> None:
    quoting = """
def quoting(model, batch):
    if type(batch[0]) is torch.Tensor:
        raise ValueError("Alice Smith")
    return loss(model, batch)
"""
    code, said = run_custom(loss="quoting", more=quoting)
    assert (code, HIDDEN in said, "Alice" in said) == (2, True, False)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("line", ['7,"open', '7,"a"b'])
def test_a_quote_in_a_csv_file_takes_in_no_records_below_it(line: str) -> None:
    """Of which one person would then own several: the lines are refused, and not quoted."""
    Path("quotes.csv").write_text("user,text\n" + "1,a\n" * 100_000 + line + "\n8,Alice Smith\n9,b\n")
    with pytest.raises(InputError, match="comma-separated values") as problem:
        csv_table("quotes.csv")
    assert "Alice" not in str(problem.value)


def test_an_import_that_fails_on_a_record_does_not_quote_it() -> None:
    """Whoever reads the data where the module is imported: one reader of functions serves every command."""
    Path("bad_record.py").write_text("int('Alice Smith')\n")
    with pytest.raises(InputError, match=r"ValueError at bad_record.py, line 1 \(its message may quote") as problem:
        own_function("bad_record:load", "bad.toml")
    assert "Alice" not in str(problem.value)
