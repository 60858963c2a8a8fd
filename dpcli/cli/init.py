"""The command `dpcli init`, which writes the templates of dpcli/templates: pipeline files, and configurations of CI systems."""

from __future__ import annotations

import os

import click

from dpcli.cli.new_files import new_file_option, write_new, write_new_pipeline

# The configurations among the templates, each with the steps that the user must take after it was written.
NEXT_STEPS = {
    "ci-github": "fill in OWNER and COMMIT; require the check gate, and an owner's approval of this file (dpcli explain gate)",
    "ci-gitlab": "fill in OWNER and COMMIT; require pipelines to succeed, and an owner's approval of this file (dpcli explain gate)",
    "pre-commit": "pre-commit install",
}


@click.command(short_help="Write a pipeline file or a CI recipe.")
@click.argument(
    "template",
    type=click.Choice(
        ["dp-sgd", "train", "loop", "federated", "query", "pate", "pmixed", "prompt", "generate", "release", *NEXT_STEPS]
    ),
    default="dp-sgd",
    metavar="[TEMPLATE]",
)
@new_file_option
def command(template: str, output: str | None) -> None:
    """Print a commented pipeline file: dp-sgd (accounting for private training), train (accounting and training), loop (your own training
    loop with dpcli.private), federated (rounds of a server and its clients), query (noisy statistics), pate (labels by votes of teachers),
    pmixed (text from models on shards), prompt (a prompt by votes), generate (synthetic texts) or release (noisy answers about a table).

    Or print a configuration that runs dpcli gate on every change: ci-github (for .github/workflows/privacy-budget.yml), ci-gitlab (for
    .gitlab-ci.yml) or pre-commit (for .pre-commit-config.yaml). dpcli-gate(7) says which settings of the forge must be protected.
    """
    from dpcli.templates import read_template

    text = read_template(template)
    if template not in NEXT_STEPS:
        write_new_pipeline(output, text)
        return
    if output is not None and os.path.dirname(output):  # such as .github/workflows, which may not exist yet
        os.makedirs(os.path.dirname(output), exist_ok=True)
    write_new(output, text, then=f"; next: {NEXT_STEPS[template]}")
