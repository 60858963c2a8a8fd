"""Tests of checkpoints of Opacus: they are read without running them, and give the same history back."""

from __future__ import annotations

import builtins
import io
import json
import math
import os
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli import account
from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.exchange.foreign import Asserted, read_text
from dpcli.exchange.opacus import accountant as checkpoint
from dpcli.exchange.opacus import inert_pickle
from dpcli.exchange.opacus.accountant import OpacusState, Phase, read_checkpoint, state_in
from dpcli.exchange.opacus.inert_pickle import read_pickle
from dpcli.exchange.opacus.phases import file_of_state, json_text, state_of, tables_of_state, torch_bytes
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import load
from dpcli.file.pipeline.series import MAX_ENTRIES as ENTRIES
from dpcli.file.toml.write import toml_text
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.strategies import entry, pipeline

FILES = ROOT / "tests" / "vectors" / "opacus"
SAVED = sorted(path for path in FILES.iterdir() if path.suffix in (".pt", ".json"))
HISTORY = (Phase(1.1, 0.125, 8), Phase(1.5, 0.125, 8))


def test_there_are_checkpoints() -> None:
    assert len(SAVED) == 5


@of_each("path", SAVED)
def test_the_history_is_found_in_every_kind_of_file(path: Path) -> None:
    """As made by vectors/opacus/make.py: whole checkpoints and states, zips and older files, accountants pickled as objects, JSON."""
    assert state_in(read_checkpoint(str(path))) == OpacusState("rdp", HISTORY)


