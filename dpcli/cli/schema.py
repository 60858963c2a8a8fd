"""dpcli schema."""

from __future__ import annotations

import json

import click


@click.command(short_help="The JSON Schema of the pipeline file, for editors.")
def command() -> None:
    """Print the JSON Schema (draft 2020-12) of the pipeline file, format 1."""
    from dpcli.pipeline.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
