"""The command `dpcli gate`: judge pipelines against their caps, a policy and a base, with an exit code for CI."""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.options import composed, emit, output_options

# FILES, and the options of `dpcli.gate.gate_terms.checked_terms`.
gate_options = composed(
    click.argument("files", nargs=-1),
    click.option("--max-epsilon", type=float, help="Cap on epsilon; the smallest of this, a policy's and a file's holds."),
    click.option("--max-rho", type=float, help="Cap on rho (zCDP), beside the cap on epsilon; the smallest holds."),
    click.option(
        "--max-together", type=float, help="Cap on epsilon of each dataset: of all pipelines of the repository that name it."
    ),
    click.option("--delta", type=float, help="Delta of --max-epsilon; without that, no cap holds at a larger one."),
    click.option("--max-increase", type=float, help="Largest rise of epsilon over the base that passes; the smallest holds."),
    click.option(
        "--allow-statement-change",
        is_flag=True,
        help="Let a file change its unit, adjacency, delta, ... or loosen its own caps.",
    ),
    click.option("--base-ref", metavar="REF", help="Compare with the files as they stand at this git revision."),
    click.option("--baseline", metavar="JSON", help="Compare with what an earlier gate wrote with -f json."),
    click.option("--policy", metavar="FILE", help="Caps, requirements and waivers for all files; also REVISION:PATH."),
    click.option("--horizon", type=int, metavar="RUNS", help="Planned runs of each file, together within --horizon-epsilon."),
    click.option(
        "--horizon-epsilon", type=float, metavar="E", help="Cap on epsilon of all runs of --horizon, at the budget's delta."
    ),
    click.option("--ledger", metavar="URL", help="Also ask this ledger whether the runs of all files together would still fit."),
    click.option("--dataset", metavar="NAME", help="The dataset in the ledger; needed where it holds several."),
    click.option("--require-proof", is_flag=True, help="Fail a file whose epsilon, as printed, has no proof (dpcli certify)."),
    click.option("--as-of", metavar="DATE", help="Judge waivers as of this day (2030-12-31) instead of today, UTC."),
)


@click.command(short_help="Stop a change that overspends: verdict by exit code.")
@gate_options
@output_options("table", "findings", "checks", "records")
def command(files: tuple[str, ...], format_: str, outputs: tuple[str, ...], **flags: Any) -> int:
    """Judge FILES against their caps and, with --base-ref or --baseline, against what they cost before.

    Of the caps of flags, the policy and the file the tighter one holds; caps at different deltas hold each at its own. A comparison fails
    where the number no longer means the same (unit, adjacency, max_contributions, dataset_size, delta), or where the file has loosened
    its own caps and no other one holds in their place. The base's max_increase holds too. With --base-ref, each change is priced alone,
    and a failure is reported at the line that costs most.

    With --base-ref, links are followed, and a renamed file is compared with the deleted file that shares at least half of its keys and
    values. A file of a repository inside this one (a submodule) is compared with what stood in its place, else with the commit that the
    base links to. In a baseline, a relative path counts from the working directory and from the root of the repository around it. A file
    that is new is a warning where its increase is limited.

    Against a base, every changed key of [privacy], [budget] and [gate] is reported, and fails where it may weaken the file. A mechanism
    that was priced by its noise and now states its own cost (pure-dp, zcdp, post-processing, ...) fails as a restatement until a waiver
    lets it pass. With --base-ref, a key that lowers epsilon by what it says of data or program (sensitivity, partition, sampling scheme,
    a stated cost) is a warning, and so are other data to read ([train] data, [source] path, ...). A pipeline that was moved to a file
    that is not judged fails, a deleted one is a warning, and a policy that the change itself edits binds as it is at the base. So is
    a changed workflow file that calls dpcli. Without FILES, every pipeline that git knows and that differs from REF is judged, wherever it
    is, in repositories inside too; with FILES, others that differ are a warning.

    A waiver ([[gate.waiver]] in the file, [[waiver]] in the policy) lets one condition fail until a day; it never makes up for a number
    that cannot be certified. A horizon is a schedule fixed in advance; runs decided on after looking at results belong in a ledger.

    A policy's [[together]] caps what all pipelines of the repository say of one dataset, also those that are not in FILES; so does
    --max-together. Without either, FILES of one dataset whose sum is above the cap of each of them are a warning.

    --ledger adds up all the files of a call: each one run, or as many as its horizon plans.

    -o summary=PATH appends to PATH, as GITHUB_STEP_SUMMARY wants it; every other format replaces the file.

    Exit code 0: all pass. 1: a cap, an increase or a soundness rule says no. 2: a file cannot be read. 3: not certified. 4: the ledger
    cannot be asked. Of several files, 4 comes before 2, 2 before 3, 3 before 1.
    """
    from dpcli.gate.documents.gate import document
    from dpcli.gate.gate_terms import checked_terms
    from dpcli.gate.judge import gate

    return emit(document(gate(files, checked_terms(**flags))), format_, outputs)
