"""What a replay holds a program to: the file's mechanism, at the stated bound on one record's contribution."""

from __future__ import annotations

from dpcli.audit.replay import Declared
from dpcli.audit.settings import AuditSettings
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Poisson


def declared(settings: AuditSettings, pipeline: Pipeline | None, varied: Adjacency) -> Declared:
    """Sensitivity C, twice that where a record is replaced, and the noise of the file's one mechanism with a noise multiplier.

    Raises:
        InputError: no sensitivity was stated.
    """
    if settings.sensitivity is None:
        raise InputError("expected audit.sensitivity (or --sensitivity), the bound on one record's contribution, found none")
    times = 2 if varied is Adjacency.REPLACE_ONE else 1
    entry = _noisy(pipeline)
    multiplier = getattr(entry.spec, "noise_multiplier", None) if entry is not None else None
    noise = settings.noise or (multiplier * settings.sensitivity if multiplier is not None else None)
    return Declared(
        sensitivity=times * settings.sensitivity,
        noise=noise,
        exchanged=times,
        rate=_rate(entry, pipeline),
        records=None if pipeline is None else pipeline.privacy.dataset_size,
        fresh=entry is None or not hasattr(entry.spec, "iterations"),
        significance=1.0 - settings.confidence,
    )


def _noisy(pipeline: Pipeline | None) -> Entry | None:
    """The one mechanism with a noise multiplier; None where there are several, or none."""
    entries = [entry for entry in pipeline.mechanisms if getattr(entry.spec, "noise_multiplier", None)] if pipeline else []
    return entries[0] if len(entries) == 1 else None


def _rate(entry: Entry | None, pipeline: Pipeline | None) -> float | None:
    """Of Poisson sampling without a largest batch, None for any other scheme."""
    if entry is None or pipeline is None or not isinstance(entry.sampling, Poisson) or entry.sampling.max_batch_size is not None:
        return None
    rate = entry.sampling.exact_rate(pipeline.privacy.dataset_size)
    return None if rate is None else float(rate)
