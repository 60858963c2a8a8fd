"""Which process this is: what was paid for, or drawn, in one is never used in another."""

from __future__ import annotations

import os

_FORKS = 0


def this_process() -> tuple[int, int]:
    """Another one than in every process that this one was forked from, or that is forked from it.

    Its number alone is no answer: in a namespace of its own a fork may have its parent's, and later one may have that of an ancestor that
    ended. So the forks since the first process are counted, and the number is for those that Python did not hear of.
    """
    return os.getpid(), _FORKS


def _forked() -> None:
    global _FORKS
    _FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
