"""Tests of lists of values and [defaults]: every reader takes such a file like one that is written out, and errors have its places."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dpcli.analysis.calibrate import Calibration
from dpcli.analysis.calibrate_file import solved_text
from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import InputError
from dpcli.file.keys.kinds import LIST_HINT, Number, WholeNumber
from dpcli.file.pipeline import series
from dpcli.file.pipeline.canonical import MechanismTable, tables_of
from dpcli.file.pipeline.key_places import json_schema
from dpcli.file.pipeline.read import parse, targets, toml_document
from dpcli.file.pipeline.section import MECHANISM_TYPES
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.write import value_text
from tests.command import dpcli

SEED = 0 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)
HEAD = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-5
"""
SHORT = (
    HEAD
    + """[defaults]
type = "gaussian"
sampling = { scheme = "poisson", rate = 0.004 }
[[mechanism]]
name = "stage"
noise_multiplier = [1.1, 1.2, 1.3]
steps = [1000, 500, 200]
[[mechanism]]
name = "last"
noise_multiplier = 2.0
steps = 1
sampling = { scheme = "poisson", rate = 0.01 }
"""
)
ENTRY = '[[mechanism]]\nname = "{}"\ntype = "gaussian"\nnoise_multiplier = {}\n{}sampling = {{ scheme = "poisson", rate = {} }}\n'
ENTRIES = (
    ("stage[1]", 1.1, "steps = 1000\n", 0.004),
    ("stage[2]", 1.2, "steps = 500\n", 0.004),
    ("stage[3]", 1.3, "steps = 200\n", 0.004),
    ("last", 2.0, "steps = 1\n", 0.01),
)
LONG = HEAD + "".join(ENTRY.format(*values) for values in ENTRIES)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text.encode(), "short.toml")
    return [f"{one.rule} {one.line}:{one.column} {one.key}: {one.message}" for one in caught.value.diagnostics]


def test_a_short_file_is_the_long_one(tmp_path: Path) -> None:
    short, long = parse(SHORT.encode(), "a"), parse(LONG.encode(), "a")
    assert short.mechanisms == long.mechanisms and tables_of(short) == tables_of(long)
    (tmp_path / "short.toml").write_text(SHORT)
    (tmp_path / "long.toml").write_text(LONG)
    for command in (["account"], ["calibrate-sigma"], ["lint"], ["diff", "long.toml"], ["diff", "short.toml"]):
        said = [dpcli(*command, name, folder=tmp_path) for name in ("short.toml", "long.toml")]
        assert said[0].code == said[1].code
        assert said[0].out.replace("short.toml", "long.toml") == said[1].out.replace("short.toml", "long.toml"), command


