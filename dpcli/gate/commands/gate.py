"""The command `dpcli gate`, which judges pipelines against their caps, a policy and a base, with an exit code for CI.

This file only declares the flags: gate_terms.py checks them, judge.py judges, and documents/gate.py puts the verdicts into words.
"""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.options import composed, emit, output_options

# FILES, and one option for each field of GateFlags (gate_terms.py). `dpcli comment` has these options too.
gate_options = composed(
    click.argument("files", nargs=-1),
    click.option("--max-epsilon", type=float, help="Cap on epsilon; the smallest cap of flag, policy and file applies."),
    click.option("--max-rho", type=float, help="Cap on rho (zCDP), in addition to a cap on epsilon; the smallest applies."),
    click.option(
        "--max-together", type=float, help="Cap on epsilon of each dataset, over all pipelines of the repository that name it."
    ),
    click.option("--delta", type=float, help="Delta of --max-epsilon; without that flag, largest delta of any cap."),
    click.option("--max-increase", type=float, help="Largest allowed rise of epsilon over the base; the smallest limit applies."),
    click.option(
        "--allow-statement-change",
        is_flag=True,
        help="Allow a file to change its unit, adjacency, delta, ..., or to loosen its caps.",
    ),
    click.option("--base-ref", metavar="REF", help="Compare with the files at this git revision."),
    click.option("--baseline", metavar="JSON", help="Compare with the JSON that an earlier gate wrote with -f json."),
    click.option("--policy", metavar="FILE", help="Caps, requirements and waivers for all files; also REVISION:PATH."),
    click.option("--horizon", type=int, metavar="RUNS", help="Planned runs of each file, together within --horizon-epsilon."),
    click.option(
        "--horizon-epsilon", type=float, metavar="E", help="Cap on epsilon of all runs of --horizon, at the budget's delta."
    ),
    click.option("--ledger", metavar="URL", help="Also check whether the runs of all files together still fit in this ledger."),
    click.option("--dataset", metavar="NAME", help="Dataset in the ledger; required if the ledger has several."),
    click.option("--require-proof", is_flag=True, help="Fail a file whose epsilon, as printed, has no proof (dpcli certify)."),
    click.option(
        "--certificate",
        "certificates",
        multiple=True,
        metavar="PATH",
        help="As --require-proof, but check the certificate at PATH (dpcli certify --write) and search for no proof; repeatable.",
    ),
    click.option("--as-of", metavar="DATE", help="Judge waivers as of this day (2030-12-31) instead of today, UTC."),
)


@click.command(short_help="Judge pipelines against caps and their earlier cost.")
@gate_options
@output_options("table", "findings", "checks", "records")
def command(files: tuple[str, ...], format_: str, outputs: tuple[str, ...], **flags: Any) -> int:
    """Judge FILES against their caps and, with --base-ref or --baseline, against their earlier cost.

    Of the caps that flags, the policy and the file state, the tightest cap applies. Caps at different deltas all apply, each at its delta.
    A comparison fails if the meaning of epsilon has changed (unit, adjacency, max_contributions, dataset_size, delta), or if the file has
    loosened its caps and no other cap replaces them. The base's max_increase applies too. With --base-ref, the cost of each change alone is
    computed, and a failure is reported at the line that costs most.

    With --base-ref, links are followed, and a renamed file is compared with the deleted file that shares at least half of its keys and
    values. A file of a repository inside this one (a submodule) is compared with the file that was at its path, or else with the commit to
    which the base links. In a baseline, a relative path may be relative to the working directory or to the root of the repository around
    it. A new file gives a warning if its increase is limited.

    Against a base, every changed key of [privacy], [budget] and [gate] is reported, and fails if it may weaken the file. If the cost of a
    mechanism followed from its noise, and the mechanism now states its own cost (pure-dp, zcdp, post-processing, ...), the change fails as
    a restatement unless a waiver covers it. With --base-ref, a key that lowers epsilon by a claim about data or program (sensitivity,
    partition, sampling scheme, a stated cost) gives a warning, and so does a change of the data that are read ([train] data, [source] path,
    ...). A pipeline that was moved to a file that is not judged fails, and a deleted pipeline gives a warning. If the change edits the
    policy, the base's version applies, with a warning. A changed workflow file that calls dpcli gives a warning too. Without FILES, every
    pipeline that git tracks and that differs from REF is judged, wherever it is, also in repositories inside. With FILES, other pipelines
    that differ give a warning.

    A waiver ([[gate.waiver]] in the file, [[waiver]] in the policy) lets one condition fail until a day. It never covers a number that
    cannot be certified. A horizon is a schedule that is fixed in advance. Charge runs that depend on earlier results to a ledger.

    [[together]] in a policy caps the sum over all pipelines of the repository that name a dataset, including pipelines that are not in
    FILES; so does --max-together. Without a cap, FILES of one dataset give a warning if their sum exceeds the cap of each of them.

    --ledger adds up all files of a call, each with one run or with the runs of its horizon.

    -o summary=PATH appends to PATH, as GITHUB_STEP_SUMMARY requires. Every other format replaces the file.

    Exit code 0: all pass. 1: a cap, an increase or a soundness rule fails. 2: a file cannot be read. 3: not certified. 4: the ledger
    cannot be read. Of several files, 4 comes before 2, 2 before 3, 3 before 1.
    """
    from dpcli.gate.documents.gate import document
    from dpcli.gate.gate_terms import GateFlags, checked_terms
    from dpcli.gate.judge import gate

    return emit(document(gate(files, checked_terms(GateFlags(**flags)))), format_, outputs)
