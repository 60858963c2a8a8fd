"""Teachers: whose records they see, what they leave, and that one change moves one vote; and whole examples, up to the student."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.pate.learners import learner_of
from dpcli.predict.pate.pate_plan import Pate, plan_of
from dpcli.predict.pate.records import Records, public_test_records, query_inputs, records_by_teacher
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.predict.samples import GNMAX, written

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def arrays(records: int = 300, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, records)
    centres = np.array([[0.0, 3.0], [3.0, 0.0], [-3.0, -3.0]])
    return {
        "inputs": centres[labels] + random.normal(size=(records, 2)),
        "labels": labels,
        "owner": np.arange(records) // 3,
        "home": (np.arange(records) // 3) % 20,
    }


def stored(folder: Path, content: dict[str, Any], name: str = "private.npz") -> str:
    np.savez(folder / name, **content)
    return str(folder / "a.toml")


def pate(**keys: Any) -> Pate:
    return Pate(**{"teachers": 20, "classes": 3, "data": "private.npz", "queries": "public.npz", **keys})


def members(answer: list[Records]) -> list[set[bytes]]:
    return [{row.tobytes() for row in one.inputs} for one in answer]


def changed(adjacency: Adjacency, units: bool, complete: dict[str, Any], place: int) -> dict[str, Any]:
    """A neighbour: a record, or all of a unit's, goes, is blanked, or is another one, of another name and shard."""
    start = complete["owner"] == complete["owner"][place] if units else np.arange(300) == place
    if adjacency is ADD:
        return {name: one[~start] for name, one in complete.items()}
    other = {name: one.copy() for name, one in complete.items()}
    other["inputs"][start] = 0.0
    if adjacency is REPLACE:
        other["owner"][start], other["home"][start] = 1000 + place, (other["home"][start] + 7) % 20
    return other


@of_each("most", [1, 3])
@of_each("keys", [{}, {"units": "owner"}, {"shards": "home"}, {"units": "owner", "shards": "home"}])
@of_each("adjacency", Adjacency, told=lambda one: one.value)
def test_a_file_is_refused_where_one_change_could_move_two_votes(
    adjacency: Adjacency, keys: dict[str, str], most: int, tmp_path: Path
) -> None:
    """Every way of naming units, under every relation: one teacher's shard changes, or the file is refused."""
    complete = arrays()
    stated = "".join(f'{name} = "{value}"\n' for name, value in keys.items())
    path = written(tmp_path, GNMAX, f'data = "private.npz"\nqueries = "public.npz"\n{stated}', teachers=20, classes=3)
    unit = 'unit = "user"\nmax_contributions = 3' if most > 1 else 'unit = "example"'
    text = path.read_text().replace('unit = "example"', unit).replace('"add-remove"', f'"{adjacency.value}"')
    path.write_text(text)
    by_unit, several = "units" in keys, 0
    for place in (0, 100, 200):
        neighbour = changed(adjacency, by_unit or most > 1, complete, place)
        before = members(records_by_teacher(pate(**keys), adjacency, stored(tmp_path, complete)))
        after = members(records_by_teacher(pate(**keys), adjacency, stored(tmp_path, neighbour)))
        several += sum(one != other for one, other in zip(before, after, strict=True)) > 1
    if several:
        with pytest.raises(InputError, match=r"the shards of both change|the column that names each record's owner"):
            plan_of(str(path))
    elif not (most > 1 and not by_unit):
        plan_of(str(path))


def test_what_is_set_aside_by_place_stays_where_it_is(tmp_path: Path) -> None:
    """Since records come and go, their places move, and with them what is public."""
    stored(tmp_path, arrays())
    for adjacency in Adjacency:
        path = written(tmp_path, GNMAX, 'data = "private.npz"\nqueries = "held-out"', teachers=20, classes=3)
        path.write_text(path.read_text().replace('"add-remove"', f'"{adjacency.value}"'))
        if adjacency is ADD:
            with pytest.raises(InputError, match="expected a separate file under add-remove, found held-out"):
                plan_of(str(path))
        else:
            plan_of(str(path))


