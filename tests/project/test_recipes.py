"""The site's recipes for other tools: each does what its sentence says, as far as it can be run without the tool."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from unittest import mock

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from tests.command import ROOT, dpcli

BLOCKS = re.findall(r'(?ms)^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', (ROOT / ".github" / "docs" / "recipes.md").read_text("utf-8"))
FILES = {title: body for _, title, body in BLOCKS if title}
SHELL = [body for kind, _, body in BLOCKS if kind == "sh"]


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    assert dpcli("init", "dp-sgd", "-o", "pipeline.toml", folder=tmp_path).code == 0
    return tmp_path / "pipeline.toml"


def overspend(pipeline: Path) -> None:
    pipeline.write_text(re.sub(r"noise_multiplier = [\d.]+", "noise_multiplier = 0.3", pipeline.read_text()))


def test_a_recipe_is_short() -> None:
    assert len(FILES) == 8 and all(len(body.splitlines()) <= 20 for _, _, body in BLOCKS)


@pytest.mark.long
def test_an_editor_is_told_of_mistakes(pipeline: Path) -> None:
    (rule,) = tomllib.loads(FILES[".taplo.toml"])["rule"]
    assert rule["include"][0] == pipeline.name and SHELL[0] == f"dpcli schema > {rule['schema']['path']}\n"
    validator = Draft202012Validator(json.loads(dpcli("schema").out))
    text = pipeline.read_text()
    assert list(validator.iter_errors(tomllib.loads(text))) == []
    assert list(validator.iter_errors(tomllib.loads(text.replace("noise_multiplier", "noise_multplier")))) != []


@pytest.mark.long
def test_dvc_runs_what_stops_an_overspend(pipeline: Path) -> None:
    stage = YAML(typ="safe").load(FILES["dvc.yaml"])["stages"]["privacy"]
    assert stage["deps"] == [pipeline.name]
    command, *words = shlex.split(stage["cmd"])
    assert command == "dpcli" and dpcli(*words, folder=pipeline.parent).code == 0
    ((metrics,),) = map(list, stage["metrics"])
    assert '"epsilon"' in (pipeline.parent / metrics).read_text()
    overspend(pipeline)
    assert dpcli(*words, folder=pipeline.parent).code == 1


@pytest.mark.long
def test_hydra_trains_nothing_that_overspends(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a decorator in place of Hydra's, which gives the function its configuration."""
    config = types.SimpleNamespace(**YAML(typ="safe").load(FILES["conf/config.yaml"]))
    utils = types.SimpleNamespace(to_absolute_path=lambda path: str(pipeline.parent / path))
    hydra = types.ModuleType("hydra")
    hydra.__dict__.update(utils=utils, main=lambda **_: lambda function: lambda: function(config))
    with mock.patch.dict(sys.modules, hydra=hydra):
        exec(compile(FILES["train.py"], "train.py", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out == "training at learning rate 0.1\n"
        overspend(pipeline)
        with pytest.raises(SystemExit, match="is above max_epsilon = 4"):
            exec(compile(FILES["train.py"], "train.py", "exec"), {"__name__": "__main__"})


@pytest.mark.long
def test_the_gitlab_component_is_the_template_with_an_input(tmp_path: Path) -> None:
    program = tmp_path / "dpcli"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dpcli "$@"\n')
    program.chmod(0o755)
    subprocess.run(["bash", "-e", "-c", SHELL[1]], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    written = (tmp_path / "templates" / "privacy-budget.yml").read_text()
    header, job = YAML(typ="safe").load_all(written)
    (name,) = header["spec"]["inputs"]
    template = YAML(typ="safe").load(dpcli("init", "ci-gitlab").out)
    (install,) = [line for line in job["privacy-budget"]["before_script"] if "pip install" in line]
    assert install == f'pip install --quiet "$[[ inputs.{name} ]]"'
    for one in (job, template):
        one["privacy-budget"]["before_script"].pop()
    assert job == template
    (include,) = YAML(typ="safe").load(FILES[".gitlab-ci.yml"])["include"]
    assert set(include["inputs"]) == {name} and "/privacy-budget@COMMIT" in include["component"]


# What a person asks for, and the words that dpcli is then run with; None if it is not run.
OVER_SSH = {
    "": "budget show FILE",
    "log": "budget log FILE",
    "spend night": "budget spend FILE - --key sam/night",
    "reserve 2026-01.a": "budget reserve FILE - --key sam/2026-01.a",
    "start night": "budget start FILE sam/night",
    "commit  night": "budget commit FILE sam/night",
    **dict.fromkeys(
        (
            *("spend", "start", "amend night", "void night", "sh", "log night", "spend night more", "spend night --delta 1"),
            *("show -o", "show --output=x", "spend -", "spend --key=a", "spend ../x", "spend vera/night", "spend vera//night"),
            *("spend *", "spend a;id", "spend $(id)", "spend `id`", "log; id", "log && id", "spend 'a b'", "spend é", "*", "$(id)"),
        )
    ),
}


@pytest.mark.long
def test_a_ledger_over_ssh_does_what_it_offers_and_no_more(tmp_path: Path) -> None:
    script, program = tmp_path / "ledger-for", tmp_path / "dpcli"
    script.write_text(FILES["ledger-for"])
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$*"\n')
    for path in (script, program):
        path.chmod(0o755)
    (place,) = re.findall(r"file=(\S+)", FILES["ledger-for"])
    for request, words in OVER_SSH.items():
        set_ = {"SSH_ORIGINAL_COMMAND": request} if request else {}
        done = subprocess.run(
            [script, "sam"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", **set_},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if words is None:
            assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("ledger-for: "), request
        else:
            assert (done.returncode, done.stdout) == (0, words.replace("FILE", place) + "\n"), (request, done.stderr)
