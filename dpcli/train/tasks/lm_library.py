"""Access to transformers and peft, which only language models need.

The functions import these libraries, load models and tokenizers with or without the network, and silence the libraries' logs. Code about
language models uses the libraries through `library`, whose message about a missing one says what to install.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dpcli.base.errors import InputError, Unavailable
from dpcli.train.tasks.user_code import relative_to_file

# Whether loading a model may only use files that are already on this machine.
CACHED_ONLY = ContextVar("CACHED_ONLY", default=False)
# Errors that the libraries raise for a model that cannot be loaded.
UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, ImportError)


def library(name: str) -> Any:
    """Return an imported library. Raises Unavailable if it is not installed; the message says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unavailable(f"language models: {name} is not installed: pip install 'dpcli[lm]'") from None


def load_pretrained(source: str, key: str, path: str, load: Callable[..., Any], table: str = "train") -> Any:
    """Return a model or a tokenizer, loaded from a folder or by name. A name is downloaded only if it is neither a folder nor cached.

    Args:
        source: Folder, relative to the file, or a name on the Hugging Face Hub.
        key, table: Key of the file that states the source, and its table, for messages.
        path: Path of the file.
        load: Function from_pretrained of a class of transformers.

    Raises:
        InputError: The folder does not exist or cannot be read, or the name is not cached and cannot be downloaded.
        Unavailable: The name is not cached, and nothing may be downloaded.
    """
    place, key_place = relative_to_file(source, path), f"{path}: {table}.{key}"
    local = os.path.isdir(place)
    if not local and not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", source):  # NAME or OWNER/NAME
        raise InputError(f"{key_place}: no such folder: {source}")
    try:
        with quiet(), offline():
            return load(place if local else source, local_files_only=True, trust_remote_code=False)
    except UNREADABLE as problem:
        if local:
            raise _loading_error(source, key_place, "a folder that transformers cannot load", problem) from None
        if CACHED_ONLY.get():
            raise Unavailable(str(_loading_error(source, key_place, "a name that is not cached here", problem))) from None
    try:  # a name that is not cached is downloaded
        with quiet():
            return load(source, trust_remote_code=False)  # code in the model's repository is never run
    except UNREADABLE as problem:
        raise _loading_error(source, key_place, "a name that is not cached here and cannot be downloaded", problem) from None


def _loading_error(source: str, key_place: str, actual: str, problem: Exception) -> InputError:
    """Return the error for a source that cannot be loaded, with the first line of the library's message."""
    message = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return InputError(f"{key_place}: expected a folder, or a name that transformers knows, found {source!r}, {actual} ({message})")


@contextmanager
def offline() -> Iterator[None]:
    """Keep transformers from using the network within the block. It would look for adapters there even with local_files_only."""
    constants = library("huggingface_hub").constants
    was_offline, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline


@contextmanager
def cached_only() -> Iterator[None]:
    """Forbid downloads of models and tokenizers within the block, for a dry run."""
    token = CACHED_ONLY.set(True)
    try:
        yield
    finally:
        CACHED_ONLY.reset(token)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and the warnings of the libraries within the block."""
    transformers, hub = library("transformers").utils.logging, library("huggingface_hub").utils.logging
    verbosities = {logs: logs.get_verbosity() for logs in (transformers, hub)}
    had_progress_bars = transformers.is_progress_bar_enabled()
    for logs in verbosities:
        logs.set_verbosity_error()
    transformers.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logs, verbosity in verbosities.items():
            logs.set_verbosity(verbosity)
        if had_progress_bars:
            transformers.enable_progress_bar()
