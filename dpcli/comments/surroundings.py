"""What a CI system says of the pull request that it runs for, in variables of the environment; flags come first."""

from __future__ import annotations

import json
import os
import re

from dpcli.base.errors import InputError
from dpcli.comments.client import ApiClient, SecretToken, checked_api
from dpcli.comments.github import GitHubPull
from dpcli.comments.gitlab import GitLabMerge
from dpcli.comments.waiting import Told, silent
from dpcli.file.toml.limits import read_head

LONGEST = 1 << 25  # bytes of an event, of which GitHub allows 25 MB
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_PROJECT = re.compile(r"[0-9]+|[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+")


def github_pull(repository: str | None, number: int | None, api: str | None, patience: float, told: Told = silent) -> GitHubPull:
    """The pull request of a GitHub workflow. Raises InputError for what neither a flag nor the environment says."""
    name = _either("--repository", repository, "GITHUB_REPOSITORY")
    if not _REPOSITORY.fullmatch(name) or set(name.split("/")) & {".", ".."}:
        raise InputError(f"--repository: expected OWNER/NAME, found {name!r}")
    root = checked_api(api or os.environ.get("GITHUB_API_URL") or "https://api.github.com", "--api (GITHUB_API_URL)")
    token = _token("GITHUB_TOKEN", "Authorization", "Bearer ")
    hint = "GITHUB_TOKEN needs the permission to write pull requests, which a pull request from a fork does not get"
    return GitHubPull(ApiClient(root, token, patience, hint, told), name, number or _number_of_event())


def gitlab_merge(project: str | None, number: int | None, api: str | None, patience: float, told: Told = silent) -> GitLabMerge:
    """The merge request of a GitLab pipeline. Raises InputError for what neither a flag nor the environment says."""
    name = _either("--project", project, "CI_MERGE_REQUEST_PROJECT_ID")
    if not _PROJECT.fullmatch(name):
        raise InputError(f"--project: expected a number or a path such as GROUP/NAME, found {name!r}")
    root = checked_api(api or os.environ.get("CI_API_V4_URL") or "https://gitlab.com/api/v4", "--api (CI_API_V4_URL)")
    job = not os.environ.get("GITLAB_TOKEN") and bool(os.environ.get("CI_JOB_TOKEN"))
    token = _token("CI_JOB_TOKEN", "JOB-TOKEN") if job else _token("GITLAB_TOKEN", "PRIVATE-TOKEN")
    hint = (
        "GitLab lets few job tokens comment: set GITLAB_TOKEN to a project access token with the scope api"
        if job
        else "GITLAB_TOKEN needs the scope api, and to be of a member who may comment"
    )
    found = number if number is not None else _whole(_either("--number", None, "CI_MERGE_REQUEST_IID"), "CI_MERGE_REQUEST_IID")
    return GitLabMerge(ApiClient(root, token, patience, hint, told), name, found, job)


def _either(flag: str, value: str | None, variable: str) -> str:
    found = value or os.environ.get(variable)
    if not found:
        raise InputError(f"expected {flag}, or {variable} in the environment, found neither")
    return found


def _token(variable: str, header: str, prefix: str = "") -> SecretToken:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(f"expected a token in the variable {variable}, found none")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise InputError(f"{variable}: expected a token of visible ASCII characters, found others")
    return SecretToken(variable, header, value, prefix)


def _number_of_event() -> int:
    """Of the ref that a pull request is checked out from, else of what started the workflow."""
    ref = re.fullmatch(r"refs/pull/([0-9]+)/(merge|head)", os.environ.get("GITHUB_REF", ""))
    if ref:
        return _whole(ref[1], "GITHUB_REF")
    path = os.environ.get("GITHUB_EVENT_PATH")
    pull = None
    if path:
        try:
            event = json.loads(read_head(path, LONGEST, "an event"))
        except (ValueError, RecursionError):
            raise InputError(f"{path}: expected the JSON of an event, found something else") from None
        pull = event.get("pull_request") if isinstance(event, dict) else None
    number = pull.get("number") if isinstance(pull, dict) else None
    if number is None:
        raise InputError("expected --number, or a workflow that runs for a pull request, found neither")
    return _whole(str(number), "GITHUB_EVENT_PATH")


def _whole(text: str, variable: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", text):
        raise InputError(f"{variable}: expected the number of a pull request, found {text!r}")
    return int(text)
