"""Where data come from, as a file names it: what is declared public must not be the private source under another name."""

from __future__ import annotations

import os


def same_source(private: str | None, public: str | None) -> bool:
    """Whether two keys name the same file or function. Nothing is read: two names of one file by a link are not seen."""
    if private is None or public is None:
        return False
    return private == public or (":" not in private + public and os.path.normpath(private) == os.path.normpath(public))
