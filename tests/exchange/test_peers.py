"""Tests of flags, configs and budgets of four libraries: the same numbers, refusals by name, and an exported Session."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import InputError
from dpcli.exchange.commands.importing import SUBCOMMANDS
from dpcli.exchange.foreign import Asserted, read_text
from dpcli.exchange.jax_privacy import file_of_config
from dpcli.exchange.opendp import file_of_accountant
from dpcli.exchange.tf_privacy import file_of_flags
from dpcli.exchange.tumult import file_of_session, session_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.mechanisms.stated.renyi import ZcdpSpec
from tests.cases import of_each
from tests.command import dpcli as command
from tests.command import dpcli as run
from tests.exchange.peers import VECTORS

USER = Asserted(unit="user", delta=1e-6)
NONE = Asserted()


def flags(words: list[str], asserted: Asserted = NONE, sampling: str = "poisson", ignored: tuple[str, ...] = ()) -> Pipeline:
    return read_text(file_of_flags("\n".join(words).encode(), asserted, sampling, ignored, "f"), "f")


def config(fields: Any, asserted: Asserted = NONE, sampling: str = "poisson", ignored: tuple[str, ...] = ()) -> Pipeline:
    """Of Poisson samples, also where fit() was given them."""
    stated = (*ignored, "poisson_sampling_in_fit") if fields.get("poisson_sampling_in_fit") is False else ignored
    return read_text(file_of_config(json.dumps(fields).encode(), asserted, sampling, stated, "f"), "f")


def accountant(document: Any, asserted: Asserted = USER, ignored: tuple[str, ...] = ()) -> Pipeline:
    return read_text(file_of_accountant(json.dumps(document).encode(), asserted, ignored, "f"), "f")


def session(document: Any, asserted: Asserted = USER, ignored: tuple[str, ...] = ()) -> Pipeline:
    return read_text(file_of_session(json.dumps(document).encode(), asserted, ignored, "f"), "f")


READERS: dict[str, tuple[Callable[..., Pipeline], str]] = {
    "jax_privacy": (config, "config"),
    "opendp": (accountant, "accountant"),
    "tumult": (session, "session"),
}


@pytest.mark.long
@of_each("case", VECTORS["tf_privacy"])
@of_each("sampling", ["poisson", "shuffle"])
def test_flags_cost_what_the_program_says(case: dict[str, Any], sampling: str) -> None:
    """Its PLD accountant to its grid of 1e-4, each step rounded up; its RDP accountant is above us."""
    ours = dpcli.account(flags(case["flags"], sampling=sampling))
    pld, rdp = (case["epsilon"][kind][sampling] for kind in ("PLD", "RDP"))
    assert (ours.lower or 0.0) * (1.0 - 1e-6) <= pld <= ours.upper * 1.002 + 2e-3
    assert (ours.upper - 1e-4) * (1.0 - 1e-4) <= pld
    assert ours.upper <= rdp <= 1.2 * ours.upper + 1.0


@pytest.mark.long
@of_each("case", VECTORS["jax_privacy"])
def test_a_configuration_costs_what_its_accountant_says_or_more(case: dict[str, Any]) -> None:
    """The same where batches are not accumulated. Where they are, it counts one sample of all of them; they are drawn one by one."""
    ours = dpcli.account(config(case["config"]))
    asked = case["epsilon"]  # on a grid of 1e-3, each step rounded up
    assert asked <= ours.upper * 1.01 + 0.02
    if case["config"]["gradient_accumulation_steps"] == 1:
        assert (ours.upper - 1e-3) * (1.0 - 1e-3) <= asked


@of_each("case", VECTORS["opendp"])
def test_an_accountant_may_spend_what_it_maps_d_in_to(case: dict[str, Any]) -> None:
    """Entries together: the sum that opendp says, of epsilons, of deltas, or of rhos, for a whole unit however many records it has."""
    found = accountant(case["accountant"])
    specs: list[Any] = [entry.spec for entry in found.mechanisms]
    assert all(spec.stated_for == "unit" for spec in specs)
    loss = case["loss"] if isinstance(case["loss"], list) else [case["loss"], 0.0]
    if "Concentrated" in case["measure"]:
        assert sum(spec.rho for spec in specs) == pytest.approx(loss[0], rel=1e-12)
        return
    assert sum(spec.epsilon for spec in specs) == pytest.approx(loss[0], rel=1e-12)
    assert sum(getattr(spec, "delta", 0.0) for spec in specs) == pytest.approx(loss[1], abs=1e-18)
    assert dpcli.account(found, ["basic"]).upper == pytest.approx(loss[0], rel=1e-9)


def test_whom_an_accountant_protects() -> None:
    found = {
        (made.privacy.adjacency.value, made.privacy.max_contributions)
        for made in (accountant(c["accountant"]) for c in VECTORS["opendp"])
    }
    assert found == {("add-remove", 1), ("add-remove", 3), ("add-remove", 2), ("replace-one", 1), ("replace-one", 4)}


@of_each("case", VECTORS["tumult"])
def test_a_session_has_one_guarantee_for_a_whole_unit(case: dict[str, Any]) -> None:
    found = session(case["session"])
    budget = {key: value for key, value in case["session"]["privacy_budget"].items() if key != "type"}
    (entry,) = found.mechanisms
    assert (entry.spec.stated_for, found.privacy.max_contributions) == ("unit", case["contributions"])  # type: ignore[attr-defined]
    assert {key: value for key, value in budget.items() if value != 0} == {
        key: getattr(entry.spec, key) for key in budget if hasattr(entry.spec, key)
    }
    if "rho" not in budget:
        assert dpcli.account(found, ["basic"]).upper == pytest.approx(budget["epsilon"], rel=1e-9)


def tables(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where tables of fields are in a document; what holds tables by their names is none."""
    if isinstance(value, dict):
        if path[-1:] != ("protected_changes",):
            yield path
        for key, inner in value.items():
            yield from tables(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from tables(inner, (*path, place))


# opendp's own domain says what the data look like, and neither whom the accountant protects nor how far.
UNREAD = ("input_domain",)
EACH = [
    (library, path)
    for library, (_, key) in READERS.items()
    for path in {p: None for case in VECTORS[library][::3] for p in tables(case[key]) if not set(UNREAD) & set(p)}
]


def changed(library: str, path: tuple[str | int, ...], change: Callable[[Any], None]) -> Any:
    """The first vector of a library that has such a table, with that table changed."""
    key = READERS[library][1]
    document = copy.deepcopy(next(case[key] for case in VECTORS[library][::3] if path in set(tables(case[key]))))
    inner = document
    for part in path:
        inner = inner[part]
    change(inner)
    return document


@of_each("library, path", EACH)
def test_a_field_that_nobody_knows_is_refused_wherever_it_is(library: str, path: tuple[str | int, ...]) -> None:
    """Unless it is ignored; the two numbers of a loss have no fields."""
    reader, key = READERS[library]
    document = changed(library, path, lambda table: table.update(unheard_of=1))
    with pytest.raises(InputError, match=r"unheard_of|expected a loss"):
        reader(document)
    if path[-2:-1] != ("d_mids",) and path[-1:] != ("d_out",):
        original = next(case[key] for case in VECTORS[library][::3] if path in set(tables(case[key])))
        assert reader(document, ignored=("unheard_of",)).mechanisms == reader(original).mechanisms


@of_each("library, path", EACH)
def test_a_field_that_is_missing_is_asked_for_or_has_a_default_of_the_library(library: str, path: tuple[str | int, ...]) -> None:
    """Of every field: without it the file is refused, or it says the same as with it."""
    reader, key = READERS[library]
    original = next(case[key] for case in VECTORS[library][::3] if path in set(tables(case[key])))
    expected = reader(original)
    inner = original
    for part in path:
        inner = inner[part]
    for field in inner:
        try:
            found = reader(changed(library, path, lambda table, field=field: table.pop(field)))  # type: ignore[misc]
        except (InputError, InvalidFile):
            continue
        assert (found.privacy, found.mechanisms) == (expected.privacy, expected.mechanisms)


BAD = [None, True, "1.0", [], {}, -1, math.nan, math.inf, 10**400, 1e301]
NUMBERS = {
    "jax_privacy": [
        ("epsilon",),
        ("delta",),
        ("batch_size",),
        ("gradient_accumulation_steps",),
        ("train_steps",),
        ("train_size",),
        ("noise_multiplier",),
    ],
    "opendp": [
        ("__kwargs__", "d_in"),
        ("__kwargs__", "d_mids"),
        ("__kwargs__", "d_mids", 0),
        ("__function__",),
        ("__kwargs__", "output_measure"),
    ],
    "tumult": [
        ("privacy_budget", "epsilon"),
        ("privacy_budget", "type"),
        ("protected_changes",),
        ("protected_changes", "a", "max_rows"),
    ],
}


@of_each("value", BAD)
@of_each("library, path", [(library, path) for library, paths in NUMBERS.items() for path in paths])
def test_what_is_no_such_number_is_refused(library: str, path: tuple[Any, ...], value: Any) -> None:
    reader, key = READERS[library]
    document = changed(library, path[:-1], lambda table: None) if library != "opendp" else copy.deepcopy(VECTORS["opendp"][0][key])
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    with pytest.raises((InputError, InvalidFile)):
        reader(document)


FLAGS = ["--N=60000", "--batch_size=256", "--noise_multiplier=1.12", "--epochs=60"]


@of_each(
    "words",
    [
        [*FLAGS, "--noused_microbatching"],
        ["--N", "60000", "--batch_size", "256", "--noise_multiplier", "1.12", "--epochs", "60.0", "--used_microbatching=false"],
        ["-N=60000", *FLAGS[1:], "--used_microbatching=0", "--accountant_type=PLD"],
        ["# what we ran", "python -m a.b.compute_dp_sgd_privacy \\", " ".join(FLAGS), "--noused_microbatching", "// the end"],
        ["python compute_dp_sgd_privacy.py", *FLAGS, "--noused_microbatching", "--delta", "1e-6"],
    ],
)
def test_forms_of_the_same_flags(words: list[str]) -> None:
    found, expected = flags(words), flags([*FLAGS, "--noused_microbatching", "--delta=1e-6"])
    assert (found.privacy, found.mechanisms) == (expected.privacy, expected.mechanisms)


@of_each("said", [[], ["--used_microbatching"], ["--used_microbatching=true"]])
def test_microbatches_halve_the_noise_unless_the_flags_say_none(said: list[str]) -> None:
    (entry,) = flags([*FLAGS, *said]).mechanisms
    assert entry.spec.noise_multiplier == 0.56  # type: ignore[attr-defined]


@of_each(
    "words",
    [
        [],
        FLAGS[1:],
        [*FLAGS, "--N=60000"],
        [*FLAGS, "--used_microbatching", "--noused_microbatching"],
        [*FLAGS, "--used_microbatching=maybe"],
        [*FLAGS, "--accountant_type=GDP"],
        [*FLAGS, "--flagfile=more"],
        [*FLAGS, "--learning_rate=0.1"],
        [*FLAGS, "60"],
        [*FLAGS, "--delta"],
        [*FLAGS, "--"],
        ["rm", "-rf", "/", *FLAGS],
        ["--N=6e4", *FLAGS[1:]],
        [*FLAGS[:3], "--epochs=nan"],
        [*FLAGS[:2], "--noise_multiplier=inf", FLAGS[3]],
        [*FLAGS[:2], "--noise_multiplier=0", FLAGS[3]],
        [FLAGS[0], "--batch_size=60001", *FLAGS[2:]],
        [*FLAGS, "'"],
    ],
)
def test_flags_that_are_refused(words: list[str]) -> None:
    with pytest.raises((InputError, InvalidFile)):
        flags(words)


def test_a_bound_on_a_user_protects_users() -> None:
    found = flags([*FLAGS, "--max_examples_per_user=5"]).privacy
    assert (found.unit, found.max_contributions) == ("user", 5)
    example = flags([*FLAGS, "--max_examples_per_user=5"], Asserted(unit="example")).privacy
    assert (example.unit, example.max_contributions) == ("example", None)


@of_each("stated", [Asserted(delta=1e-9), Asserted(dataset_size=1), Asserted(max_contributions=2, unit="user")])
def test_flags_and_file_do_not_contradict_each_other(stated: Asserted) -> None:
    with pytest.raises(InputError, match="contradicts the file, which states"):
        flags([*FLAGS, "--delta=1e-5", "--max_examples_per_user=5"], stated)


def test_a_delta_that_is_no_number_is_refused() -> None:
    document = {"privacy_budget": {"type": "PureDPBudget", "epsilon": 1.0}, "protected_changes": {"t": {"type": "AddOneRow"}}}
    with pytest.raises(InputError, match="found nan"):
        session(document, Asserted(delta=math.nan))


@of_each("stated", [Asserted(adjacency="replace-one"), Asserted(max_contributions=1, unit="user")])
def test_a_stated_guarantee_keeps_whom_it_protects(stated: Asserted) -> None:
    document = {
        "privacy_budget": {"type": "PureDPBudget", "epsilon": 1},
        "protected_changes": {"a": {"type": "AddMaxRows", "max_rows": 2}},
    }
    with pytest.raises(InputError, match="contradicts the file, which states"):
        session(document, stated)
    with pytest.raises(InputError, match="contradicts the file, which states"):
        accountant(VECTORS["opendp"][4]["accountant"], stated)


def test_noise_that_is_calibrated_later_or_known_is_refused() -> None:
    fields = VECTORS["jax_privacy"][0]["config"]
    with pytest.raises(InputError, match="update_with_calibrated_noise_multiplier"):
        config({**fields, "noise_multiplier": None})
    with pytest.raises(InputError, match="whoever knows it knows the noise"):
        config({**fields, "seed": 0})
    assert config({**fields, "seed": 0}, ignored=("seed",)) == config(fields)


def test_accumulated_batches_are_steps_with_their_part_of_the_noise() -> None:
    fields = {**VECTORS["jax_privacy"][0]["config"], "gradient_accumulation_steps": 4, "noise_multiplier": 3.0, "train_steps": 10}
    (entry,) = config(fields).mechanisms
    noise = entry.spec.noise_multiplier  # type: ignore[attr-defined]
    assert entry.steps == 40 and 1.5 * (1.0 - 1e-15) <= noise <= 1.5


def test_how_batches_were_drawn_is_not_contradicted() -> None:
    fields = VECTORS["jax_privacy"][0]["config"]
    with pytest.raises(InputError, match="--sampling poisson"):
        config({**fields, "poisson_sampling_in_fit": True}, sampling="shuffle")
    data = json.dumps({**fields, "poisson_sampling_in_fit": False}).encode()
    with pytest.raises(InputError, match="use --ignore poisson_sampling_in_fit if the given batches were Poisson samples"):
        file_of_config(data, NONE, "poisson", (), "f")
    for sampling, ignored in (("shuffle", ()), ("poisson", ("poisson_sampling_in_fit",))):
        assert f'scheme = "{sampling}"' in file_of_config(data, NONE, sampling, ignored, "f")


@of_each("field", sorted(VECTORS["jax_privacy"][0]["config"]))
def test_what_a_configuration_does_not_say_is_not_taken_for_nothing(field: str) -> None:
    """null, of every field: refused, but for the two that have no value where they are not used."""
    fields = {**VECTORS["jax_privacy"][0]["config"], field: None}
    if field in ("seed", "microbatch_size"):
        assert config(fields).mechanisms
        return
    with pytest.raises((InputError, InvalidFile)):
        config(fields)


@of_each("bound", [0, -1.0, math.inf, math.nan, "1", True, []])
def test_gradients_are_clipped(bound: Any) -> None:
    with pytest.raises(InputError, match="clipping_norm"):
        config({**VECTORS["jax_privacy"][0]["config"], "clipping_norm": bound})


OTHER = {"__function__": "make_laplace", "__module__": "measurements", "__kwargs__": {"scale": 1.0}, "__version__": "0.16.0"}
GROUPS = {"type": "AddMaxRowsInMaxGroups", "grouping_column": "c", "max_groups": 2, "max_rows_per_group": 2}


def test_what_has_no_words_in_a_file_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="make_laplace, which has no budget"):
        accountant(OTHER)
    call = VECTORS["opendp"][0]["accountant"]
    for field, name in (("input_metric", "l1_distance"), ("output_measure", "renyi_divergence")):
        inner = {**call["__kwargs__"], field: {"__function__": name, "__module__": "m", "__kwargs__": {}}}
        with pytest.raises(InputError, match=name):
            accountant({**call, "__kwargs__": inner})
    budget = {"type": "PureDPBudget", "epsilon": 1}
    with pytest.raises(InputError, match="bound the groups"):
        session({"privacy_budget": budget, "protected_changes": {"a": GROUPS}})
    both = {"a": {"type": "AddOneRow"}, "b": {"type": "AddRowsWithID", "id_column": "user"}}
    for changes, found in ((both, "both"), ({}, "none")):
        with pytest.raises(InputError, match=f"found {found}"):
            session({"privacy_budget": budget, "protected_changes": changes})