def test_the_command_needs_no_torch_and_says_what_it_assumes(tmp_path: Path) -> None:
    out = tmp_path / "p.toml"
    done = dpcli("import", "opacus", str(FILES / "checkpoint.pt"), "--delta", "1e-5", "-o", str(out))
    assert done.code == 0 and "poisson_sampling=True" in done.err and f"dpcli account {out}" in done.err
    made = load(out)
    assert [(e.spec.noise_multiplier, e.sampling.rate, e.steps) for e in made.mechanisms] == [(1.1, 0.125, 8), (1.5, 0.125, 8)]  # type: ignore[attr-defined, union-attr]
    assert made.privacy.unit is None and "NOT STATED" in out.read_text()
    loaded = (
        "import sys; from dpcli.exchange.opacus.accountant import read_checkpoint as r; "
        f"r({str(FILES / 'checkpoint.pt')!r}); print('torch' in sys.modules, 'opacus' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, cwd=ROOT).stdout == "False False\n"


def test_batches_in_a_shuffled_order_cost_what_they_cost() -> None:
    done = dpcli("import", "opacus", str(FILES / "state_dict.pt"), "--delta", "1e-5", "--sampling", "shuffle")
    poisson = dpcli("import", "opacus", str(FILES / "state_dict.pt"), "--delta", "1e-5", "--sampling", "poisson")
    for stated, scheme in ((done, "shuffle"), (poisson, "poisson")):
        assert "ASSUMED" not in stated.out + stated.err and "assum" not in stated.err and f'scheme = "{scheme}"' in stated.out
        assert "poisson_sampling=True" not in stated.out + stated.err
    cost = [account(read_text(text.out, "x"), ["exact"]).upper for text in (done, poisson)]
    assert cost[0] > 1.5 * cost[1]


def test_shuffled_batches_of_the_smallest_rate_are_refused() -> None:
    """At this rate, 1 / rate is infinite as a float."""
    state = OpacusState("rdp", (Phase(1.0, 5e-324, 1), Phase(1.0, 0.5, 2)))
    with pytest.raises(InputError, match="whole passes"):
        tables_of_state(state, Asserted(), "shuffle")


@of_each("batches", [1, 2, 3, 5, 7, 49])
def test_a_record_is_in_no_more_batches_of_a_phase_than_are_charged(batches: int) -> None:
    """Of shuffled batches: in a pass it may be in any one, so twice in a phase that begins within one."""
    rng, taken = random.Random(f"{SEED} {batches}"), 0
    for _ in range(40):
        lengths = [rng.choice([batches, 2 * batches, rng.randint(1, 3 * batches)]) for _ in range(rng.randint(1, 4))]
        state = OpacusState("rdp", tuple(Phase(1.0 + k, 1.0 / batches, steps) for k, steps in enumerate(lengths)))
        starts = [sum(lengths[:k]) for k in range(len(lengths))]
        passes = [(start + steps - 1) // batches - start // batches + 1 for start, steps in zip(starts, lengths, strict=True)]
        if any(start % batches for start in starts):
            with pytest.raises(InputError, match="whole passes"):
                tables_of_state(state, Asserted(), "shuffle")
            continue
        made = read_text(file_of_state(state, Asserted(delta=1e-5), "shuffle", "a"), "a")
        taken += 1
        assert passes == [math.ceil(steps / batches) for steps in lengths], (SEED, lengths)
        assert [m.steps for m in made.mechanisms] == lengths, SEED
    assert taken, SEED


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(plain, st.integers(0, 5))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    shared = [value, value, (value,), OrderedDict([("a", value), ("b", 1)])]
    data = pickle.dumps(shared, protocol)
    assert read_pickle(io.BytesIO(data)) == pickle.loads(data) == shared


class Calls:
    """An object whose pickle calls something."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", data)
    return buffer.getvalue()


def hostile(place: Path) -> dict[str, tuple[bytes, str]]:
    """Pickles that would make a file at `place`, each with the name that it would run."""
    os_name = f"{os.system.__module__}.system"
    state = {"history": [(1.1, 0.01, 10)], "mechanism": "rdp"}
    found = {}
    for protocol in range(6):
        bomb = {**state, "x": Calls(os.system, f"touch {place}")}
        found[f"system-{protocol}"] = pickle.dumps(bomb, protocol), os_name
    first = {"x": Calls(builtins.eval, f"open({str(place)!r}, 'w')"), **state}
    found["eval before the state"] = pickle.dumps(first, 4), "builtins.eval"
    found["in the history"] = pickle.dumps({**state, "history": [Calls(os.system, f"touch {place}")]}, 2), os_name
    found["subprocess"] = pickle.dumps([Calls(subprocess.call, ["touch", str(place)]), state], 4), "subprocess.call"
    command = f"touch {place}".encode()
    found["instance"] = b"(S'" + command + b"'\nios\nsystem\n.", "os.system"
    found["object"] = b"(cos\nsystem\nS'" + command + b"'\no.", "os.system"
    found["new object"] = b"\x80\x04cos\nsystem\n(S'" + command + b"'\nt}\x92.", "os.system"
    found["build"] = b"\x80\x02c__main__\nThing\n)\x81}X\x01\x00\x00\x00aK\x01sb.", "__main__.Thing"
    found["extension"] = b"\x80\x02\x82\x01.", "EXT1"
    found["dotted"] = b"\x80\x04\x8c\x05torch\x8c\x0eSize.__class__\x93.", "torch.Size.__class__"
    found["torch"] = b"ctorch\nload\n(S'x'\ntR.", "torch.load"
    found["numpy"] = b"cnumpy.testing._private.utils\nrunstring\n.", "numpy.testing"
    return found


@pytest.mark.parametrize("form", ["pickle", "zip"])
def test_a_hostile_pickle_is_refused_by_name_and_runs_nothing(form: str, tmp_path: Path) -> None:
    place, path = tmp_path / "ran", tmp_path / "c.pt"
    for kind, (data, name) in hostile(place).items():
        path.write_bytes(zipped(data) if form == "zip" else data)
        with pytest.raises(InputError) as refused:
            read_checkpoint(str(path))
        assert name in str(refused.value), kind
        assert not place.exists(), kind


def test_the_hostile_pickles_would_run_elsewhere(tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    place = tmp_path / "ran"
    for kind in ("system-4", "instance", "in the history"):
        pickle.loads(hostile(place)[kind][0])
        assert place.exists(), kind
        place.unlink()


def test_a_damaged_file_is_read_or_refused(tmp_path: Path) -> None:
    """Cut and changed anywhere: no other error."""
    rng, path = random.Random(SEED), tmp_path / "c.pt"
    for saved in SAVED:
        whole = saved.read_bytes()
        for _ in range(60):
            data = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
            for _ in range(rng.choice([0, 1, 3])):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data)
            try:
                file_of_state(state_in(read_checkpoint(str(path))), Asserted(), "poisson", "x")
            except InputError:
                continue
            except Exception as error:
                raise AssertionError((SEED, saved.name)) from error
    path.write_bytes(b"\x80\x02r\xff\xff\xff\xff.")  # a memo of four thousand million places
    with pytest.raises(InputError):
        read_checkpoint(str(path))


@of_each("method", [1, 8, 9, 12, 14, 93, 99])
def test_a_zip_of_another_method_is_refused(method: int, tmp_path: Path) -> None:
    """Whatever decoder the zip asks for says of bytes that are not its own."""
    data = bytearray((FILES / "state_dict.pt").read_bytes())
    for header, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = data.find(header)
        while place >= 0:
            data[place + offset] = method
            place = data.find(header, place + 1)
    path = tmp_path / "c.pt"
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged zip"):
        read_checkpoint(str(path))


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "MAX_PICKLE", 10_000)
    path = tmp_path / "c.pt"
    path.write_bytes(zipped(pickle.dumps("x" * 1_000_000)))
    with pytest.raises(InputError, match="without their tensors"):
        read_checkpoint(str(path))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InputError, match="no state of an Opacus accountant"):
        state_in(read_pickle(io.BytesIO(pickle.dumps(loop))))


def nested(opcode: bytes, depth: int) -> bytes:
    """A tuple in a tuple, and so on."""
    return b")" + opcode * depth


DEEP = {
    "a tuple as key": b"\x80\x02}" + nested(b"\x85", 200_000) + b"Ns.",
    "tuples as keys": b"\x80\x02}(" + (nested(b"\x85", 100_000) + b"N") * 2 + b"u.",
    "in DICT": b"\x80\x02(" + nested(b"\x85", 200_000) + b"Nd.",
    "in OrderedDict": b"ccollections\nOrderedDict\n((l(" + nested(b"\x85", 200_000) + b"NtatR.",
    "shared": b"\x80\x02}" + b")" + b"2\x86" * 60 + b"Ns.",
    "wide": b"\x80\x02}(" + b"N" * 100_000 + b"tNs.",
}


EACH = "import sys; from dpcli.cli.main import main\nfor path in sys.argv[1:]: print(main(['import', 'opacus', path]), flush=True)"


@pytest.mark.long
def test_keys_that_would_be_hashed_without_end_are_refused(tmp_path: Path) -> None:
    """In a process of its own, which such a key would end."""
    paths = [tmp_path / f"{place}.pkl" for place in range(len(DEEP))]
    for path, data in zip(paths, DEEP.values(), strict=True):
        path.write_bytes(data)
    done = subprocess.run([sys.executable, "-c", EACH, *map(str, paths)], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout.split()) == (0, ["2"] * len(DEEP)), (list(DEEP), done)
    assert [path for path in paths if str(path) not in done.stderr] == []


@pytest.mark.long
def test_a_deep_value_that_nobody_hashes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.pkl"
    path.write_bytes(b"\x80\x02]" + nested(b"\x85", 200_000) + b"a.")
    assert "no state of an Opacus accountant" in dpcli("import", "opacus", str(path)).err


TWICE = {
    "SETITEM": b"\x80\x02}X\x01\x00\x00\x00aK\x01sX\x01\x00\x00\x00aK\x02s.",
    "SETITEMS": b"\x80\x02}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02u.",
    "DICT": b"\x80\x02(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02d.",
    "OrderedDict": b"ccollections\nOrderedDict\n((l(S'a'\nI1\nta(S'a'\nI2\ntatR.",
    "BUILD": b"copacus.accountants.rdp\nRDPAccountant\n)R}b}b.",
}


@of_each("kind", TWICE)
def test_what_a_pickle_says_twice_is_refused(kind: str) -> None:
    pickle.loads(TWICE[kind]) if kind != "BUILD" else None  # a dict to whoever runs it
    with pytest.raises(InputError):
        read_pickle(io.BytesIO(TWICE[kind]))


def test_instructions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\x80\x02" + b"N0" * 1000 + b"N."
    assert read_pickle(io.BytesIO(data)) is None
    monkeypatch.setattr(inert_pickle, "MOST_INSTRUCTIONS", 1000)
    with pytest.raises(InputError, match="at most 1,000 instructions"):
        read_pickle(io.BytesIO(data))


def numpy_scalar(value: float) -> bytes:
    """A state whose noise multiplier is a number of numpy, as torch.save writes it."""
    data = "".join(map(chr, struct.pack("<d", value)))
    text = data.encode()
    dtype = b"cnumpy\ndtype\n(X\x02\x00\x00\x00f8K\x00K\x01tR(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    raw = b"c_codecs\nencode\n(X" + struct.pack("<I", len(text)) + text + b"X\x06\x00\x00\x00latin1tR"
    scalar = b"cnumpy.core.multiarray\nscalar\n(" + dtype + raw + b"tR"
    return (
        b"\x80\x02}(X\x07\x00\x00\x00history]("
        + scalar
        + b"G?\x84z\xe1G\xae\x14{K\x05\x87eX\x09\x00\x00\x00mechanismX\x03\x00\x00\x00rdpu."
    )


def test_numbers_of_numpy_are_numbers() -> None:
    assert state_in(read_pickle(io.BytesIO(numpy_scalar(1.7)))).phases == (Phase(1.7, 0.01, 5),)


STATES: dict[str, tuple[Any, str]] = {
    "none": ({"model": {}}, "save_checkpoint"),
    "empty": ({"history": [], "mechanism": "rdp"}, "at least one step"),
    "two": (
        [{"history": [(1, 0.1, 1)], "mechanism": "rdp"}, {"history": [(2, 0.1, 1)], "mechanism": "rdp"}],
        "found 2",
    ),
    "too many phases": ({"history": [(1.0, 0.1, 1)] * (ENTRIES + 1), "mechanism": "rdp"}, f"at most {ENTRIES:,} phases"),
    "two equal": ([{"history": [(1.0, 0.1, 1)], "mechanism": "rdp"}, {"history": [(1.0, 0.1, 1)], "mechanism": "rdp"}], "found 2"),
    "more steps than can be": ({"history": [(1.0, 0.1, 10**19)], "mechanism": "rdp"}, "from 1 to 10^18"),
    "steps of no end": ({"history": [(1.0, 0.1, 10**5000)], "mechanism": "rdp"}, "from 1 to 10^18"),
    "dpcli's part is none": ({"history": [(1.0, 0.1, 1)], "mechanism": "rdp", "dpcli": [1]}, "as dpcli export wrote it"),
    "two of one key": (
        {k: {"acc": {"history": [(n, 0.1, 1)], "mechanism": "rdp"}} for k, n in (("a", 1.0), ("b", 2.0))},
        "found 2, at acc, acc",
    ),
    "no noise": ({"history": [(0.0, 0.1, 1)], "mechanism": "rdp"}, "without noise"),
    "nan": ({"history": [(float("nan"), 0.1, 1)], "mechanism": "rdp"}, "noise_multiplier > 0"),
    "infinite": ({"history": [(float("inf"), 0.1, 1)], "mechanism": "rdp"}, "noise_multiplier > 0"),
    "negative": ({"history": [(-1.0, 0.1, 1)], "mechanism": "rdp"}, "noise_multiplier > 0"),
    "huge": ({"history": [(10**400, 0.1, 1)], "mechanism": "rdp"}, "noise_multiplier > 0"),
    "rate above one": ({"history": [(1.0, 1.5, 1)], "mechanism": "rdp"}, "sample_rate in (0, 1]"),
    "no rate": ({"history": [(1.0, 0.0, 1)], "mechanism": "rdp"}, "sample_rate in (0, 1]"),
    "half a step": ({"history": [(1.0, 0.1, 1.5)], "mechanism": "rdp"}, "whole number of steps"),
    "true": ({"history": [(1.0, 0.1, True)], "mechanism": "rdp"}, "whole number of steps"),
    "pairs": ({"history": [(1.0, 0.1)], "mechanism": "rdp"}, "(noise_multiplier, sample_rate, steps)"),
}


@of_each("kind", STATES)
def test_a_history_without_meaning_is_refused(kind: str) -> None:
    value, words = STATES[kind]
    with pytest.raises(InputError) as refused:
        state_in(read_pickle(io.BytesIO(pickle.dumps(value))))
    assert words in str(refused.value)


@pytest.mark.long
def test_more_phases_than_a_file_holds_are_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    phases = [[1.0 + place * 1e-7, 0.01, 1] for place in range(ENTRIES)]
    path.write_text(json.dumps({"history": phases, "mechanism": "rdp"}))
    done = dpcli("import", "opacus", str(path))
    assert (
        done.code == 2
        and done.err.startswith(f"dpcli: {path}: ")
        and "KiB do not fit into a pipeline file of 1,024 KiB" in done.err
    )


def test_nothing_in_a_state_becomes_a_key_of_the_file() -> None:
    """The accountant's name is written into a comment."""
    text = file_of_state(OpacusState("rdp\n[budget]\nepsilon = 9", HISTORY), Asserted(delta=1e-5), "poisson", "x")
    assert read_text(text, "x").budget is None


sgd = st.builds(
    lambda nm, n, q: entry("gaussian", steps=n, rate=q, noise_multiplier=nm),
    st.floats(0.5, 30.0),
    st.integers(1, 10**6),
    st.none() | st.floats(1e-9, 1.0),
)
sgd_pipelines = st.builds(
    lambda entries, unit: pipeline(*entries, unit=unit), st.lists(sgd, min_size=1, max_size=4), st.none() | st.just("example")
)


@given(sgd_pipelines, st.sampled_from(["prv", "rdp", "gdp"]))
def test_export_and_import_give_the_same_pipeline(made: Pipeline, mechanism: str) -> None:
    state = state_of(made, mechanism)
    for back in (
        json.loads(json_text(state)),
        read_pickle(io.BytesIO(zipfile.ZipFile(io.BytesIO(torch_bytes(state))).read("opacus/data.pkl"))),
    ):
        text = file_of_state(state_in(back), Asserted(), "poisson", "x")
        assert tables_of(read_text(text, "x")) == tables_of(made)
        assert state_of(read_text(text, "x"), mechanism).phases == state.phases
        bare = file_of_state(state_in({key: back[key] for key in ("history", "mechanism")}), Asserted(), "poisson", "x")
        assert state_of(read_text(bare, "x"), mechanism).phases == merged(state.phases)
        assert bare.count("[[mechanism]]") == 1


def merged(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Phases that follow each other with one noise and one rate, taken as one."""
    found: list[Phase] = []
    for phase in phases:
        same = found and (found[-1].noise_multiplier, found[-1].sample_rate) == (phase.noise_multiplier, phase.sample_rate)
        found.append(replace(phase, steps=phase.steps + (found.pop().steps if same else 0)))
    return tuple(found)


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
def test_a_history_of_many_phases_is_one_entry_that_costs_the_same(sampling: str) -> None:
    """As entries written one by one, of whole passes where batches are of a shuffled order."""
    rng = random.Random(f"{SEED} {sampling}")
    for _ in range(4):
        phases, batches = [], rng.choice([4, 8])
        for _ in range(rng.randint(2, 5)):
            rate = 1.0 / batches if sampling == "shuffle" or rng.random() < 0.7 else rng.uniform(0.01, 0.2)
            phases.append(Phase(rng.choice([1.0, 2.0, rng.uniform(0.8, 4.0)]), rate, batches * rng.randint(1, 9)))
        made = read_text(file_of_state(OpacusState("rdp", tuple(phases)), Asserted(delta=1e-5), sampling, "x"), "x")
        one_by_one = {
            "format": 1,
            "privacy": {"adjacency": "add-remove", "delta": 1e-5, "releases": "all-checkpoints"},
            "mechanism": [
                {
                    "name": str(place),
                    "type": "gaussian",
                    "noise_multiplier": phase.noise_multiplier,
                    "steps": phase.steps,
                    "sampling": {"scheme": sampling, "rate": phase.sample_rate},
                }
                for place, phase in enumerate(phases)
            ],
        }
        plain = read_text(toml_text(one_by_one), "y")
        assert account(made, ["rdp"]).upper == pytest.approx(account(plain, ["rdp"]).upper, rel=1e-12), SEED


def test_a_changed_export_is_refused() -> None:
    """Its own tables are believed only where they say what the history says."""
    document = json.loads(json_text(state_of(load(ROOT / "examples" / "mnist.toml"), "prv")))
    document["history"][0][2] += 1
    with pytest.raises(InputError, match="contradicts the pipeline that dpcli export wrote"):
        file_of_state(state_in(document), Asserted(), "poisson", "x")
    document["history"][0][2] -= 1
    with pytest.raises(InputError, match="leave --adjacency and --max-contributions out"):
        file_of_state(state_in(document), Asserted(adjacency="replace-one"), "poisson", "x")


REFUSED: dict[str, tuple[Pipeline, str]] = {
    "laplace": (pipeline(entry("laplace", noise_multiplier=2.0)), "laplace"),
    "sigma": (pipeline(entry("gaussian", sigma=2.0, sensitivity=1.0)), "sigma"),
    "replace-one": (pipeline(entry("gaussian", noise_multiplier=2.0, rate=0.1), adjacency="replace-one"), "replace-one"),
    "users": (pipeline(entry("gaussian", noise_multiplier=2.0), unit="user", max_contributions=3), "max_contributions"),
    "adaptive": (pipeline(entry("gaussian", noise_multiplier=2.0), adaptive=True), "adaptive"),
    "free": (pipeline(entry("post-processing")), "private data"),
}


@of_each("kind", REFUSED)
def test_what_opacus_cannot_say_is_refused_by_name(kind: str) -> None:
    made, words = REFUSED[kind]
    with pytest.raises(InputError, match=words):
        state_of(made, "prv")


@pytest.mark.parametrize("mechanism", ["rdp", "prv", "gdp"])
def test_a_file_says_where_the_number_of_opacus_is_no_bound(mechanism: str) -> None:
    state = state_in({"history": [[1.1, 0.01, 100]], "mechanism": mechanism})
    text = file_of_state(state, Asserted(delta=1e-5), "poisson", "x")
    assert ("that may be too small" in text) == (mechanism == "gdp")


@of_each("adjacency", [None, "add-remove", "replace-one", "zero-out"])
def test_an_adjacency_of_the_user_is_not_called_that_of_opacus(adjacency: str | None) -> None:
    state = state_in({"history": [[1.1, 0.01, 100]], "mechanism": "rdp"})
    text = file_of_state(state, Asserted(delta=1e-5, adjacency=adjacency), "poisson", "x")
    assert ("the adjacency of Opacus's accountants" in text) == (adjacency in (None, "add-remove"))


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.needs("torch", "opacus")
@pytest.mark.filterwarnings("ignore")
def test_opacus_agrees_on_the_number(tmp_path: Path) -> None:
    """Eight real accountants: their own bound is never below what is certified, and what is exported is what they count."""
    import torch
    from opacus.accountants import PRVAccountant, RDPAccountant

    rng, path = random.Random(SEED), tmp_path / "c.pt"
    for place in range(8):
        accountant = (RDPAccountant, PRVAccountant)[place % 2]()
        for _ in range(rng.randrange(1, 4)):
            accountant.history.append((rng.uniform(0.7, 3.0), rng.uniform(0.001, 0.1), rng.randrange(1, 800)))
        torch.save({"privacy_accountant_state_dict": accountant.state_dict()}, path)
        state = state_in(read_checkpoint(str(path)))
        made = read_text(file_of_state(state, Asserted(delta=1e-5), "poisson", "x"), "x")
        ours, theirs = account(made, ["exact"]), accountant.get_epsilon(1e-5)
        assert ours.lower is not None and ours.lower <= theirs
        assert theirs <= ours.upper + 0.011 if place % 2 else ours.upper <= theirs
        (tmp_path / "back.pt").write_bytes(torch_bytes(state_of(made, accountant.mechanism())))
        other = type(accountant)()
        other.load_state_dict(torch.load(tmp_path / "back.pt", weights_only=True))
        assert [tuple(phase) for phase in other.history] == accountant.history
        assert other.get_epsilon(1e-5) == theirs


@of_each(
    "data, words",
    [
        (b"[]", "not an Opacus checkpoint"),
        (b"format = 1\n", "not an Opacus checkpoint"),
        (b"import torch\nfrom x import y\n", "not an Opacus checkpoint"),
        (b"import torch\n\nx = 1\n", "not an Opacus checkpoint"),
        (b"", "not an Opacus checkpoint"),
        (b'{"history": [[1.1, 0.01, 100]]}', '"history" has no "mechanism" (rdp, prv or gdp)'),
        (b'{"mechanism": "rdp"}', "no state of an Opacus accountant"),
    ],
)
def test_what_is_no_checkpoint_is_told_what_one_is(data: bytes, words: str) -> None:
    found = dpcli("import", "opacus", "-", stdin=data)
    assert (found.code, found.out) == (2, "") and words in found.err, found.err


@of_each("library", ["opacus", "dp-accounting"])
@of_each("there", ["a directory", "a file"])
def test_what_is_in_the_way_of_an_output_is_named(library: str, there: str, tmp_path: Path) -> None:
    path, source = tmp_path / "there", str(ROOT / "examples" / "dp-sgd.toml")
    path.mkdir() if there == "a directory" else path.touch()
    kept = tmp_path / "kept"
    assert dpcli("export", library, source, "-o", str(kept)).code == 0
    for arguments in (("export", library, source), ("import", library, str(kept))):
        assert f"expected a path that does not exist yet, found {there}" in dpcli(*arguments, "-o", str(path)).err
