"""The description of a release for catalogues of datasets, in Croissant 1.0 of MLCommons, which is JSON-LD with words of schema.org.

release_run.py writes it next to the answers and the statement, if [disclosure] in the pipeline file states all that Croissant requires of a
dataset. It has the SHA-256 digests of the answers and of the statement. Everything in it is public, because the answers are noisy.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpcli.analysis.documents.account import headline_of_run
from dpcli.release.documents.release import completed_disclosure
from dpcli.release.query_answer import ANSWERS, STATEMENT

if TYPE_CHECKING:
    from dpcli.release.query_answer import QueryAnswer
    from dpcli.release.release_plan import ReleasePlan

MEDIA_TYPES: Mapping[str, str] = {ANSWERS: "application/json", STATEMENT: "text/markdown"}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
}


def croissant(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> str | None:
    """Return the description of the answers and the statement, which must be in the folder of the release already.

    The result is None unless [disclosure] states all that Croissant requires of a dataset: a licence, an address, a creator (controller)
    and a date. Raises OSError if a file cannot be read.
    """
    stated = completed_disclosure(plan, answers)  # [disclosure]; dpcli fills in `product` and other keys that the file leaves out
    if stated.license is None or stated.url is None or stated.controller is None or stated.published is None:
        return None
    files = []
    for name, media_type in MEDIA_TYPES.items():
        with open(os.path.join(plan.folder, name), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        resource = {"@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name}
        files.append({**resource, "encodingFormat": media_type, "sha256": digest})
    description = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": plan.pipeline.name or os.path.basename(plan.folder),
        "description": f"{stated.product}. Differential privacy: {headline_of_run(plan.account)}.",
        "license": stated.license,
        "url": stated.url,
        "creator": {"@type": "sc:Organization", "name": stated.controller},
        "datePublished": stated.published.isoformat(),
        "distribution": files,
    }
    return json.dumps(description, indent=2, ensure_ascii=False) + "\n"
