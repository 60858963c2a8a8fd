"""Tests that no generated file, section or odd value makes a lint rule raise an error."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcli.lint.choices import CLIPPING_KEYS, LOG_KEYS, METRIC_KEYS, NAMES, RATE_KEYS, SCHEDULE_KEYS, SEED_KEYS, STOPPING_KEYS
from dpcli.lint.composition import SEARCHES
from dpcli.lint.run import lint, lint_bytes
from dpcli.lint.training_step import CLIP_PER_KEYS, DIVISOR_KEYS, MICROBATCH_KEYS, RESUME_KEYS, SKIP_KEYS
from tests.lint.toml_text import spelled

ADJACENCIES = st.sampled_from(["add-remove", "replace-one", "zero-out"])
SCHEMES = st.sampled_from(["poisson", "fixed-size", "balls-in-bins", "shuffle", "cyclic"])
SHARES = st.floats(min_value=0, max_value=1, exclude_min=True)
POSITIVE = st.floats(min_value=1e-300, max_value=1e300)
RUNS = st.one_of(
    st.builds("steps = {}".format, st.integers(1, 10**18)),
    st.builds("epochs = {!r}".format, st.floats(min_value=1e-3, max_value=1e6)),
)
SAMPLING = st.one_of(
    st.builds('sampling = {{ scheme = "{}", rate = {!r} }}'.format, SCHEMES, SHARES),
    st.just('sampling = { scheme = "poisson", rate = 0.0 }'),
)
BODIES = st.one_of(
    st.builds('type = "gaussian"\nnoise_multiplier = {!r}'.format, POSITIVE),
    st.builds('type = "laplace"\nscale = {!r}\nsensitivity = {!r}'.format, POSITIVE, POSITIVE),
    st.builds('type = "pure-dp"\nepsilon = {!r}'.format, st.floats(min_value=0, max_value=1e300)),
    st.builds('type = "pure-dp"\nepsilon = 1.0\nadjacency = "{}"'.format, ADJACENCIES),
)
PARTITIONS = st.sampled_from(["", 'partition = "region"', 'partition = { of = "region", part = "north" }'])
MECHANISMS = st.builds("{}\n{}\n{}\n{}\n".format, BODIES, RUNS, SAMPLING, PARTITIONS)
PRIVACY = st.builds(
    'adjacency = "{}"\n{}\n{}\n{}\n'.format,
    ADJACENCIES,
    st.sampled_from(["", 'unit = "example"', 'unit = "user"\nmax_contributions = 7']),
    st.sampled_from(["", 'releases = "outputs"', 'releases = "final-model"\nadaptive = true']),
    st.sampled_from(["", "dataset_size = 1\ndelta = 0.5", "delta = 1e-300", f"dataset_size = {10**18}\ndelta = 0.0"]),
)
TAILS = st.sampled_from(["", "[train]\nsweep = [1]\ncovers = 3\n", "[train]\ntuning = true\ncovers = { tuning = 'all' }\n"])


RARE = 'type = "gaussian"\nnoise_multiplier = 2.0\nepochs = 2.5\nsampling = { scheme = "poisson", rate = 1.2e-308 }\n'


@settings(max_examples=60, deadline=None)
@given(PRIVACY, st.lists(MECHANISMS, min_size=1, max_size=4), TAILS)
@example('adjacency = "add-remove"', [RARE], "")
def test_no_valid_file_makes_a_rule_raise(
    tmp_path_factory: pytest.TempPathFactory, privacy: str, mechanisms: list[str], tail: str
) -> None:
    tables = "".join(f'\n[[mechanism]]\nname = "m{index}"\n{body}' for index, body in enumerate(mechanisms))
    file = tmp_path_factory.getbasetemp() / "generated.toml"
    file.write_text(f"format = 1\n[privacy]\n{privacy}{tables}\n{tail}", encoding="utf-8")
    diagnostics = lint(str(file))
    assert not [d for d in diagnostics if d.rule < "DP100" and not d.key.startswith("train")]
    assert all(d.line > 0 and d.column > 0 for d in diagnostics)


GROUPS = (
    METRIC_KEYS,
    SEED_KEYS,
    LOG_KEYS,
    STOPPING_KEYS,
    SEARCHES,
    NAMES,
    CLIP_PER_KEYS,
    MICROBATCH_KEYS,
    DIVISOR_KEYS,
    RESUME_KEYS,
    SKIP_KEYS,
    CLIPPING_KEYS,
    RATE_KEYS,
    SCHEDULE_KEYS,
)
LAST = (
    "covers",
    "accountant",
    "validation",
    "norm",
    "layers",
    "noise_multiplier",
    "publish",
    "sampler",
    "on_empty_batch",
    "disable_dp",
)
KNOWN = sorted({*LAST, *(key for group in GROUPS for key in group)})
ODD = [
    "[1]",
    "[[1]]",
    "[{ a = 1 }]",
    "{}",
    "{ a = { b = [] } }",
    "nan",
    "-inf",
    "1979-05-27T07:32:00Z",
    "''",
    "'len('",
    "true",
    "0",
    "[]",
]
KEYS = st.one_of(st.sampled_from(KNOWN), st.text("ab-_ \u00e9", min_size=1, max_size=5))
TYPED = st.characters(exclude_categories=("Cs", "Cc"))
SCALARS = st.one_of(
    st.booleans(), st.integers(-9, 9), st.floats(), st.text(TYPED, max_size=8), st.just("data-dependent"), st.just("len(x)")
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)

SECTIONS = ("train", "pate", "pmixed", "prompt", "generate", "federated", "audit")
ASKED = """\
format = 1
privacy = { adjacency = "add-remove", releases = "outputs" }
mechanism = [{ name = "it", type = "pure-dp", epsilon = 1.0 }]
"""


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, max_size=6),
    st.sampled_from(SECTIONS),
    st.randoms(use_true_random=False),
)
def test_no_section_makes_a_rule_raise(section: dict[str, object], name: str, random: Random) -> None:
    """Whatever stands in a section that no command has read yet, the rules look at it and judge, or pass over it."""
    diagnostics = lint_bytes((ASKED + spelled(random, {name: section})).encode(), "generated.toml")
    assert not [d for d in diagnostics if d.rule < "DP100" and d.rule != "DP001" and not d.key.startswith(name)], diagnostics
    assert [d for d in diagnostics if d.rule < "DP100"] or (name == "audit" and not section), diagnostics
    assert all(d.line > 0 and d.column > 0 for d in diagnostics)


ODDITIES = [(key, value, SECTIONS[(place + at) % len(SECTIONS)]) for place, key in enumerate(KNOWN) for at, value in enumerate(ODD)]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(ODDITIES[::5], id="each key and each value"),
        pytest.param(ODDITIES, id="each value of each key", marks=pytest.mark.long),
        *(
            pytest.param([(key, value, name) for key, value, _ in ODDITIES], id=name, marks=pytest.mark.nightly)
            for name in SECTIONS
        ),
    ],
)
def test_no_odd_value_makes_a_rule_raise(cases: list[tuple[str, str, str]]) -> None:
    for key, value, section in cases:
        diagnostics = lint_bytes(f"{ASKED}[{section}]\n{key} = {value}\n".encode(), "generated.toml")
        assert not [d for d in diagnostics if d.rule < "DP100" and not d.key.startswith(section)], (key, value, section)
        assert [d for d in diagnostics if d.rule < "DP100"], (key, value, section)