def test_zcdp_that_may_fail_keeps_its_delta() -> None:
    call = next(case["accountant"] for case in VECTORS["opendp"] if "Concentrated" in case["measure"])
    inner = {
        **call["__kwargs__"],
        "d_mids": [{"__tuple__": [0.1, 1e-9]}],
        "output_measure": {
            "__function__": "approximate",
            "__kwargs__": {"measure": call["__kwargs__"]["output_measure"]},
            "__module__": "measures",
        },
    }
    spec = accountant({**call, "__kwargs__": inner}).mechanisms[0].spec
    assert isinstance(spec, ZcdpSpec) and (spec.rho, spec.xi, spec.delta) == (0.1, 0.0, 1e-9)


NEEDS_SAMPLING = {"tf-privacy": ["--sampling", "poisson"], "jax-privacy": ["--sampling", "poisson"]}
NAMES = ["tf-privacy", "jax-privacy", "opendp", "tumult"]


@of_each("name", NAMES)
@of_each("text", [b"", b"\xff\xfe", b"[1]", b"{", b'{"a": 1, "a": 2}', b"[" * 100_000, b"'"])
def test_refused_in_one_line(name: str, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    done = run("import", name, str(path), *NEEDS_SAMPLING.get(name, []))
    assert (done.code, done.out) == (2, "")
    assert len(done.err.strip().splitlines()) == 1 and str(path) in done.err


def test_each_is_a_command(tmp_path: Path) -> None:
    assert set(NAMES) < set(SUBCOMMANDS)
    for name in NAMES:
        library = name.replace("-", "_")
        case = VECTORS[library][0]
        path = tmp_path / "a.json"
        path.write_text("\n".join(case["flags"]) if library == "tf_privacy" else json.dumps(case[READERS[library][1]]))
        done = run(
            "import",
            name,
            str(path),
            *NEEDS_SAMPLING.get(name, []),
            "--unit",
            "user" if library in ("opendp", "tumult") else "example",
        )
        assert done.code == 0, done.err
        assert read_text(done.out, "made.toml").mechanisms


HEAD = """\
format = 1
privacy = { adjacency = "add-remove", unit = "user", max_contributions = 3, releases = "outputs", delta = 1e-6 }
"""
PURE = HEAD + '[[mechanism]]\nname = "it"\ntype = "pure-dp"\nepsilon = 0.7\nstated_for = "unit"\n'


def again(text: str) -> Pipeline:
    return parse(file_of_session(text.encode(), Asserted(unit="user"), (), "session.json").encode(), "it.toml")


def test_tables_whose_long_names_begin_alike_are_counted_each() -> None:
    tables = {f"{'a' * 80}{end}": {"type": "AddMaxRows", "max_rows": 3} for end in "xy"}
    document = {"privacy_budget": {"type": "PureDPBudget", "epsilon": 1.0}, "protected_changes": tables}
    assert session(document).privacy.max_contributions == 6


@of_each("case", VECTORS["tumult"])
def test_every_session_comes_back(case: dict[str, Any]) -> None:
    """Its tables are one, as the file does not say which; whom it protects and what it may spend are the same."""
    first = again(json.dumps(case["session"]))
    second = again(session_of(first, "data"))
    assert second.mechanisms[0].spec == first.mechanisms[0].spec
    assert second.privacy.max_contributions == first.privacy.max_contributions
    assert dpcli.account(second, delta=1e-6).upper == dpcli.account(first, delta=1e-6).upper


REFUSED = [
    ('"add-remove"', '"replace-one"', "expected add-remove, found replace-one"),
    (
        'type = "pure-dp"\nepsilon = 0.7\nstated_for = "unit"',
        'type = "laplace"\nscale = 1.0\nsensitivity = 1.0',
        "its type is laplace",
    ),
    ('"pure-dp"\nepsilon = 0.7\nstated_for = "unit"', '"post-processing"', "found 0"),
    ("epsilon = 0.7", "epsilon = 0.7\nsteps = 2", "runs more than once"),
    ("epsilon = 0.7", 'epsilon = 0.7\nsampling = { scheme = "poisson", rate = 0.1 }\nsteps = 1', "it is sampled"),
    ("epsilon = 0.7", 'epsilon = 0.7\npartition = "region"', "partition"),
    ('"unit"\n', '"record"\n', "stated for a record"),
    ("delta = 1e-6", "delta = 1e-6, adaptive = true", "expected adaptive = false"),
    ("epsilon = 0.7", 'epsilon = 0.7\nadjacency = "zero-out"', "stated under zero-out"),
    ('"pure-dp"\nepsilon = 0.7', '"zcdp"\nrho = 0.1\ndelta = 1e-9', "it states delta = 1e-09"),
    ('"pure-dp"\nepsilon = 0.7', '"zcdp"\nrho = 0.1\nxi = 0.5', "it states xi = 0.5"),
    ("[[mechanism]]", '[[mechanism]]\nname = "b"\ntype = "zcdp"\nrho = 0.1\nstated_for = "unit"\n[[mechanism]]', "found 2"),
]


@of_each("old, new, why", REFUSED)
def test_what_a_session_cannot_say_is_refused(old: str, new: str, why: str) -> None:
    assert PURE.count(old) == 1
    with pytest.raises(InputError, match=why):
        session_of(parse(PURE.replace(old, new).encode(), "it.toml"), "data")


def test_the_command_writes_what_the_other_reads(tmp_path: Any) -> None:
    (tmp_path / "it.toml").write_text(PURE)
    result = command("export", "tumult", "it.toml", "--table", "visits", folder=tmp_path)
    assert json.loads(result.out) == {
        "privacy_budget": {"type": "PureDPBudget", "epsilon": 0.7},
        "protected_changes": {"visits": {"type": "AddMaxRows", "max_rows": 3}},
    }
