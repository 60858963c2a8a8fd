"""The numbers in charts (plots/): every kind against the accountants that it draws."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError, InternalError
from dpcli.base.registry import PLOTS
from dpcli.document.chart import Axis, Chart, Line, Tone, log_span
from dpcli.file.pipeline.read import load
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon
from dpcli.plots.drawing import draw
from dpcli.plots.epsilon_over import _error_bars
from dpcli.plots.epsilons import Epsilon, EpsilonCurve, Question
from tests.cases import of_each
from tests.command import ROOT
from tests.plots.samples import GAUSSIAN, HEAD, NO_COST, NO_NOISE, PURE, TWO, pipeline, text

MU = math.sqrt(10.0) / 2.0  # of GAUSSIAN: ten steps with noise multiplier 2


def chart(kind: str, data: bytes = GAUSSIAN, **options: object) -> Chart:
    return draw(kind, Question(pipeline(data), **options))  # type: ignore[arg-type]


@of_each("kind", PLOTS)
def test_every_kind_says_what_its_epsilon_depends_on(kind: str) -> None:
    found = chart(kind)
    assert found.kind == kind
    assert found.subtitle.startswith("sample")
    for words in ("per user", "add-remove", "delta = 1e-05", "sampling: none"):
        assert words in found.subtitle
    assert found.title and found.notes and found.x.title and found.y.title
    assert len(list(found.places())) >= 2


@of_each("kind", PLOTS)
def test_every_point_is_within_the_axes(kind: str) -> None:
    found = chart(kind)
    for x, y in found.places():
        assert -1e-9 <= found.x.share(x) <= 1.0 + 1e-9
        assert -1e-9 <= found.y.share(y) <= 1.0 + 1e-9


def test_epsilon_by_steps_is_the_analytic_gaussian() -> None:
    found = chart("epsilon-steps")
    (line,) = found.lines
    assert (found.x.label, found.y.label, found.x.scale) == ("steps", "epsilon", "log")
    assert [x for x, _ in line.points] == sorted(x for x, _ in line.points)
    for steps, epsilon in line.points:
        low, high = gaussian_epsilon(math.sqrt(steps) / 2.0, 1e-5)
        assert low * (1.0 - 1e-12) <= epsilon <= high * 1.002  # the picture stops asking once both sides are that close
    assert [y for _, y in line.points] == sorted(y for _, y in line.points)
    assert found.markers[0].x == 10.0
    assert found.markers[0].label.startswith("this file: steps 10, epsilon <= ")


def test_epsilon_by_noise_falls() -> None:
    found = chart("epsilon-sigma")
    (line,) = found.lines
    assert found.x.label == "noise multiplier"
    assert 2.0 in [x for x, _ in line.points]
    assert [y for _, y in line.points] == sorted((y for _, y in line.points), reverse=True)
    for multiplier, epsilon in line.points:
        assert epsilon >= gaussian_epsilon(math.sqrt(10.0) / multiplier, 1e-5)[0] * (1.0 - 1e-12)


def test_profile_points_are_guarantees_and_the_band_holds_the_headline() -> None:
    found = chart("delta-epsilon")
    (line,), (band,), (marker,) = found.lines, found.bands, found.markers
    headline = account(pipeline(GAUSSIAN))
    assert (marker.x, marker.y) == (headline.upper, 1e-5)
    for epsilon, delta in line.points:
        assert gaussian_delta(MU, epsilon)[0] <= delta * (1.0 + 1e-9)
    ((lower, _),) = [point for point in band.lower if point[1] == 1e-5]
    ((upper, _),) = [point for point in band.upper if point[1] == 1e-5]
    assert headline.lower is not None
    assert lower <= headline.upper <= upper * (1.0 + 1e-9)
    assert all(low[0] <= high[0] for low, high in zip(band.lower, band.upper, strict=True))


def test_trade_off_is_below_the_true_curve_and_above_the_headline_alone() -> None:
    from dpcli.numerics.closed.normal import gaussian_delta as delta_of

    found = chart("trade-off")
    curve, single, none = found.lines
    assert curve.points[0][0] == 0.0 and curve.points[-1][0] == 1.0
    for alpha, beta in curve.points:
        # No test of a Gaussian does better: every (epsilon, delta(epsilon)) pair bounds beta, and the curve drawn is one of a few pairs.
        true = max(1.0 - delta_of(MU, e / 50.0)[0] - math.exp(e / 50.0) * alpha for e in range(400))
        mirrored = max(math.exp(-e / 50.0) * (1.0 - delta_of(MU, e / 50.0)[0] - alpha) for e in range(400))
        assert beta <= max(true, mirrored, 0.0) + 2e-3
    falls = [(b - d) / (c - a) for (a, b), (c, d) in pairwise(curve.points) if c > a]
    assert all(left >= right - 1e-9 for left, right in pairwise(falls))  # convex
    assert all(beta <= 1.0 - alpha + 1e-12 for alpha, beta in curve.points)
    heights = np.interp([x for x, _ in single.points], *zip(*curve.points, strict=True))
    assert all(height >= y - 1e-9 for height, (_, y) in zip(heights, single.points, strict=True))
    assert single.dashed and single.label.startswith("epsilon <= ")
    assert none.points == ((0.0, 1.0), (1.0, 0.0))
    assert any("none below" in note or "no test is below it" in note for note in found.notes)


def test_renyi_curve_of_a_gaussian_is_a_line_and_its_best_order_is_marked() -> None:
    found = chart("rdp")
    converted, divergence = found.lines
    assert found.y.unit == "nats"
    for order, value in divergence.points:
        assert value == pytest.approx(order * MU**2 / 2.0, rel=1e-12)
    (marker,) = found.markers
    assert marker.y == min([marker.y, *(y for _, y in converted.points)])
    assert marker.y == account(pipeline(GAUSSIAN), ["rdp"]).upper


def test_bars_are_the_rows_of_the_table() -> None:
    found = chart("accountants")
    rows = {row.accountant.name: row.upper for row in account(pipeline(GAUSSIAN)).rows if row.bound is not None}
    assert {bar.name: bar.value for bar in found.bars} == rows
    assert [bar.value for bar in found.bars] == [*sorted(v for name, v in rows.items() if name != "gdp"), rows["gdp"]]
    assert [bar.name for bar in found.bars if bar.label.startswith("~ ")] == ["gdp"]
    assert all(float(bar.label.removeprefix("~ ")) >= bar.value for bar in found.bars)
    assert found.y.categories == tuple(bar.name for bar in reversed(found.bars))
    silent = " ".join(found.notes)
    assert all(row.accountant.name in rows or row.accountant.name in silent for row in account(pipeline(GAUSSIAN)).rows)


def test_each_named_accountant_has_its_own_line() -> None:
    found = chart("epsilon-steps", accountants=("analytic", "rdp"))
    assert [line.label for line in found.lines] == ["analytic", "rdp"]
    exact, rdp = (dict(line.points) for line in found.lines)
    assert all(exact[x] <= rdp[x] for x in exact)


@pytest.mark.long
def test_pure_guarantees_can_be_drawn() -> None:
    for kind in ("epsilon-steps", "delta-epsilon", "trade-off", "accountants"):
        assert chart(kind, PURE).lines or chart(kind, PURE).bars
    with pytest.raises(InputError, match="expected one mechanism whose noise can be varied, found none"):
        chart("epsilon-sigma", PURE)


@of_each("kind", PLOTS)
def test_no_finite_epsilon_is_no_picture(kind: str) -> None:
    with pytest.raises(CannotCertify, match="nothing to draw"):
        chart(kind, NO_NOISE)


def test_nothing_spent_is_said() -> None:
    with pytest.raises(InputError, match="expected one mechanism whose steps can be varied, found none"):
        chart("epsilon-steps", NO_COST)
    with pytest.raises(InputError, match="epsilon is 0 at delta = 1e-05 for all values of steps"):
        chart("epsilon-steps", text('type = "gaussian"\nnoise_multiplier = 1e300'))
    assert chart("accountants", NO_COST).bars[0].value == 0.0


def test_several_mechanisms_need_a_name() -> None:
    with pytest.raises(InputError, match=r"found m, other: name one \(--mechanism NAME\)"):
        chart("epsilon-sigma", TWO)
    with pytest.raises(InputError, match=r"--mechanism: expected a mechanism with noise to vary \(m, other\), found 'x'"):
        chart("epsilon-sigma", TWO, mechanism="x")
    with pytest.raises(InputError, match="--mechanism cannot be combined with accountants"):
        chart("accountants", TWO, mechanism="m")
    assert "mechanism other" in chart("epsilon-steps", TWO, mechanism="other").subtitle


RUN = (
    HEAD.format(delta="1e-5", adjacency="add-remove")
    + """
