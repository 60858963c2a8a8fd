from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.rule_info import HEAD, TRAIN, edited
from dpcli.lint.run import lint

SURVEY = '\n[[mechanism]]\nname = "survey"\ntype = "pure-dp"\nepsilon = 0.5\n'


def linted(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return lint(str(file))


def only(text: str, folder: Path) -> Diagnostic:
    (diagnostic,) = linted(text, folder)
    return diagnostic


def test_a_finding_is_placed_and_named(tmp_path: Path) -> None:
    text = HEAD + edited(TRAIN, "poisson", "shuffle")
    source = 'sampling = { scheme = "shuffle", batch_size = 256 }'
    assert only(text, tmp_path) == Diagnostic(
        rule="DP101",
        severity="warning",
        message='scheme = "shuffle" earns no amplification: each pass counts as one run on all of the data; '
        'sample with scheme = "poisson" to be counted at its rate',
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


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        lint(str(tmp_path / "none.toml"))


def test_standard_input_is_read_once() -> None:
    program = "from dpcli.lint.run import lint; print([(d.rule, d.path, d.line) for d in lint('-')])"
    text = edited(HEAD, "1e-6", "1e-4") + TRAIN
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "[('DP105', '<stdin>', 7)]\n"


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_bytes((edited(HEAD, "1e-6", "1e-4") + TRAIN).replace("\n", "\r\n").encode())
    (diagnostic,) = lint(str(file))
    assert (diagnostic.line, diagnostic.column, diagnostic.source) == (7, 1, "delta = 1e-4")


def test_reading_and_judging_import_no_numpy(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(edited(HEAD, "1e-6", "1e-4") + TRAIN + SURVEY, encoding="utf-8")
    program = (
        f"import sys; from dpcli.lint.run import lint; assert lint({str(file)!r}); "
        "print(sorted(m for m in sys.modules if m.startswith(('numpy.', 'scipy', 'rich'))))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
