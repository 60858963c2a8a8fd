"""What the gate judges where nobody names a file: every pipeline that the change touches, wherever it is."""

from __future__ import annotations

import os
import re

from dpcli.base.errors import InputError
from dpcli.file.pipeline.other_files import LFS_POINTER
from dpcli.file.pipeline.read import may_be_pipeline, toml_document, toml_name
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.gate.missed import of_other_endings, touched_files
from dpcli.git.history import pasts, says_pipeline
from dpcli.git.work_tree import listed, top_of

# A table of a pipeline in what is no TOML. A template of another program's file has its own tables, and may speak of privacy.
_TABLE = re.compile(rb"^[ \t]*(?:\[[ \t]*privacy|\[\[[ \t]*mechanism)", re.MULTILINE)


def touched_pipelines(ref: str) -> list[str]:
    """Return the pipelines that git knows and that differ from the revision by the work tree's doing, each by every name that it has.

    They are looked for in the whole repository around the working directory and in those inside it. A file that is no TOML is one where
    it was one at the revision, has a line that begins a table of pipelines, or is a Git LFS pointer: nobody can say that it is none. What
    git does not know is in no change; `dpcli.gate.missed` tells of it.

    Raises:
        InputError: no repository is here, git does not know the revision, or cannot list the files.
    """
    top = top_of(os.getcwd())
    names = sorted(map(os.fsdecode, listed(top, "ls-files", "-z", "--cached", "--recurse-submodules")))
    places = {os.path.realpath(os.path.join(one[0], one[2])): one for one in touched_files(ref, ())}
    spelled = {os.path.join(folder, name) for folder, _, name in places.values()}
    paths = [os.path.join(top, name) for name in names if toml_name(name)]
    changed = [path for path in paths if (path in spelled or os.path.realpath(path) in places) and os.path.isfile(path)]
    found = [path for path in map(os.path.relpath, changed) if _is_pipeline(ref, path)]
    return [*found, *(file.path for file in of_other_endings(places, ()))]


def _is_pipeline(ref: str, path: str) -> bool:
    data = b""
    try:
        data = read_bytes(path)
        return may_be_pipeline(toml_document(data, path)[1])
    except InputError as error:
        was = pasts(ref, [path])[path]
        perhaps = isinstance(error, InvalidFile) and (_TABLE.search(data) is not None or data.startswith(LFS_POINTER))
        return perhaps or (was is not None and says_pipeline(was.data))