@of_each("key", ["queries", "test"])
@of_each("source", ["private.npz", "./private.npz", "own:data", "digits"])
def test_what_is_declared_public_is_not_what_teachers_learn_from(key: str, source: str, tmp_path: Path) -> None:
    private = source.removeprefix("./")
    keys = {"queries": "public.npz", key: source}
    stated = "\n".join(f'{name} = "{value}"' for name, value in keys.items())
    path = written(tmp_path, GNMAX, f'data = "{private}"\n{stated}')
    with pytest.raises(
        InputError, match="expected public data on which no teacher is trained, found the training data of the teachers"
    ):
        plan_of(str(path))


@pytest.mark.needs("sklearn")
@pytest.mark.parametrize("model", ["mlp", "svm"])
def test_a_built_in_model_that_fails_is_told_without_a_record(model: str) -> None:
    records = Records(np.array([[1.7e308, -1.7e308], [-1.7e308, 1.7e308], [1.0, 2.0]]), np.array([0, 1, 1]))
    with pytest.raises(InputError, match="may quote a private record"):
        learner_of(model, 3, 8, "a.toml")(records).probabilities(records.inputs)


def test_equal_owners_are_one_unit(tmp_path: Path) -> None:
    owner = np.where(np.arange(300) % 2 == 0, 0.0, -0.0)
    answer = records_by_teacher(pate(units="owner"), ADD, stored(tmp_path, {**arrays(), "owner": owner}))
    assert sorted(map(len, answer))[-2:] == [0, 300]