def _plain(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {value_text(value)}\n" for key, value in table.items())


def test_random_files_are_what_they_mean_written_out() -> None:
    """Random keys go into lists, into [defaults] or both; the long file says them entry by entry."""
    for part in range(12):
        short, long = short_and_long(random.Random(SEED + part))
        assert tables_of(parse(short.encode(), "a")) == tables_of(parse(long.encode(), "a")), SEED + part


def short_and_long(draw: random.Random) -> tuple[str, str]:
    """A file with lists and defaults, and the same written out."""
    defaults: dict[str, Any] = {}
    short, long = "", ""
    if shared := draw.random() < 0.7:
        defaults = {"type": "gaussian", "steps": draw.choice([7, [3, 4]]), "description": "as all"}
    for index in range(draw.randint(1, 4)):
        own: dict[str, Any] = {"name": f"e{index}"}
        if not shared or draw.random() < 0.5:
            own["type"] = "gaussian"
        length = 2 if isinstance(defaults.get("steps"), list) else draw.randint(1, 4)
        own["noise_multiplier"] = [round(draw.uniform(0.5, 5.0), 3) for _ in range(length)] if draw.random() < 0.7 else 1.5
        if draw.random() < 0.5:
            rates = [round(draw.random(), 3) for _ in range(length)]
            own["sampling"] = {"scheme": "poisson", "rate": rates if draw.random() < 0.5 else 0.25}
        short += "[[mechanism]]\n" + _plain(own)
        filled = {**defaults, **own}
        several = [*filled.values(), *filled.get("sampling", {}).values()]
        many = any(isinstance(value, list) for value in several)
        for position in range(length if many else 1):
            one = {key: value[position] if isinstance(value, list) else value for key, value in filled.items()}
            if "sampling" in one:
                one["sampling"] = {
                    key: value[position] if isinstance(value, list) else value for key, value in one["sampling"].items()
                }
            long += "[[mechanism]]\n" + _plain({**one, "name": f"e{index}[{position + 1}]" if many else f"e{index}"})
    return HEAD + ("[defaults]\n" + _plain(defaults) if defaults else "") + short, HEAD + long


def test_a_written_name_stands_for_all_of_its_entries() -> None:
    """In lists of names, and in [train]."""
    entry = '[[mechanism]]\nname = "{}"\ntype = "gaussian"\nnoise_multiplier = {}\n'
    group = '[[mechanism]]\nname = "all"\ntype = "composed"\nmechanisms = {}\n'
    train = '[train]\ntask = "loop"\nclipping = {{ norm = 1.0 }}\nmechanism = {}\n'
    short = HEAD + entry.format("a", "[1.0, 2.0]") + entry.format("b", 3.0)
    long = HEAD + entry.format("a[1]", 1.0) + entry.format("a[2]", 2.0) + entry.format("b", 3.0)
    for names, meant in (('["a", "b"]', '["a[1]", "a[2]", "b"]'), ('["b", "a[2]"]', '["b", "a[2]"]')):
        said = parse((short + group.format(names)).encode(), "a"), parse((long + group.format(meant)).encode(), "a")
        assert tables_of(said[0]) == tables_of(said[1])
        said = parse((short + train.format(names)).encode(), "a"), parse((long + train.format(meant)).encode(), "a")
        assert said[0].sections == said[1].sections
    alone = parse((short + train.format('"a"')).encode(), "a").sections[0][1]
    assert alone["mechanism"] == ["a[1]", "a[2]"]


@pytest.mark.parametrize("first", [False, True])
def test_the_name_of_an_entry_is_its_own_beside_lists_of_that_name(first: bool) -> None:
    """What is sampled as a group is the entry of that very name, and nothing that is dearer alone."""
    tables = [f'[[mechanism]]\nname = "a"\ntype = "gaussian"\nnoise_multiplier = {noise}\n' for noise in ("1.0", "[2.0, 3.0]")]
    group = '[[mechanism]]\nname = "all"\ntype = "composed"\nmechanisms = ["a"]\nsampling = { scheme = "poisson", rate = 0.01 }\n'
    found = parse((HEAD + "".join(tables[::-1] if first else tables) + group).encode(), "a").mechanisms
    assert sorted(entry.name for entry in found) == ["a", "a[1]", "a[2]", "all"]
    assert next(entry.spec for entry in found if entry.name == "all").mechanisms == ("a",)


def test_every_number_of_every_type_may_be_a_list() -> None:
    """None that is not a list already; lists that a type has of itself stay one value."""
    for name in MECHANISM_TYPES.registry:
        for key, member in MechanismTable().members(name).items():
            stated = HEAD + f'[[mechanism]]\nname = "x"\ntype = "{name}"\n{key} = [1, 2]\n'
            if key in ("name", "type"):
                continue
            count = len(toml_document(stated.encode(), "a")[1]["mechanism"])
            assert count == (2 if isinstance(member.kind, Number | WholeNumber) else 1), (name, key)


def test_the_line_is_the_one_that_is_written() -> None:
    assert problems(SHORT.replace("1.2,", "-1.2,")) == [
        'DP004 12:26 mechanism["stage[2]"].noise_multiplier: expected a number > 0, found -1.2'
    ]
    assert problems(SHORT.replace("rate = 0.004", "rate = 4")) == [
        f'DP004 9:34 mechanism["stage[{position}]"].sampling.rate: expected a number in [0, 1], found 4; 4 % is 0.04'
        for position in (1, 2, 3)
    ]
    assert problems(SHORT.replace("steps = [1000", "stepz = [1000"))[0].startswith('DP002 13:1 mechanism["stage[1]"].stepz')
    (said,) = problems(SHORT.replace("[1000, 500, 200]", "[]"))[1:]
    assert LIST_HINT in said and said.startswith("DP003 13:1")
    assert all(LIST_HINT in one for one in problems(SHORT.replace("500, 200]", "500]")))
    assert problems(SHORT.replace("[defaults]\n", "[defaults]\nepsilon = 1.0\nname = 'a'\n")) == [
        "DP002 8:1 defaults.epsilon: expected a key that a [[mechanism]] of this file takes, found 'epsilon'; did you mean 'local_epsilon'",
        "DP002 9:1 defaults.name: expected a key that a [[mechanism]] of this file takes, found 'name'",
    ]
    assert problems("defaults = 3\n" + SHORT.replace("[defaults]", "[other]"))[0].startswith("DP003 1:1 defaults: expected a table")


def test_what_is_wrong_in_one_place_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(SHORT.replace("rate = 0.004", "rate = 4"))
    for command in ("account", "lint"):
        said = dpcli(command, "wrong.toml", folder=tmp_path)
        both = said.out + said.err
        assert 'mechanism["stage[1]"].sampling.rate and 2 more: expected' in both and "stage[2]" not in both, both
    (tmp_path / "asks.toml").write_text(SHORT.replace("[1000, 500, 200]", "[500, 500, 500]"))
    said = dpcli("account", "asks.toml", folder=tmp_path)
    assert "DP120" not in said.out + said.err
    beside = '[[mechanism]]\nname = "{}"\nnoise_multiplier = 30.0\nsteps = 500\n'
    for name in ("norms", "norms[1]"):  # one that reads as many batches of the same rate, whatever it is called
        (tmp_path / "asks.toml").write_text(SHORT.replace("[1000, 500, 200]", "[500, 500, 500]") + beside.format(name))
        said = dpcli("lint", "asks.toml", folder=tmp_path)
        assert (said.out + said.err).count("DP120") == 1


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{series.MAX_ENTRIES:,}" in LIST_HINT
    many = HEAD + '[[mechanism]]\nname = "x"\ntype = "gaussian"\nnoise_multiplier = [{}]\n'
    assert LIST_HINT in problems(many.format(",".join(["1.5"] * (series.MAX_ENTRIES + 1))))[0]
    monkeypatch.setattr(series, "MAX_ENTRIES", 50)
    assert len(parse(many.format(",".join(["1.5"] * 50)).encode(), "a").mechanisms) == 50
    assert LIST_HINT in problems(many.format(",".join(["1.5"] * 51)))[0]


def test_what_is_solved_for_is_written_where_it_stands_or_not_at_all(tmp_path: Path) -> None:
    unsampled = re.sub("sampling = .*\n", "", SHORT)  # whose noise is solved for in no time
    (tmp_path / "open.toml").write_text(unsampled.replace("noise_multiplier = 2.0", 'noise_multiplier = "calibrate"'))
    solve = ("calibrate-sigma", "--target-epsilon", "1000", "--write", "solved.toml")
    assert dpcli(*solve, "open.toml", folder=tmp_path).code == 0
    text = (tmp_path / "solved.toml").read_text()
    assert text.startswith(unsampled.partition("noise_multiplier = 2.0")[0]) and "calibrate" not in text
    assert len(parse(text.encode(), "a").mechanisms) == 4
    (tmp_path / "solved.toml").unlink()
    listed = unsampled.replace("[1.1, 1.2, 1.3]", '[1.1, "calibrate", 1.3]')
    (tmp_path / "list.toml").write_text(listed)
    refused = dpcli(*solve, "list.toml", folder=tmp_path)
    assert refused.code == 2 and "expected mechanism[1].noise_multiplier[2] in the file" in refused.err
    assert not (tmp_path / "solved.toml").exists()


def test_the_solved_file_is_what_was_solved_or_there_is_none() -> None:
    """Whatever of it stands in [defaults], beside a list or in both: no other entry gets the answer, and none gets another's."""
    for part in range(60):
        solve_and_read_again(SEED + part)


def solve_and_read_again(seed: int) -> None:
    draw = random.Random(seed)
    stated = draw.choice(["6.0", '"calibrate"'])
    defaults = draw.choice(["", "steps = 3\n", f"sigma = {stated}\n", f"sigma = {stated}\nsensitivity = 2.0\n"])
    text = HEAD + (f'[defaults]\ntype = "gaussian"\n{defaults}' if defaults else "")
    for index in range(draw.randint(1, 3)):
        text += f'[[mechanism]]\nname = "e{index}"\n' + ("" if defaults else 'type = "gaussian"\n')
        text += f"sigma = {stated}\n" if "sigma" not in defaults or draw.random() < 0.4 else ""
        sensitivity = draw.choice(["1.0", "5.0", "[5.0, 1.0]", "[1.0, 5.0]", "[3.0, 3.0]"])
        text += f"sensitivity = {sensitivity}\n" if "sensitivity" not in defaults or draw.random() < 0.5 else ""
    pipeline, asked = parse(text.encode(), "a", substitute=1.0), targets(text.encode(), "a")
    chosen = asked or ((draw.choice(pipeline.mechanisms).name, "sigma"),)
    solved = substitute(pipeline, chosen, 2.5)
    answer = Calibration("noise", chosen, 1.0, 1e-5, 2.5, 1.0, "exact", None, None, True, solved)
    try:
        written = solved_text(text.encode(), answer)
    except InputError:  # somebody else reads what stands there
        assert "sigma" in defaults or "sensitivity = [" in text, seed
    else:
        assert parse(written.encode(), "a").mechanisms == solved.mechanisms, seed


def test_what_is_solved_for_in_a_query_is_written_into_no_mechanism() -> None:
    text = HEAD + (
        '[[mechanism]]\nname = "m"\ntype = "laplace"\nscale = 40.0\nsensitivity = 1.0\n'
        '[source]\npath = "a.csv"\n[source.columns]\nage = { type = "integer", min = 0, max = 9 }\n'
        '[[query]]\nname = "q"\nmeasure = "count"\nepsilon = 0.5\n'
    )
    pipeline = parse(text.encode(), "a")
    answer = Calibration("noise", (("q", "scale"),), 1.0, 1e-5, 2.5, 1.0, "exact", None, None, True, pipeline)
    with pytest.raises(InputError, match=r"the file has no \[\[mechanism\]\] named 'q'"):
        solved_text(text.encode(), answer)


def test_the_schema_takes_both() -> None:
    import tomli

    judge = Draft202012Validator(json_schema())
    for text in (SHORT, LONG):
        judge.validate(tomli.loads(text))
    assert not judge.is_valid(tomli.loads(LONG.replace('type = "gaussian"\n', "", 1)))
