"""Rules about the names, edges and ranges that stand in an output, whatever noise is on its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.file.pipeline.model import Pipeline
from dpcli.lint.rule import HEAD, TRAIN, RuleFinding, RuleInfo, entries
from dpcli.lint.settings import OF_TEXT, covered, one_of, section, settings, switched_on

DOMAINS = {"vocabulary", "vocab", "tokenizer", "tokeniser", "classes", "categories", "labels", "domain"}
NAMES = DOMAINS | {"bins", "bin_edges", "scaler", "feature_range"}
FITTED = ("data", "from_data", "private", "private_data", "train", "fit", "fitted", "trained", "learned", "learnt", "infer", "auto")


def _private_names(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = "fitted to private records, so it reveals them: declare it, take it from public data, or count a noisy selection"
    for path, name, value in settings(pipeline):
        if name in NAMES and one_of(*FITTED)(value) and not covered(pipeline, name):
            yield RuleFinding(path, message)
    if not covered(pipeline, "tokenizer", "vocabulary"):
        yield from switched_on(pipeline, frozenset({"train_tokenizer", "build_vocabulary", "build_vocab"}), message)
    if pipeline.privacy.releases == "outputs":
        for path, entry in entries(pipeline):
            if isinstance(entry.partition, str):
                message = (
                    "list the parts in the file (partition = { of = ..., part = ... }): which parts appear in the output "
                    "must not depend on the data"
                )
                yield RuleFinding((*path, "partition"), message, "warning")


PRIVATE_NAMES = RuleInfo(
    code="DP210",
    severity="error",
    waivable=True,
    title="private keys, edges or ranges in the output",
    what="A section takes its vocabulary, tokenizer, classes, categories, labels, bins, bin_edges, domain, scaler or "
    'feature_range from the data ("from-data", "fit", "private", "auto", ...), or switches on train_tokenizer or '
    'build_vocab, without a note in covers; or, as a warning, a file with releases = "outputs" has a partition '
    "without naming its parts.",
    why="A rare word in a vocabulary, a key of a histogram or the largest value of a range can be one person's. Noise on "
    "the counts does not hide that the key is there.",
    fix="Declare the domain, take it from public data, or release it through a noisy threshold that is a mechanism of "
    "the file, and set covers.vocabulary (or the key's own name) to a note that says which.",
    source="Korolova et al. 2009, Releasing Search Queries and Clicks Privately, WWW; Desfontaines et al. 2022, arXiv:2006.03684",
    bad=HEAD + TRAIN + section({**OF_TEXT, "tokenizer": '"from-data"'}),
    good=HEAD + TRAIN + section({**OF_TEXT, "tokenizer": '"gpt2"'}),
    check=_private_names,
)
