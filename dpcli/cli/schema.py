"""dpcli schema."""

from __future__ import annotations

import json

import click

from dpcli.cli.printing import show


@click.command(short_help="The JSON Schema of the pipeline or policy file, for editors.")
@click.argument("format", type=click.Choice(["pipeline", "policy"]), default="pipeline")
def command(format: str) -> None:
    """Print the JSON Schema (draft 2020-12) of the pipeline file, format 1, or of the policy file of dpcli gate."""
    from dpcli.pipeline.schema import json_schema, policy_schema

    schema = policy_schema() if format == "policy" else json_schema()
    show(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