[budget]
epsilon = 4.0
[[mechanism]]
name = "member"
type = "laplace"
noise_multiplier = 9.0
[[mechanism]]
name = "first"
type = "gaussian"
noise_multiplier = 3.0
steps = 2
[[mechanism]]
name = "free"
type = "post-processing"
[[mechanism]]
name = "both"
type = "composed"
mechanisms = ["member", "first-of-two"]
steps = 3
[[mechanism]]
name = "first-of-two"
type = "pure-dp"
epsilon = 0.1
"""
)


def test_the_course_of_a_run_is_the_account_of_each_of_its_beginnings() -> None:
    """Entries that another one names are charged with it, and what is free is no step."""
    drawn = chart("epsilon-steps", RUN.encode(), cap=2.5)
    (line, budget, cap) = drawn.lines
    assert [budget.label, cap.label] == ["budget 4.0", "cap 2.5"] and drawn.y.high > 4.0
    assert [x for x, _ in line.points] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert "in this order: first to step 2, both to step 5" in drawn.notes
    whole = RUN.replace("steps = 3", "steps = {}")
    for x, epsilon in line.points:
        if x > 2.0:
            text_to_here = whole.format(int(x) - 2)
        else:
            text_to_here = RUN[: RUN.index('[[mechanism]]\nname = "free"')].replace("steps = 2", f"steps = {int(x)}")
            text_to_here = text_to_here.replace('[[mechanism]]\nname = "member"\ntype = "laplace"\nnoise_multiplier = 9.0\n', "")
        assert epsilon == pytest.approx(account(pipeline(text_to_here.encode())).upper, rel=1e-3), x
    assert drawn.markers[0].x == 5.0


def test_parts_of_the_data_have_no_order() -> None:
    part = '[[mechanism]]\nname = "{0}"\ntype = "laplace"\nnoise_multiplier = 9.0\npartition = {{ of = "region", part = "{0}" }}\n'
    parts = part.format("a") + part.format("b")
    with pytest.raises(InputError, match=r"found disjoint parts of the data: name one \(--mechanism NAME\)"):
        chart("epsilon-steps", GAUSSIAN + parts.encode())


@pytest.mark.nightly
def test_a_long_schedule_is_rounded_both_ways_and_wide_intervals_have_bars() -> None:
    noise = [3.0 - 1.0 * i / 300 for i in range(300)]
    keys = f'type = "gaussian"\nnoise_multiplier = {noise}\nsampling = {{ scheme = "poisson", rate = 0.01 }}\nsteps = 1'
    drawn = chart("epsilon-steps", text(keys))
    (line,), (band,) = drawn.lines, drawn.bands
    exact = account(pipeline(text(keys)), ("exact",))
    assert exact.lower is not None and band.lower[-1][1] <= exact.lower <= exact.upper <= line.points[-1][1] <= 1.01 * exact.lower
    heights = [y for _, y in line.points]
    assert heights == sorted(heights) and len(heights) == 13 and not drawn.spans
    curve = EpsilonCurve("pld", ((1.0, Epsilon(1.0, 0.9, "pld")), (2.0, Epsilon(1.0, 0.99, "pld"))), True, Tone.MAIN)
    assert [(span.x, span.low, span.high) for span in _error_bars(curve)] == [(1.0, 0.9, 1.0)]


def test_a_cap_is_an_epsilon_of_a_chart_with_such_an_axis() -> None:
    with pytest.raises(InputError, match="--cap cannot be combined with rdp"):
        chart("rdp", cap=1.0)
    with pytest.raises(InputError, match=r"--cap: expected a finite epsilon > 0, found 0\.0"):
        chart("epsilon-sigma", cap=0.0)


def test_budget_is_drawn_where_it_is_for_the_same_delta() -> None:
    cap = "[budget]\nepsilon = 6.0\n"
    drawn = chart("epsilon-steps", text('type = "gaussian"\nnoise_multiplier = 2.0\nsteps = 10', more=cap))
    assert [line.label for line in drawn.lines][1:] == ["budget 6.0"]
    assert len(chart("epsilon-steps", text('type = "gaussian"\nnoise_multiplier = 2.0', more=cap + "delta = 1e-7\n")).lines) == 1


def test_a_chart_holds_no_nan() -> None:
    axis = Axis("a", 0.0, 1.0)
    with pytest.raises(InternalError, match=r"the point \(0\.0, nan\).*no picture is drawn"):
        Chart("k", "t", "s", axis, axis, lines=(Line("l", ((0.0, math.nan),)),))


@of_each("epsilon", [5e-324, 5e307])
def test_the_smallest_and_the_largest_epsilon_have_a_picture(epsilon: float) -> None:
    data = text(f'type = "pure-dp"\nepsilon = {epsilon!r}\nsteps = 3')
    for kind in ("epsilon-steps", "accountants"):
        picture = chart(kind, data, delta=0.0)
        assert 0.0 < max(picture.x.high, picture.y.high) <= sys.float_info.max


def test_a_profile_whose_every_epsilon_is_0_says_so() -> None:
    assert "epsilon is 0 at every point" in chart("delta-epsilon", text('type = "pure-dp"\nepsilon = 1e-14'), delta=0.0).notes


def test_log_span_has_room_around_one_value() -> None:
    low, high = log_span([2.0])
    assert low < 2.0 < high
    assert high / low >= 4.0 * (1.0 - 1e-12)


def test_progress_is_reported_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    chart("epsilon-steps", progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]


def test_example_is_certified_along_the_line() -> None:
    found = draw("epsilon-sigma", Question(load(str(ROOT / "examples" / "mnist.toml"))))
    assert found.lines[0].label == "accountant: exact"
    assert "certified from below: " in found.notes[0]


EPOCHS = """type = "gaussian"
noise_multiplier = 2.0
epochs = 3
sampling = { scheme = "poisson", rate = 0.1 }"""


def test_epochs_are_marked_as_steps() -> None:
    (marker,) = chart("epsilon-steps", text(EPOCHS)).markers
    assert marker.x == 30.0
    assert marker.y == account(pipeline(text(EPOCHS))).upper


def test_steps_of_a_member_are_varied_through_its_group() -> None:
    group = '[[mechanism]]\nname = "g"\ntype = "composed"\nmechanisms = ["m"]\nsteps = 2\n'
    data = text(EPOCHS.split("epochs")[0] + "steps = 4") + group.encode()
    found = chart("epsilon-steps", data, mechanism="m")
    (marker,) = found.markers
    assert marker.x == 4.0
    assert marker.y == account(pipeline(data)).upper
    assert "sampling: none" in found.subtitle


def test_an_approximation_is_dashed_and_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.base.registry import ACCOUNTANTS

    monkeypatch.setitem(ACCOUNTANTS, "approximate", "tests.plots.samples:APPROXIMATE")
    for kind in ("epsilon-steps", "delta-epsilon", "trade-off"):
        found = chart(kind, accountants=("approximate",))
        assert found.lines[0].dashed
        assert found.bands == ()
        assert any("not a bound" in note for note in found.notes)
        assert not any("upper bound" in note or "possible" in note or "guarantee" in note for note in found.notes)
    beside = chart("trade-off", accountants=("approximate", "analytic"))
    assert beside.bands[0].upper == beside.lines[1].points
    assert "approximate" not in chart("epsilon-steps").lines[0].label


@pytest.mark.long
def test_what_only_dominates_is_not_certified_from_below() -> None:
    """Many participations in a tree: the sensitivity is bounded, not known."""
    tree = b"""
format = 1
[privacy]
unit = "example"
adjacency = "zero-out"
delta = 1e-6
[[mechanism]]
name = "train"
type = "tree-aggregation"
noise_multiplier = 4.0
iterations = 1500
max_participations = 300
min_separation = 4
"""
    found = chart("epsilon-sigma", tree)
    assert not found.bands and not any("certified from below" in note for note in found.notes)