def test_shards_hold_every_record_once_and_every_unit_whole(tmp_path: Path) -> None:
    complete = arrays()
    for keys in ({"units": "owner"}, {"units": "owner", "shards": "home"}, {}):
        answer = records_by_teacher(pate(**keys), ADD, stored(tmp_path, complete))
        assert sum(map(len, answer)) == 300
        homes = {row.tobytes(): k for k, one in enumerate(answer) for row in one.inputs}
        if keys:
            for owner in range(100):
                assert len({homes[row.tobytes()] for row in complete["inputs"][complete["owner"] == owner]}) == 1


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "shards share a unit": (
        {"home": np.arange(300) % 20},
        {"units": "owner", "shards": "home"},
        "expected each unit in one shard, found a unit in two",
    ),
    "a shard too many": ({"home": np.arange(300) // 3 % 21}, {"units": "owner", "shards": "home"}, "expected shards from 0 to 19"),
    "a negative shard": ({"home": np.full(300, -1)}, {"units": "owner", "shards": "home"}, "expected shards from 0 to 19"),
    "shards that are no numbers": ({"home": np.full(300, "x")}, {"shards": "home"}, "expected whole numbers"),
    "fractions of shards": ({"home": np.full(300, 0.5)}, {"shards": "home"}, "expected a whole number as the shard of each record"),
    "owners of some": ({"owner": np.arange(299)}, {"units": "owner"}, "lists of different lengths"),
    "an owner who is not a number": (
        {"owner": np.full(300, np.nan)},
        {"units": "owner"},
        "pate.units: expected the owner of each record",
    ),
    "no such column": ({}, {"units": "who"}, "expected arrays named"),
    "labels beyond the last": (
        {"labels": np.full(300, 3)},
        {},
        "from 0 to 2; a record has another label (which record is private)",
    ),
    "labels of some": ({"labels": np.zeros(299)}, {}, "expected a whole number as the label of each record"),
    "fractions of labels": ({"labels": np.full(300, 0.5)}, {}, "expected labels from 0 to 2"),
    "inputs that are not finite": ({"inputs": np.full((300, 2), np.nan)}, {}, "expected finite inputs"),
    "inputs without a width": ({"inputs": np.ones(300)}, {}, "expected numeric inputs of shape"),
    "texts": ({"inputs": np.full((300, 2), "secret")}, {}, "expected numeric inputs of shape"),
    "objects": ({"inputs": np.full((300, 2), None)}, {}, "expected a .npz file of plain arrays"),
}


@of_each("name", WRONG)
def test_data_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    changes, keys, message = WRONG[name]
    with pytest.raises(InputError) as refused:
        records_by_teacher(pate(**keys), ADD, stored(tmp_path, {**arrays(), **changes}))
    assert message in str(refused.value) and "secret" not in str(refused.value)


def test_what_is_set_aside_is_neither_taught_nor_asked_and_tested(tmp_path: Path) -> None:
    chosen = pate(queries="held-out", held_out=0.25, pool=30, test="held-out")
    path = stored(tmp_path, arrays())
    taught = set().union(*members(records_by_teacher(chosen, ADD, path)))
    session, tested = query_inputs(chosen, path), public_test_records(chosen, path)
    assert tested is not None and (len(session), len(tested), len(taught)) == (30, 45, 225)
    sets = [taught, {row.tobytes() for row in session}, {row.tobytes() for row in tested.inputs}]
    assert sum(map(len, sets)) == 300 and not sets[0] & sets[1] and not sets[1] & sets[2] and not sets[0] & sets[2]


def test_a_shard_of_one_label_or_of_none_votes_all_the_same() -> None:
    inputs = np.ones((4, 2))
    for labels, label in (([2, 2, 2, 2], 2), ([], 0)):
        teacher = learner_of("logistic", 3, 8, "a.toml")(Records(inputs[: len(labels)], np.array(labels, dtype=int)))
        assert teacher.probabilities(inputs).argmax(axis=1).tolist() == [label] * 4


OWN = """
import numpy as np

class Nearest:
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def predict(self, inputs):
        return self.labels[((inputs[:, None] - self.inputs[None]) ** 2).sum(axis=2).argmin(axis=1)]

def nearest(inputs, labels):
    return Nearest(inputs, labels)

def raising(inputs, labels):
    raise ValueError(f"the record {inputs[0]} is secret")

def nothing(inputs, labels):
    return None

class Wrong:
    def predict(self, inputs):
        return np.full(len(inputs), 7)

def wrong(inputs, labels):
    return Wrong()
"""


def whole_file(folder: Path, model: str = "own:nearest", *keys: str, teachers: int = 20) -> Path:
    (folder / "own.py").write_text(OWN)
    stored(folder, arrays())
    session = arrays(60, 1)
    np.savez(folder / "public.npz", inputs=session["inputs"])
    np.savez(folder / "test.npz", **{name: arrays(200, 2)[name] for name in ("inputs", "labels")})
    stated = (
        'data = "private.npz"',
        'queries = "public.npz"',
        'test = "test.npz"',
        f'model = "{model}"',
        'student = "own:nearest"',
        *keys,
    )
    return written(folder, GNMAX.replace("sigma = 40.0", "sigma = 3.0"), "\n".join(stated), teachers=teachers, classes=3)


@pytest.fixture(autouse=True)
def fresh_modules() -> Any:
    yield
    sys.modules.pop("own", None)


@pytest.mark.nightly
def test_teachers_of_the_users_own_to_a_student(tmp_path: Path) -> None:
    path = whole_file(tmp_path, "own:nearest", 'units = "owner"')
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 30.0"))
    fitted = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert (fitted.code, json.loads(fitted.out)["fitted_before"]) == (0, 0), fitted.err
    folder = tmp_path / "runs" / "votes"
    votes = np.load(folder / "votes.npy")
    assert votes.shape == (60, 3) and np.all(votes.sum(axis=1) == 20)
    assert (folder / "votes.npy").stat().st_mode & 0o077 == 0
    (folder / "teachers" / "0000007.votes").unlink()
    (folder / "teachers" / "0000011.votes").write_bytes(b"cut")
    again = dpcli("pate", "fit", str(path), "--jobs", "2", "-f", "json", folder=tmp_path)
    assert json.loads(again.out)["fitted_before"] == 18 and np.array_equal(np.load(folder / "votes.npy"), votes)
    assert dpcli("pate", "label", str(path), folder=tmp_path).code == 0
    student = json.loads(dpcli("pate", "student", str(path), "-f", "json", folder=tmp_path).out)
    assert student["metrics"]["accuracy"] > 0.9 and (student["labelled"], student["pseudo_labelled"]) == (40, 20)


TORCH = """
import os, signal
import torch

class Said:
    def __init__(self, net):
        self.net = net
    def predict(self, inputs):
        return self.net(torch.as_tensor(inputs, dtype=torch.float32)).argmax(1)

def network(inputs, labels):
    with open("who", "a") as file:
        file.write(os.environ.get("RANK", "-"))
    if os.path.exists("kill") and os.environ.get("RANK") == open("kill").read() and open("who").read().count(os.environ["RANK"]) > 3:
        os.kill(os.getpid(), signal.SIGKILL)
    torch.manual_seed(0)
    net = torch.nn.Linear(inputs.shape[1], 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x, y = torch.as_tensor(inputs, dtype=torch.float32), torch.as_tensor(labels).long()
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return Said(net)
"""


def on_ranks(*folders: Path, arguments: Sequence[str]) -> list[tuple[int, str, str]]:
    """Start what torchrun starts: the same command once for each rank. Exit code, output and errors of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {"WORLD_SIZE": str(len(folders)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dpcli", *arguments],
            cwd=folder,
            env=os.environ | own | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, folder in enumerate(folders)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    return [(process.returncode, *one) for process, one in zip(processes, outputs, strict=True)]


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.needs("torch")
def test_teachers_of_torch_on_two_processes(tmp_path: Path) -> None:
    """Two processes leave the votes that one process leaves; where one is killed there are none yet, and the same command goes on."""
    path, fit = whole_file(tmp_path, "nets:network"), ("pate", "fit", "votes.toml", "-f", "json")
    (tmp_path / "nets.py").write_text(TORCH)
    assert path.name == fit[2]
    assert dpcli("pate", "fit", str(path), "--jobs", "1", folder=tmp_path).code == 0
    folder, votes = tmp_path / "runs" / "votes", np.load(tmp_path / "runs" / "votes" / "votes.npy")
    shutil.rmtree(folder)
    (tmp_path / "who").unlink()
    (tmp_path / "kill").write_text("1")
    first, second = on_ranks(tmp_path, tmp_path, arguments=fit)
    assert second[:2] == (2, "") and "a process of teachers was killed" in second[2]  # the process of one teacher
    assert first[:2] == (2, "") and "a process of teachers was killed" in first[2] and "Traceback" not in first[2]
    assert not (folder / "votes.npy").exists()
    (tmp_path / "kill").unlink()
    kept = len(list((folder / "teachers").glob("*.votes")))
    assert 10 <= kept < 20
    (tmp_path / "who").unlink()
    first, second = on_ranks(tmp_path, tmp_path, arguments=fit)
    assert (first[0], second[0], second[1]) == (0, 0, ""), first[2] + second[2]
    assert json.loads(first[1])["fitted_before"] == kept
    assert set((tmp_path / "who").read_text()) == {"0", "1"} and len((tmp_path / "who").read_text()) == 20 - kept
    assert np.array_equal(np.load(folder / "votes.npy"), votes)


@pytest.mark.nightly
@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("seed", "refusal"),
    [
        pytest.param(5, "expected the same data and queries in each process", marks=pytest.mark.nightly),
        pytest.param(0, "all processes must share one folder", marks=pytest.mark.long),
    ],
)
def test_processes_in_folders_of_their_own_leave_no_votes(seed: int, refusal: str, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        whole_file(folder)
    stored(folders[1], arrays(seed=seed))
    first, second = on_ranks(*folders, arguments=("pate", "fit", "votes.toml"))
    assert (first[0], second[0]) == (2, 2) and refusal in second[2]
    assert not any((folder / "runs" / "votes" / "votes.npy").exists() for folder in folders)


def test_teachers_of_other_data_are_fitted_anew(tmp_path: Path) -> None:
    path = whole_file(tmp_path, teachers=4)
    dpcli("pate", "fit", str(path), "--jobs", "1", folder=tmp_path)
    stored(tmp_path, arrays(seed=5))
    again = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert json.loads(again.out)["fitted_before"] == 0
    path.write_text(path.read_text().replace("nearest", "wrong", 1))
    refused = dpcli("pate", "account", str(path), folder=tmp_path)
    assert refused.code == 2 and "from other teachers than those of this file: run dpcli pate fit again" in refused.err


def other_data(path: Path) -> None:
    stored(path.parent, arrays(seed=5))


def other_teachers(path: Path) -> None:
    path.write_text(path.read_text().replace("own:nearest", "own:wrong", 1))


def other_queries(path: Path) -> None:
    np.savez(path.parent / "public.npz", inputs=arrays(60, 9)["inputs"])


def other_code(path: Path) -> None:
    """Change what no digest of the data sees, after what teachers had said is gone."""
    own = path.parent / "own.py"
    own.write_text(own.read_text().replace("return Nearest(inputs, labels)", "return Nearest(inputs, labels[::-1])"))
    for one in (path.parent / "runs" / "votes" / "teachers").glob("*.votes"):
        one.unlink()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", [other_data, other_teachers, other_queries, other_code])
def test_votes_that_a_session_was_held_with_are_not_written_over(change: Any, tmp_path: Path) -> None:
    path = whole_file(tmp_path, teachers=4)
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 90.0"))
    fit = ("pate", "fit", str(path), "--jobs", "1")
    assert dpcli(*fit, folder=tmp_path).code == dpcli("pate", "label", str(path), folder=tmp_path).code == 0
    assert dpcli(*fit, folder=tmp_path).code == 0  # the same votes
    folder = tmp_path / "runs" / "votes"
    before = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    change(path)
    refused = dpcli(*fit, folder=tmp_path)
    assert refused.code == 2 and "found a session on other votes" in refused.err and "set another pate.output" in refused.err
    assert before == {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    path.write_text(path.read_text() + '\noutput = "another"\n')
    assert "found a session" not in dpcli(*fit, folder=tmp_path).err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("own:raising", "own:raising: raised ValueError (its message is not shown, as it may quote a private record)"),
        ("own:nothing", "expected a model with predict(inputs), found NoneType"),
        ("own:wrong", "expected a label from 0 to 2 for each input"),
        ("own:missing", "expected a function, found nothing"),
        ("absent:model", "cannot be imported"),
    ],
)
def test_a_model_that_fails_is_told_without_a_record(model: str, message: str, tmp_path: Path) -> None:
    result = dpcli("pate", "fit", str(whole_file(tmp_path, model)), "--jobs", "1", folder=tmp_path)
    assert result.code == 2 and message in result.err and "secret" not in result.err


def test_votes_are_needed_before_labels_and_labels_before_a_student(tmp_path: Path) -> None:
    path = str(whole_file(tmp_path))
    path_text = Path(path).read_text().replace("epsilon = 8.0", "epsilon = 30.0")
    Path(path).write_text(path_text)
    assert "dpcli pate fit" in dpcli("pate", "label", path, folder=tmp_path).err
    assert "dpcli pate label" in dpcli("pate", "student", path, folder=tmp_path).err
    assert "no votes yet" in dpcli("pate", "account", path, folder=tmp_path).out


INTERACTIVE = """type = "confident-gnmax"
queries = 60
threshold = 8.0
threshold_sigma = 4.0
sigma = 4.0
answers = 40"""


@pytest.mark.nightly
def test_a_student_that_is_asked_first_labels_what_it_is_sure_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold is on what the student did not know; its own labels cost nothing, and none is counted as an answer."""
    path = whole_file(tmp_path, "own:nearest", 'check = "student"')
    path.write_text(
        path.read_text().replace(GNMAX.replace("sigma = 40.0", "sigma = 3.0"), INTERACTIVE).replace("epsilon = 8.0", "epsilon = 60")
    )
    assert dpcli("pate", "fit", str(path), "--jobs", "1", folder=tmp_path).code == 0
    answer = dpcli("pate", "label", str(path), "-f", "json", folder=tmp_path)
    assert answer.code == 0, answer.err
    rows = (tmp_path / "runs" / "votes" / "labels.csv").read_text().splitlines()[1:]
    by = [row.split(",")[2] for row in rows]
    assert by.count("teachers") == json.loads(answer.out)["answered"] and by.count("student") > 10
    costs = json.loads(dpcli("pate", "account", str(path), "-f", "json", folder=tmp_path).out)
    assert costs["held"]["answered"] == by.count("teachers")
    assert set(costs["unsanitised_do_not_publish"]) == {"realised"}  # beforehand nobody knows what the student will have learnt
    taught = dpcli("pate", "student", str(path), folder=tmp_path)
    assert (taught.code, "student.pickle is in" in taught.out) == (0, True)

    def refuse(value: object) -> bytes:
        raise TypeError("cannot pickle it")

    monkeypatch.setattr(pickle, "dumps", refuse)
    again = dpcli("pate", "student", str(path), folder=tmp_path)
    assert (again.code, "student.pickle is in" in again.out, "was not written" in again.out) == (0, False, True)


UNSURE = """
class Unsure:
    classes_ = (0, 1, 2)
    def predict(self, inputs):
        return np.zeros(len(inputs))
    def predict_proba(self, inputs):
        return np.full((len(inputs), 3), np.nan)

def unsure(inputs, labels):
    return Unsure()
"""


@pytest.mark.long
def test_a_student_that_predicts_nan_is_refused_as_it_has_no_price(tmp_path: Path) -> None:
    path = whole_file(tmp_path, "own:nearest", 'check = "student"')
    (tmp_path / "own.py").write_text(OWN + UNSURE)
    text = path.read_text().replace('student = "own:nearest"', 'student = "own:unsure"').replace("epsilon = 8.0", "epsilon = 60")
    path.write_text(text.replace(GNMAX.replace("sigma = 40.0", "sigma = 3.0"), INTERACTIVE))
    assert dpcli("pate", "fit", str(path), "--jobs", "1", folder=tmp_path).code == 0
    answer = dpcli("pate", "label", str(path), folder=tmp_path)
    assert answer.code == 2 and "pate.student: expected a probability of each label, found NaN or inf" in answer.err


@pytest.mark.long
def test_accounting_needs_neither_torch_nor_scikit_learn(tmp_path: Path) -> None:
    from tests.predict.samples import saved

    saved(tmp_path)
    path = written(tmp_path)
    heavy = "{'torch', 'sklearn', 'scipy', 'pyarrow'}"
    code = (
        "import sys\nfrom dpcli.cli.main import main\n"
        f"for command in ('account', 'label'):\n    assert main(['pate', command, {str(path)!r}]) == 0\n"
        f"loaded = {{name.split('.')[0] for name in sys.modules if '.' in name}}\nassert not loaded & {heavy}, loaded & {heavy}"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("odd", [2**70, -(2**70)])
def test_the_shard_of_a_unit_depends_on_no_other_ones_name(odd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole number that needs more than 64 bits is no reason for all others to move."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_names", raising=False)
    (tmp_path / "own_names.py").write_text(
        "import numpy as np\nNAMES = list(range(40))\ndef data(): return np.arange(40.0)[:, None], np.zeros(40, int), NAMES\n"
    )
    session, path = pate(data="own_names:data", units="whose"), str(tmp_path / "a.toml")
    before = members(records_by_teacher(session, ADD, path))
    sys.modules["own_names"].NAMES[0] = odd  # type: ignore[attr-defined]
    after = members(records_by_teacher(session, ADD, path))
    assert sum(one != other for one, other in zip(before, after, strict=True)) <= 2  # of the unit that has another name
    assert all(
        {*one} - {np.zeros(1).tobytes()} == {*other} - {np.zeros(1).tobytes()} for one, other in zip(before, after, strict=True)
    )


ODD = """
import warnings
SECRET = "4711 in words"
class Odd:
    @property
    def classes_(self):
        if "{when}" == "classes": raise ValueError(SECRET)
        raise AttributeError
    @property
    def predict(self):
        if "{when}" == "predict": raise KeyError(SECRET)
        return self.said
    def said(self, inputs):
        if "{when}" == "tensor": return Odd()
        warnings.warn(SECRET)
        raise SystemExit(SECRET)
    def detach(self): raise ValueError(SECRET)
def learn(inputs, labels):
    warnings.warn(SECRET)
    return Odd()
"""


@of_each("when", ["classes", "predict", "tensor", "called"])
def test_whatever_a_learner_fails_at_says_nothing_of_a_record(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "odd_learner", raising=False)
    (tmp_path / "odd_learner.py").write_text(ODD.replace("{when}", when))
    records = Records(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    with pytest.raises(InputError) as raised:
        learner_of("odd_learner:learn", 2, 8, str(tmp_path / "a.toml"))(records).probabilities(np.zeros((3, 2)))
    assert "4711" not in str(raised.value) and not recwarn.list


BLOBS = """\
format = 1
name = "blobs"

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 25_000
delta = 1e-5
releases = "outputs"

[[mechanism]]
name = "answers"
type = "confident-gnmax"
queries = 640
answers = 400
threshold = 200.0
threshold_sigma = 150.0
sigma = 40.0

[pate]
teachers = 250
classes = 10
data = "private.npz"
queries = "queries.npz"
test = "test.npz"
"""

# Of each centre from the origin, in standard deviations of a blob: some are told apart by any teacher, some by few. The non-private
# accuracy is .967, and about 379 of 640 queries are answered.
SPREADS = np.linspace(0.7, 1.8, 10)


def blobs(random: np.random.Generator, centres: np.ndarray, count: int, path: Path) -> None:
    labels = random.integers(0, len(centres), count)
    np.savez(path, inputs=centres[labels] + random.normal(size=(count, centres.shape[1])), labels=labels)


@pytest.mark.nightly
@pytest.mark.needs("sklearn")
def test_blobs(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    centres = SPREADS[:, None] * random.normal(size=(10, 16))
    for name, count in (("private", 25_000), ("queries", 1_500), ("test", 5_000)):
        blobs(random, centres, count, tmp_path / f"{name}.npz")
    path = tmp_path / "blobs.toml"
    path.write_text(BLOBS)
    assert dpcli("pate", "fit", str(path), "--jobs", "2", folder=tmp_path).code == 0
    assert dpcli("pate", "label", str(path), folder=tmp_path).code == 0
    student = json.loads(dpcli("pate", "student", str(path), "-f", "json", folder=tmp_path).out)
    answer = json.loads(dpcli("pate", "account", str(path), "-f", "json", folder=tmp_path).out)
    private, transcript = answer["unsanitised_do_not_publish"], answer["held"]
    assert (
        transcript["asked"] == 640 or transcript["answered"] == 400
    )  # where 400 are answered sooner, which is rare, the rest are not asked
    assert abs(transcript["answered"] - 379) <= 63  # five standard deviations of a sum of 640 coins
    assert (
        private["expected"]["epsilon"] < 1.05 and private["realised"]["epsilon"] < 1.25
    )  # the second varies with what was answered
    assert transcript["by_accountant"]["rdp"] == pytest.approx(3.06, abs=0.4)
    assert transcript["by_accountant"]["analytic"] == pytest.approx(2.82, abs=0.4)
    assert transcript["by_accountant"]["analytic"] < answer["result"]["epsilon_upper"]  # the plan's: 400 answers
    assert student["metrics"]["accuracy"] >= 0.945


@pytest.mark.nightly
@pytest.mark.needs("sklearn")
def test_the_example_from_teachers_to_student(tmp_path: Path) -> None:
    """Among twenty runs the least accurate student was at .893, the mean .927."""
    path = tmp_path / "pate-digits.toml"
    path.write_text((ROOT / "examples" / "pate-digits.toml").read_text())
    fitted = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert (fitted.code, json.loads(fitted.out)["pool"]) == (0, 300)
    assert json.loads(dpcli("pate", "label", str(path), "-f", "json", folder=tmp_path).out)["answered"] == 100
    student = json.loads(dpcli("pate", "student", str(path), "-f", "json", folder=tmp_path).out)
    assert (student["labelled"], student["pseudo_labelled"]) == (100, 200)
    assert student["metrics"]["accuracy"] >= 0.86
    costs = json.loads(dpcli("pate", "account", str(path), "-f", "json", folder=tmp_path).out)
    assert 15.4 < costs["result"]["epsilon_upper"] < 15.5  # one Gaussian, mu = sqrt(200) / 5
    private = costs["unsanitised_do_not_publish"]
    assert 7.0 < private["realised"]["epsilon"] < 9.0 and private["realised"]["queries"] == 100
    again = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert json.loads(again.out)["fitted_before"] == 50
