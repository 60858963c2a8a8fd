"""Files of CI systems by the schemas that check-jsonschema has of them, in this process."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner


def checked(schema: str, path: Path, *more: str) -> tuple[int, str]:
    """Exit code, and what is said."""
    from check_jsonschema import main

    found = CliRunner().invoke(main, ["--builtin-schema", schema, *more, str(path)])
    return found.exit_code, found.output
