"""Tests of reading a good file: its values, its cost, and the modules that reading it imports."""

from __future__ import annotations

import cProfile
import hashlib
import io
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.file.pipeline import read
from dpcli.file.pipeline.model import Budget, Gate, PartitionKey, Privacy
from dpcli.file.pipeline.read import load, parse, targets
from dpcli.file.toml.syntax import tables_of
from dpcli.mechanisms.combined.composed import ComposedSpec
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import LaplaceSpec
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.mechanisms.stated.renyi import RdpSpec

from .samples import GOOD, changed, said


def test_reads_every_table() -> None:
    pipeline = parse(GOOD.encode(), "train.toml")
    assert pipeline.name == "ads-ctr"
    assert pipeline.privacy == Privacy(Adjacency.ADD_REMOVE, "user", 5, 60_000, 1e-6, "all-checkpoints", adaptive=False)
    assert pipeline.budget == Budget(3.0)
    assert pipeline.gate == Gate()
    assert pipeline.sections == (("train", tomllib.loads(GOOD)["train"]),)
    assert pipeline.path == "train.toml"
    assert pipeline.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()


def test_reads_every_mechanism() -> None:
    vocabulary, train, north, curve, both = parse(GOOD.encode(), "train.toml").mechanisms
    assert vocabulary.spec == LaplaceSpec(scale=20.0, sensitivity=5.0)
    assert vocabulary.description == "two\nlines"
    assert (train.name, train.type, train.steps, train.epochs) == ("train", "gaussian", 14_063, None)
    assert train.spec == GaussianSpec(noise_multiplier=1.12)
    assert train.sampling == Poisson("poisson", batch_size=256)
    assert north.partition == PartitionKey("region", "north")
    assert curve.spec == RdpSpec(orders=(2.0, 4.0), values=(0.1, 0.2))
    assert both.spec == ComposedSpec(mechanisms=("curve", "vocabulary"))


@pytest.mark.parametrize(
    "spelling",
    [
        'sampling.scheme = "poisson"\nsampling.batch_size = 256',
        '[mechanism.sampling]\nscheme = "poisson"\nbatch_size = 256',
        '"sampling" = {"scheme" = \'poisson\', batch_size = 0x100}',
    ],
)
def test_spelling_does_not_matter(spelling: str) -> None:
    other = changed('sampling = { scheme = "poisson", batch_size = 256 }', spelling)
    assert parse(other.encode(), "x").mechanisms == parse(GOOD.encode(), "x").mechanisms


def test_crlf_reads_the_same() -> None:
    windows = parse(GOOD.replace("\n", "\r\n").encode(), "x")
    assert windows.privacy == parse(GOOD.encode(), "x").privacy


def test_once_per_epoch_needs_no_rate() -> None:
    text = changed("steps = 14_063\n", "epochs = 3\n")
    text = changed('{ scheme = "poisson", batch_size = 256 }', '{ scheme = "shuffle" }', text)
    assert parse(text.encode(), "x").mechanisms[1].epochs == 3.0


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert load("-").path == "-"


