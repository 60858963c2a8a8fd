"""Which policy binds: that of the base, where the change under review holds another; and rules of it that bind nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.gate.judgement import JudgedTogether
from dpcli.gate.places import matches
from dpcli.gate.policy import Policy
from dpcli.gate.policy_read import read_policy_bytes
from dpcli.gate.shared_caps import SharedCaps
from dpcli.gate.verdicts import Condition
from dpcli.git.command import work_tree
from dpcli.git.history import pasts, touched
from dpcli.git.work_tree import commit_of, listed

POLICY_CHANGE = "policy-change"


def binding(policy: Policy, ref: str | None) -> tuple[Policy, tuple[Condition, ...]]:
    """The policy that holds, and what there is to say of it.

    A policy file of a repository is compared with itself at the base: nobody loosens what he is judged by in the change that is judged.
    One on standard input, at REVISION:PATH or outside of every repository is the caller's own choice.

    Raises:
        InputError: the base's policy cannot be read by this version, or git knows no such base.
    """
    if ref is None or not os.path.isfile(policy.path) or work_tree(os.path.dirname(os.path.abspath(policy.path))) is None:
        return policy, tuple(_other_at(policy.path, ref))
    found = pasts(ref, [policy.path])[policy.path]
    if found is None:
        return policy, (_changed(f"new in this change: {ref} has no such policy, so that it binds as it stands"),)
    if found.data == read_bytes(policy.path, "a policy file"):
        return policy, ()
    name = found.renamed or policy.path
    held = replace(read_policy_bytes(found.data, f"{ref}:{name}"), path=policy.path)
    text = f"changed by this change: the policy as it is at {ref} binds (--policy REVISION:PATH chooses another)"
    return held, (_changed(text),)


def _other_at(path: str, ref: str | None) -> Iterator[Condition]:
    """Of a policy at REVISION:PATH, that the change under review has another one there."""
    revision, colon, name = path.partition(":")
    here = work_tree(os.path.realpath(os.getcwd()))
    if ref is None or here is None or not colon or os.path.lexists(path):
        return
    inside = os.path.relpath(os.path.realpath(name), here) if name.startswith("./") else name
    if inside in touched(here, commit_of(here, ref)):
        yield _changed(f"{escaped_path(name)} is changed by this change: the policy as it is at {revision} binds")


def unmatched(policy: Policy, judged: Sequence[tuple[str, Pipeline]]) -> Iterator[Condition]:
    """A warning for each rule that holds for none of these files, unless its pattern means other files of the repository."""
    for index, rule in enumerate(policy.rule):
        if any(rule.applies(path, pipeline, policy.path) for path, pipeline in judged):
            continue
        meant = [path for path, _ in judged if rule.files is None or matches(rule.files, path, policy.path)]
        selectors = (("files", rule.files), ("unit", rule.unit), ("adjacency", rule.adjacency and rule.adjacency.value))
        stated = ", ".join(f'{key} = "{escaped_path(value)}"' for key, value in selectors if value is not None)
        if meant or rule.files is None:
            yield _warning(f"rule[{index + 1}] ({stated}) holds for none of the files judged here")
        elif not _elsewhere(rule.files, policy.path):
            yield _warning(f"rule[{index + 1}] ({stated}) matches no file: nothing is held to it")


def unnamed(caps: Sequence[SharedCaps], together: Sequence[JudgedTogether]) -> Iterator[Condition]:
    """A warning for each table of caps on files together that no file of the repository is in."""
    for index, (one, found) in enumerate(zip(caps, together, strict=False)):
        if found.account is None and found.verdict == "pass":
            yield _warning(f"together[{index + 1}] ({one.words}): no file of the repository names it: nothing is held to it")


def _elsewhere(pattern: str, policy: str) -> bool:
    """Whether some file of the repository is meant that was not asked about."""
    beside = os.path.dirname(os.path.abspath(policy)) if os.path.isfile(policy) else os.getcwd()
    top = work_tree(beside)
    if top is None:
        return False
    try:
        names = listed(top, "ls-files", "-co", "--exclude-standard", "-z")
    except InputError:
        return False
    return any(matches(pattern, os.path.join(top, os.fsdecode(name)), policy) for name in names)


def _warning(text: str) -> Condition:
    return Condition("policy", "warn", text, ())


def _changed(text: str) -> Condition:
    return Condition(POLICY_CHANGE, "warn", text, ())
