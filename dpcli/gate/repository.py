"""git, asked from outside: the work tree around a folder, the commit of a name, and why there is none."""

from __future__ import annotations

import os
import subprocess

from dpcli.errors import InputError


def git(folder: str, *arguments: str, asked: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What git says in a folder. Raises InputError where it cannot be run."""
    try:
        return subprocess.run(["git", "-C", folder, *arguments], input=asked, capture_output=True, check=False, timeout=60)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def top_of(folder: str) -> str:
    """The root of the work tree around a folder. Raises InputError where there is none."""
    found = git(folder, "rev-parse", "--show-toplevel")
    if found.returncode != 0:
        raise InputError(f"--base-ref: expected a git repository around {folder}, found not a git repository")
    return os.fsdecode(found.stdout.removesuffix(b"\n"))


def commit_of(folder: str, ref: str) -> str:
    """The object of the commit that `ref` names. Raises InputError where there is none, and says so of a shallow clone."""
    top_of(folder)
    found = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if found.returncode == 0:
        return os.fsdecode(found.stdout).strip()
    shallow = git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    hint = "; this clone is shallow: fetch all of its history (fetch-depth: 0 in CI, or git fetch --unshallow)" if shallow else ""
    raise InputError(f"--base-ref: expected a commit known to git in {folder}, found {ref!r}{hint}")