def test_path_objects(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(GOOD)
    assert load(tmp_path / "train.toml").path == str(tmp_path / "train.toml")


OPEN = changed("noise_multiplier = 1.12\nsteps = 14_063", 'noise_multiplier = "calibrate"\nsteps = "calibrate"')


def test_calibrate_is_refused_by_name() -> None:
    hint = 'found "calibrate"; run dpcli calibrate-sigma, or state a number'
    assert said(OPEN) == [
        f'DP003 26:1 mechanism["train"].noise_multiplier: expected a number > 0, {hint}',
        f'DP003 27:1 mechanism["train"].steps: expected a whole number from 1 to 10^18, {hint}',
    ]


def test_calibrate_takes_a_substitute() -> None:
    train = parse(OPEN.encode(), "x", substitute=2.0).mechanisms[1]
    assert train.spec == GaussianSpec(noise_multiplier=2.0)
    assert train.steps == 2
    assert isinstance(train.steps, int)


def test_calibrate_targets() -> None:
    found = (("train", "noise_multiplier"), ("train", "steps"), ("train", "sampling.rate"))
    assert targets(changed("batch_size = 256", 'rate = "calibrate"', OPEN).encode(), "x") == found


def test_calibrate_in_words_is_a_word() -> None:
    text = changed('name = "train"', 'name = "calibrate"')
    text = changed("scale = 20.0", 'scale = 20.0\npartition = "calibrate"', text)
    text = changed(', "vocabulary"', "", text)
    assert targets(text.encode(), "x") == ()
    assert parse(text.encode(), "x").mechanisms[1].name == "calibrate"


def test_targets_of_an_unfinished_file() -> None:
    assert targets(b"", "x") == ()
    assert targets(b'mechanism = [3, { type = "gaussian", sigma = "calibrate" }, { type = 4, sigma = "calibrate" }]', "x") == (
        ("mechanism[2]", "sigma"),
    )


def test_twice_the_mechanisms_take_twice_the_calls() -> None:
    entry = '[[mechanism]]\nname = "m-{}"\ntype = "gaussian"\nsigma = 1\nsensitivity = 1\nsampling = {{ scheme = "poisson", rate = 0.1 }}\n'

    def calls(count: int) -> int:
        text = "".join([GOOD.split("[train]")[0], *(entry.format(index) for index in range(count))]).encode()
        with cProfile.Profile(builtins=False) as profile:
            assert len(parse(text, "large.toml").mechanisms) == count + 5
        return sum(one.callcount for one in profile.getstats())

    calls(1)  # what is imported or remembered is not counted below
    few, many, more = calls(100), calls(200), calls(400)
    assert 0 < more - many <= 2.05 * (many - few)
    assert many - few <= 100 * 300  # 168 for each


@pytest.mark.long
def test_reading_imports_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(GOOD)
    (tmp_path / "bad.toml").write_text(changed("steps", "stesp"))
    code = (
        "import sys; from dpcli.file.pipeline.read import load; from dpcli.base.errors import InputError\n"
        "load(sys.argv[1])\n"
        "try: load(sys.argv[2])\n"
        "except InputError: pass\n"
        # A lazy module is listed before it is loaded; its parts are not.
        "heavy = [name for name in sys.modules if name.startswith(('numpy.', 'scipy.', 'rich.', 'torch.', 'click.'))]\n"
        "assert not heavy, heavy"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "train.toml"), str(tmp_path / "bad.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*.toml"))
LISTS = b"""format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
[defaults]
sensitivity = 2
steps = 3
[[mechanism]]
name = "count"
type = "laplace"
scale = [10, 20]
[[mechanism]]
name = "sum"
type = "gaussian"
sigma = "calibrate"
"""
TEXTS = {path.stem: path.read_bytes() for path in EXAMPLES} | {"lists": LISTS}
READERS: dict[str, Callable[[bytes], object]] = {
    "parse": lambda text: read.parse(text, "a.toml", 1.0),
    "examine": lambda text: read.examine(text, "a.toml"),
    "section": lambda text: read.section(text, "a.toml", "train"),
    "targets": lambda text: read.targets(text, "a.toml"),
    "document": lambda text: read.toml_document(text, "a.toml"),
    "located": lambda text: read.located(text.decode(), [("format",)]),
}


def test_every_reader_leaves_them() -> None:
    for name, text in TEXTS.items():
        for word, reader in READERS.items():
            with suppress(InputError):
                reader(text)
            assert read._written_tables(text.decode()) == tables_of(text.decode()), (name, word)
    assert read._written_tables.cache_info().maxsize == 1


def test_a_folder_behind_two_links_is_searched_once(tmp_path: Path) -> None:
    """The file would otherwise be judged, and added up, under two names."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.toml").write_text("format = 1\n")
    searched = tmp_path / "searched"
    searched.mkdir()
    for name in ("first", "second"):
        (searched / name).symlink_to(tmp_path / "data")
    assert read.expand_folders([str(searched)], lambda tables: True) == (str(searched / "first" / "a.toml"),)
