"""From a file to a disclosure."""

from __future__ import annotations

from dpcli.disclosure.facts import gather
from dpcli.disclosure.pictures import pictures
from dpcli.disclosure.statement import Statement, disclosure, registry_entry
from dpcli.document.chart import Chart
from dpcli.lint.run import checked_load
from dpcli.numerics.work import limited

FORMS = {False: (disclosure, "report"), True: (registry_entry, "registry")}


@limited
def draft(path: str, delta: float | None, registry: bool, illustrated: bool) -> tuple[Statement, tuple[Chart, ...], str]:
    """The form that is asked for, its pictures, and the name of its machine form. Raises InvalidFile, InputError."""
    pipeline, diagnostics = checked_load(path, delta)
    facts = gather(pipeline, delta, diagnostics)
    form, name = FORMS[registry]
    return form(facts), pictures(facts) if illustrated and not registry else (), name
