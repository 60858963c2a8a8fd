"""Several files for dpcli account: each on its own, and those of one dataset together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.cli.options import working

if TYPE_CHECKING:
    from dpcli.document.document import Document

Asked = tuple[Sequence[str] | None, float | None, float | None, int, float | None]


def several(paths: Sequence[str], asked: Asked, digits: int, sources: bool) -> Document:
    """What the pipelines cost; asked: accountants, delta, epsilon, group size and tolerance, for all of them.

    Raises:
        InputError: a file that is given twice, or files of one dataset that cannot be added up. InvalidFile: as `dpcli.load`.
    """
    from dpcli.analysis.account import account
    from dpcli.analysis.documents.accounts import document
    from dpcli.analysis.together import together
    from dpcli.file.pipeline.datasets import by_dataset
    from dpcli.file.pipeline.read import parse
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import judge

    _require_each_once(paths)
    contents = [(path, read_bytes(path)) for path in paths]
    pipelines = [parse(data, path) for path, data in contents]
    datasets = {name: members for name, members in by_dataset(pipelines).items() if len(members) > 1}
    rules = [judge(pipeline, data, {"--delta": asked[1]}) for pipeline, (_, data) in zip(pipelines, contents, strict=True)]
    with working():
        alone = [account(pipeline, *asked) for pipeline in pipelines]
        sums = {name: together([(member, 1) for member in members], *asked) for name, members in datasets.items()}
    return document(list(zip(alone, rules, strict=True)), sums, digits, sources)


def _require_each_once(paths: Sequence[str]) -> None:
    places = [path if path == "-" else os.path.realpath(path) for path in paths]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{paths[index]}: expected each file once, found it again: it would count twice")
