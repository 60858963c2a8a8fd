from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.lint.run import lint

ADJACENCIES = st.sampled_from(["add-remove", "replace-one", "zero-out"])
SCHEMES = st.sampled_from(["poisson", "fixed-size", "balls-in-bins", "shuffle", "cyclic"])
RATES = st.floats(min_value=0, max_value=1, exclude_min=True)
POSITIVE = st.floats(min_value=1e-300, max_value=1e300)
RUNS = st.one_of(
    st.builds("steps = {}".format, st.integers(1, 10**18)),
    st.builds("epochs = {!r}".format, st.floats(min_value=1e-3, max_value=1e6)),
)
SAMPLING = st.one_of(
    st.builds('sampling = {{ scheme = "{}", rate = {!r} }}'.format, SCHEMES, RATES),
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


@settings(max_examples=60, deadline=None)
@given(PRIVACY, st.lists(MECHANISMS, min_size=1, max_size=4), TAILS)
def test_no_valid_file_makes_a_rule_raise(
    tmp_path_factory: pytest.TempPathFactory, privacy: str, mechanisms: list[str], tail: str
) -> None:
    tables = "".join(f'\n[[mechanism]]\nname = "m{index}"\n{body}' for index, body in enumerate(mechanisms))
    file = tmp_path_factory.getbasetemp() / "generated.toml"
    file.write_text(f"format = 1\n[privacy]\n{privacy}{tables}\n{tail}", encoding="utf-8")
    diagnostics = lint(str(file))
    assert not [d for d in diagnostics if d.rule < "DP100"]
    assert all(d.line > 0 and d.column > 0 for d in diagnostics)
