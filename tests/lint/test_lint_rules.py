"""Tests of the findings of single rules and their places, of the order of findings, and of files that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.rule_info import HEAD, TRAIN, edited
from dpcli.lint.run import lint
from dpcli.lint.sections import train_section
from tests.cases import of_each

SURVEY = '\n[[mechanism]]\nname = "survey"\ntype = "pure-dp"\nepsilon = 0.5\n'


def linted(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return lint(str(file))


def only(text: str, folder: Path) -> Diagnostic:
    (diagnostic,) = linted(text, folder)
    return diagnostic


@of_each("scheme", ["shuffle", "cyclic"])
def test_every_scheme_without_amplification_is_named(scheme: str, tmp_path: Path) -> None:
    assert only(HEAD + edited(TRAIN, "poisson", scheme), tmp_path).rule == "DP101"


@of_each(
    "size, delta, severity",
    [(1000, "1e-3", "error"), (1000, "0.99e-3", "warning"), (1000, "1.01e-4", "warning"), (1000, "1e-4", None), (3, "0.0", None)],
)
def test_delta_is_compared_with_the_dataset_exactly(size: int, delta: str, severity: str | None, tmp_path: Path) -> None:
    head = edited(edited(HEAD, "60_000", str(size)), "1e-6", delta)
    assert [d.severity for d in linted(head + SURVEY, tmp_path)] == ([severity] if severity else [])


def test_the_delta_of_the_budget_is_checked_too(tmp_path: Path) -> None:
    diagnostic = only(HEAD + "\n[budget]\nepsilon = 1.0\ndelta = 0.01\n" + SURVEY, tmp_path)
    assert (diagnostic.rule, diagnostic.key, diagnostic.severity) == ("DP105", "budget.delta", "error")
    assert diagnostic.message == "expected a delta below 1/dataset_size = 1.666667e-05, found 0.01"


@of_each(
    "stated, wanted, severity",
    [
        ("replace-one", "add-remove", "error"),
        ("replace-one", "zero-out", "error"),
        ("zero-out", "add-remove", "error"),
        ("add-remove", "replace-one", "warning"),
        ("zero-out", "replace-one", "warning"),
        ("replace-one", "replace-one", None),
    ],
)
def test_adjacencies_are_converted_or_refused(stated: str, wanted: str, severity: str | None, tmp_path: Path) -> None:
    text = edited(HEAD, "add-remove", wanted) + SURVEY + f'adjacency = "{stated}"\n'
    assert [(d.rule, d.severity) for d in linted(text, tmp_path)] == ([("DP103", severity)] if severity else [])


@of_each(
    "keys",
    [
        'type = "exponential"\nepsilon = 1.0',
        'type = "report-noisy-max"\nepsilon = 1.0',
        'type = "permute-and-flip"\nepsilon = 1.0',
        'type = "sparse-vector"\nepsilon = 1.0\nanswers = 3',
        'type = "pure-dp"\nepsilon = 1.0',
        'type = "approx-dp"\nepsilon = 1.0\ndelta = 1e-7',
        'type = "zcdp"\nrho = 0.1',
        'type = "rdp"\norders = [2.0, 4.0]\nvalues = [0.1, 0.2]',
    ],
)
def test_every_stated_guarantee_says_whom_it_covers(keys: str, tmp_path: Path) -> None:
    head = edited(HEAD, 'unit = "example"', 'unit = "user"\nmax_contributions = 5')
    mechanism = f'\n[[mechanism]]\nname = "stated"\n{keys}\n'
    assert only(head + mechanism, tmp_path).rule == "DP104"
    assert linted(head + mechanism + 'stated_for = "unit"\n', tmp_path) == ()


@of_each(
    "keys, message",
    [
        (
            'epochs = 2.5\nsampling = { scheme = "poisson", batch_size = 256 }',
            "2.5 epochs = 585.9375 steps; using 586",
        ),
        ('epochs = 3\nsampling = { scheme = "poisson", batch_size = 240 }', None),
        # 0.7 / 0.1 is 6.999... in floating point and 7 as written.
        ('epochs = 0.7\nsampling = { scheme = "poisson", rate = 0.1 }', None),
        ('steps = 7\nsampling = { scheme = "poisson", rate = 0.3 }', None),
    ],
)
def test_rounding_is_decided_on_the_decimals_as_written(keys: str, message: str | None, tmp_path: Path) -> None:
    text = HEAD + f'\n[[mechanism]]\nname = "train"\ntype = "gaussian"\nnoise_multiplier = 1.0\n{keys}\n'
    assert [d.message for d in linted(text, tmp_path)] == ([message] if message else [])


def test_passes_are_rounded_where_passes_are_counted(tmp_path: Path) -> None:
    text = HEAD + edited(edited(TRAIN, "poisson", "shuffle"), "steps = 1000", "epochs = 2.5")
    messages = {d.rule: d.message for d in linted(text, tmp_path)}
    assert messages["DP117"] == "2.5 epochs = 2.5 passes; using 3"


def test_parts_may_not_exchange_records(tmp_path: Path) -> None:
    text = edited(HEAD, "add-remove", "replace-one") + SURVEY + 'partition = { of = "region", part = "north" }\n'
    diagnostic = only(text, tmp_path)
    assert (diagnostic.rule, diagnostic.severity, diagnostic.key) == ("DP119", "error", 'mechanism["survey"].partition')


def test_a_large_budget_is_put_in_terms_of_an_attack(tmp_path: Path) -> None:
    assert only(HEAD + "\n[budget]\nepsilon = 12.0\n" + SURVEY, tmp_path).message == (
        "epsilon = 12 gives almost no protection against membership inference "
        "(at a 1 % false-positive rate it permits a 99.9994 % hit rate)"
    )


def test_both_silences_are_reported(tmp_path: Path) -> None:
    head = edited(edited(HEAD, 'unit = "example"\n', ""), 'releases = "final-model"\n', "")
    assert [(d.rule, d.key) for d in linted(head + SURVEY, tmp_path)] == [("DP301", "privacy.unit"), ("DP301", "privacy.releases")]


def test_the_cap_on_all_planned_runs_is_an_epsilon_too(tmp_path: Path) -> None:
    diagnostic = only(HEAD + "\n[gate.horizon]\nepsilon = 11.0\nruns = 4\n" + SURVEY, tmp_path)
    assert (diagnostic.rule, diagnostic.key, diagnostic.severity) == ("DP304", "gate.horizon.epsilon", "warning")


def test_named_parts_pass_unless_a_unit_may_lie_in_several(tmp_path: Path) -> None:
    part = 'partition = { of = "region", part = "north" }\n'
    assert linted(HEAD + SURVEY + part, tmp_path) == ()
    of_users = edited(HEAD, 'unit = "example"', 'unit = "user"\nmax_contributions = 5')
    diagnostic = only(of_users + SURVEY + 'stated_for = "unit"\n' + part, tmp_path)
    assert (diagnostic.rule, diagnostic.severity) == ("DP119", "error")


def test_a_shuffling_loader_beside_poisson_accounting_is_an_error(tmp_path: Path) -> None:
    unread, diagnostic = linted(HEAD + TRAIN + train_section({"shuffle": "true"}), tmp_path)
    assert (unread.rule, unread.key) == ("DP002", "train.shuffle")
    assert (diagnostic.rule, diagnostic.key, diagnostic.severity) == ("DP101", "train.shuffle", "error")
    assert (
        diagnostic.message
        == "a mechanism of this file is counted as Poisson sampling, but shuffled or ordered batches are no Poisson samples"
    )


def test_a_question_asked_again_names_the_first(tmp_path: Path) -> None:
    text = edited(HEAD, "final-model", "outputs") + SURVEY + SURVEY.replace("survey", "survey-again")
    assert only(text, tmp_path).message == (
        'the same as mechanism["survey"] with fresh noise, which averages out: publish the first answer again'
    )


def test_a_search_says_by_which_score_it_keeps_the_best(tmp_path: Path) -> None:
    """A score that nobody priced may tell the data: the file says in words which it is."""
    trial = '[[mechanism]]\nname = "trial"\ntype = "pure-dp"\nepsilon = 0.01\n'
    search = '[[mechanism]]\nname = "search"\ntype = "repeat-and-select"\nmechanism = "trial"\n'
    search += 'trials = { distribution = "geometric", mean = 100 }\n'
    for said, codes in (("", ["DP110"]), ('description = "kept by error on public data"\n', [])):
        found = [one for one in linted(HEAD + trial + search + said, tmp_path) if one.rule == "DP110"]
        assert [one.rule for one in found] == codes
        assert all("score" in one.message and one.severity == "warning" for one in found)


def test_a_finding_is_placed_and_named(tmp_path: Path) -> None:
    text = HEAD + edited(TRAIN, "poisson", "shuffle")
    source = 'sampling = { scheme = "shuffle", batch_size = 256 }'
    assert only(text, tmp_path) == Diagnostic(
        rule="DP101",
        severity="warning",
        message='scheme = "shuffle" gives no amplification: each pass counts as one run on all of the data; '
        'use scheme = "poisson" for amplification by the sampling rate',
        path=str(tmp_path / "pipeline.toml"),
        key='mechanism["train"].sampling.scheme',
        line=text.splitlines().index(source) + 1,
        column=source.index("scheme") + 1,
        source=source,
    )


def test_findings_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = edited(HEAD, "1e-6", "1e-4") + edited(TRAIN, "poisson", "shuffle") + SURVEY.replace("0.5", "20.0")
    diagnostics = linted(text, tmp_path)
    assert [d.rule for d in diagnostics] == ["DP105", "DP101", "DP304"]
    assert [d.line for d in diagnostics] == sorted(d.line for d in diagnostics)


def test_standard_input_is_read_once() -> None:
    program = "from dpcli.lint.run import lint; print([(d.rule, d.path, d.line) for d in lint('-')])"
    text = edited(HEAD, "1e-6", "1e-4") + TRAIN
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "[('DP105', '<stdin>', 7)]\n"


def test_linting_imports_no_numpy(tmp_path: Path) -> None:
    """Of a pipeline, a policy, and files with [train] and [sweep]."""
    files = {"pipeline.toml": edited(HEAD, "1e-6", "1e-4") + TRAIN + SURVEY, "policy.toml": "format = 1\nepsilon = 3.0\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [*(str(tmp_path / name) for name in files), "examples/digits.toml", "examples/digits-sweep.toml"]
    program = (
        f"import sys; from dpcli.lint.run import lint; print([len(lint(path)) for path in {paths}]); "
        "print(sorted(m for m in sys.modules if m.startswith(('numpy.', 'scipy', 'rich', 'torch'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("[1, 0, ") and done.stdout.splitlines()[1] == "[]"


@of_each(
    "rule, description, expected",
    [
        ("DP106", "Gaussian noise by the classical formula", True),
        ("DP106", "Gaussian noise, not the analytic calibration", True),
        ("DP106", "Gaussian noise, inexact", True),
        ("DP106", "Gaussian noise by the exact calibration", False),
        ("DP111", "data-dependent epsilon of the votes", True),
        ("DP111", "data-dependent epsilon of the votes, not sanitised", True),
        ("DP111", "data-dependent epsilon of the votes, unsanitised", True),
        ("DP111", "data-dependent epsilon of the votes, without smooth sensitivity", True),
        ("DP111", "data-dependent epsilon of the votes, sanitised", False),
        ("DP111", "data-dependent epsilon of the votes by smooth sensitivity", False),
    ],
)
def test_a_negated_word_excuses_nothing(rule: str, description: str, expected: bool, tmp_path: Path) -> None:
    keys = 'type = "approx-dp"\nepsilon = 3.0\ndelta = 1e-9'
    text = HEAD + f'\n[[mechanism]]\nname = "answers"\n{keys}\ndescription = "{description}"\n'
    assert (rule in {diagnostic.rule for diagnostic in linted(text, tmp_path)}) == expected
