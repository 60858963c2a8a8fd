"""The command `dpcli schema`, which prints JSON Schemas. They follow from the classes that read the files (file/pipeline/key_places.py)."""

from __future__ import annotations

import json

import click

from dpcli.cli.printing import show


@click.command(short_help="Print the JSON Schema of the pipeline, policy or schedule file, for editors.")
@click.argument("format", type=click.Choice(["pipeline", "policy", "schedule"]), default="pipeline", metavar="[FORMAT]")
def command(format: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a file format: the pipeline file, the policy file of dpcli gate, or the schedule of dpcli
    budget plan."""
    from dpcli.file.pipeline.key_places import json_schema, policy_schema, schedule_schema

    schemas = {"pipeline": json_schema, "policy": policy_schema, "schedule": schedule_schema}
    show(json.dumps(schemas[format](), indent=2, ensure_ascii=False) + "\n")
