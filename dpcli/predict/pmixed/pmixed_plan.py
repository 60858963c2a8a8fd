"""The [pmixed] table and its plan: shards, tokens and their cost, fixed before any data are read. This module does not import torch.

Private texts are dealt out to *shards* by a hash (shards.py), and one model is fitted on each. Each token is drawn from some of the models,
after they are moved to within a *radius* of a public model; it is one step of the mechanism, and is charged. The guarantee of the sound
mode needs two things: one change moves the model of one shard only (`_require_units`, SHARD_PREMISES), and the radius holds for every
token. The published protocol (mode "paper") has no guarantee: such a file can be run to compare, and is never priced. A `Key` has the help
text of a key and the `Constraint` on its value; `needs` is the setting without which the key is refused, `claim` marks a statement that
dpcli does not enforce, and `names_data` a key that names data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, POSITIVE, Constraint, Key, NeededSetting
from dpcli.base.premise import Premises
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.read import examine, targets, toml_document
from dpcli.file.pipeline.section import SectionTable
from dpcli.file.toml.findings import Findings, InvalidFile, Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.prediction.ensemble import EnsembleMixtureSpec
from dpcli.predict.pmixed.published_protocol import Published
from dpcli.predict.prediction_plan import PredictionPlan, same_source, table_of, up_to, with_entry
from dpcli.predict.shards import SHARD_PREMISES, refuse_replaced_units
from dpcli.sessions.priced import one_entry, priced_file, require_budget
from dpcli.train.plan.settings import DEVICE
from dpcli.train.plan.settings_classification import WITH_COLUMNS
from dpcli.train.plan.settings_language import Lora
from dpcli.train.plan.sources import source_rule

if TYPE_CHECKING:
    from dpcli.analysis.account import Account

COUNTING = "ngram"  # value of `model` for dpcli's own model, which counts tokens
PUBLIC_TEXT = "a text file or module:function, declared public,"
TOKENIZERS = "bytes, a path or a name, or module:function"
DATA = source_rule((".txt", ".csv", ".jsonl", ".parquet"))
NGRAM_SIZE = up_to(3, "3")
ORDER = Constraint("a whole number from 2 to 1000", lambda x: 2 <= x <= 1000, (("minimum", 2), ("maximum", 1000)))
NO_GUARANTEE = (
    "the published protocol is not a DP guarantee: its Theorem 5.1 needs a bound on the divergence at every order, and the protocol bounds "
    "it at one order only"
)

# Conditions under which keys are read. A key is refused in a file in which its condition does not hold.
NGRAM = NeededSetting(f'model = "{COUNTING}"', lambda table: table.model == COUNTING)
ADAPTED = NeededSetting("lora", lambda table: table.lora is not None)
PAPER = NeededSetting('mode = "paper"', lambda table: table.mode == "paper")
SOUND = NeededSetting('mode = "sound"', lambda table: table.mode == "sound")
IN_COLUMNS = NeededSetting("data in a file with columns", lambda table: os.path.splitext(table.data)[1] in WITH_COLUMNS)
PLAIN_TEXT = NeededSetting("data in a .txt file", lambda table: os.path.splitext(table.data)[1] == ".txt")


@dataclass(frozen=True, slots=True)
class Pmixed:
    """The [pmixed] table: text from an ensemble of language models, each fine-tuned without noise on a shard of private texts.

    Each model is moved towards a public model before a token is drawn. A mechanism of type pmixed states the numbers of shards and tokens,
    the rate and the radius.
    """

    premises: ClassVar[Premises] = SHARD_PREMISES

    # Example tables, which together contain every key.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "data": "mails.csv",
            "model": "gpt2",
            "mechanism": "tokens",
            "tokenizer": "gpt2",
            "text": "body",
            "units": "author",
            "salt": "2031",
            "context": 64,
            "projection": "mix",
            "temperature": 0.8,
            "max_tokens": 32,
            "lora": {"rank": 4},
            "learning_rate": 0.0002,
            "epochs": 15,
            "batch_size": 8,
            "test": "news.txt",
            "queries": "postgresql://answers@localhost/budgets#mails",
            "output": "runs/mails",
            "device": "cuda:0",
        },
        {
            "data": "mails.txt",
            "model": COUNTING,
            "public": "news.txt",
            "ngram": 3,
            "tokenizer": "bytes",
            "record": "paragraph",
            "mode": "paper",
            "order": 3,
        },
    )

    data: Annotated[str, Key("private texts: a .txt, .csv, .jsonl or .parquet file, or module:function", DATA, names_data=True)]
    model: Annotated[
        str, Key("public language model to fine-tune: a path or name, module:function, or ngram (counts of public texts)")
    ]
    mechanism: Annotated[str | None, Key("name of the entry of type pmixed, if the file has several")] = None
    public: Annotated[
        str | None, Key("public text that ngram counts first: a .txt file, or module:function", needs=NGRAM, names_data=True)
    ] = None
    ngram: Annotated[int, Key("largest number of successive tokens that ngram counts", NGRAM_SIZE, needs=NGRAM)] = 2
    tokenizer: Annotated[
        str | None,
        Key("public tokenizer: bytes, a path or a name, or module:function; by default, the model's own"),
    ] = None
    text: Annotated[str, Key("column of the text in a file with columns", needs=IN_COLUMNS)] = "text"
    record: Annotated[
        Literal["line", "paragraph"], Key("unit of text in a .txt file: a line, or a paragraph", needs=PLAIN_TEXT)
    ] = "line"
    units: Annotated[
        str | None,
        Key(
            "column that names the owner of each text, whose texts share a shard; a function returns texts and units",
            claim=True,
        ),
    ] = None
    salt: Annotated[str, Key("public text in the hash that assigns units to shards; another text assigns them anew")] = ""
    context: Annotated[int, Key("largest number of tokens of a training record; longer texts are split, after sharding", COUNT)] = (
        128
    )
    mode: Annotated[
        Literal["sound", "paper"],
        Key(
            "sound (the mechanism's radius bounds every log-probability ratio), or paper (the published protocol, for comparison: NOT a "
            "DP guarantee, and only dpcli pmixed reads such a file)"
        ),
    ] = "sound"
    projection: Annotated[
        Literal["clip", "mix"],
        Key(
            "projection to within the radius: clip (nearest distribution), or mix (largest share of the model that fits)",
            needs=SOUND,
        ),
    ] = "clip"
    order: Annotated[int, Key("Renyi order at which the published protocol bounds the divergence", ORDER, needs=PAPER)] = 3
    temperature: Annotated[float, Key("sampling temperature of every model, public and private, before projection", POSITIVE)] = 1.0
    max_tokens: Annotated[int, Key("largest number of tokens of one answer", COUNT)] = 64
    lora: Annotated[Lora | None, Key("low-rank adapters, one for each shard; needed for a torch model")] = None
    learning_rate: Annotated[float, Key("learning rate of Adam, which decreases to zero", POSITIVE, needs=ADAPTED)] = 2e-4
    epochs: Annotated[int, Key("number of passes over a shard in fine-tuning", COUNT, needs=ADAPTED)] = 15
    batch_size: Annotated[int, Key("number of records of a step in fine-tuning", COUNT, needs=ADAPTED)] = 8
    test: Annotated[
        str | None,
        Key("public text on which dpcli pmixed evaluate measures: a .txt file, or module:function", names_data=True),
    ] = None
    queries: Annotated[
        str | None,
        Key(
            "place of the count without a ledger: a path or postgresql://user@host/database#name; by default, the run's folder",
            claim=True,
        ),
    ] = None
    output: Annotated[str | None, Key("folder of the fine-tuned models, which are private; by default, runs/NAME")] = None
    device: Annotated[str, Key("cpu, cuda, or cuda:N", DEVICE)] = "cpu"

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the table, each as (path of the key, text after "expected", text after "found")."""
        if self.model == COUNTING:
            for name, expected in (("public", PUBLIC_TEXT), ("tokenizer", TOKENIZERS)):
                if getattr(self, name) is None:
                    yield (name,), f'{expected} with model = "{COUNTING}"', "none"
            if self.lora is not None:
                yield ("lora",), f'no lora with model = "{COUNTING}", which is fine-tuned by counting', "one"
        for name in ("public", "test"):
            if same_source(self.data, getattr(self, name)):
                yield (name,), "text declared public", "the source of the private texts"
        if self.max_tokens >= 10**9:  # no context is that long (UNLIMITED in models/model_loading.py)
            yield ("max_tokens",), "fewer than 10^9 tokens", str(self.max_tokens)


def judge_mode(table: Pmixed, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding if the file uses the published protocol. The reader of files calls this (`judged_in_file` in plugin.py).

    The protocol certifies nothing. To price, gate or charge such a file would be to rely on a wrong number. Only `plan_of` here accepts it.
    """
    if table.mode == "paper":
        findings.add(
            "DP005",
            ("pmixed", "mode"),
            '"sound" in a file that is accounted for, gated or charged',
            f'"paper": {NO_GUARANTEE}',
            "only dpcli pmixed accepts it",
        )


@dataclass(frozen=True, slots=True)
class PmixedPlan(PredictionPlan):
    """The plan of one ensemble.

    Attributes:
        free: Keys that may change after a fit. They are public, and the cost does not depend on them.
        entry: Entry of the mechanism; each of its steps draws a token.
        account: Account of all tokens; None under the published protocol, which certifies nothing.
        published: Parameters and claim of the published protocol; None in a sound file.
    """

    section: ClassVar[str] = "pmixed"  # name of the table in the file
    free: ClassVar[tuple[str, ...]] = ("temperature", "max_tokens", "test", "queries", "output", "device")
    accounts: ClassVar[tuple[str, ...]] = ("account",)  # names of the fields that hold an account of the file
    entry: Entry
    pmixed: Pmixed
    account: Account | None
    published: Published | None

    @property
    def spec(self) -> EnsembleMixtureSpec:
        assert isinstance(self.entry.spec, EnsembleMixtureSpec)
        return self.entry.spec

    @property
    def tokens(self) -> int:
        """Return the largest number of tokens that may be drawn in all."""
        return self.entry.steps

    @property
    def bounded(self) -> tuple[str, str] | None:
        """Return the key and the column of units if a unit is a whole shard, which is added or removed.

        The result is None otherwise: all texts of a unit are then in one shard.
        """
        if self.pmixed.units is None or self.spec.change != "remove-shard":
            return None
        return "pmixed.units", self.pmixed.units

    def require_budget(self) -> None:
        """Raise Denied if the file's own budget does not pay for all tokens."""
        if self.account is not None:
            require_budget(self.account.budget, self.path)

    def with_entry(self, entry: Entry) -> Self:
        """Return the plan with this entry instead of its own."""
        return replace(self, entry=entry, pipeline=with_entry(self.pipeline, entry))


def plan_of(path: str) -> PmixedPlan:
    """Return the plan of a file.

    Raises:
        InputError: If the file cannot be read, or asks for something impossible.
        CannotCertify: If no accountant can certify the cost.
    """
    data = read_bytes(path)
    table, pipeline = _read(data, path)
    entry = one_entry(path, pipeline, ("pmixed",), "pmixed", table.mechanism)
    _require_units(pipeline, table, entry, path)
    if table.mode == "paper":
        published = _published_protocol(pipeline, table, entry, path)
        return PmixedPlan(path, pipeline, entry, table, account=None, published=published)
    return PmixedPlan(path, pipeline, entry, table, account=priced_file(path, pipeline).account, published=None)


def _read(data: bytes, path: str) -> tuple[Pmixed, Pipeline]:
    """Return the table and the pipeline. The file gets the checks of every command, except that the published protocol is accepted."""
    from dpcli.analysis.calibrate_file import solved_pipeline

    tables = toml_document(data, path).tables
    is_paper = type(tables.get("pmixed")) is dict and tables["pmixed"].get("mode") == "paper"
    pipeline, findings = examine(data, path)  # does not refuse a file with findings, unlike the readers of other commands
    # A file with the published protocol must have one finding only, the one of `judge_mode`.
    judges_mode_alone = [(finding.rule, finding.key) for finding in findings] == [("DP005", "pmixed.mode")]
    if not is_paper or pipeline is None or not judges_mode_alone:
        if findings:
            raise InvalidFile(findings)
        return table_of(data, path, Pmixed, "pmixed"), solved_pipeline(data, path)
    if targets(data, path):  # Keys with the value "calibrate" would be solved for with a cost, which the protocol does not have.
        raise InputError(f'{path}: expected numbers with pmixed.mode = "paper", found "calibrate"')
    table = SectionTable("pmixed").read(tables["pmixed"], KeyPlace(("pmixed",), Findings()))
    assert isinstance(table, Pmixed)
    return table, pipeline


def _require_units(pipeline: Pipeline, table: Pmixed, entry: Entry, path: str) -> None:
    """Raise InputError if one change may affect several shards: the account prices the change of one."""
    privacy = pipeline.privacy
    assert isinstance(entry.spec, EnsembleMixtureSpec)
    removes_shards = entry.spec.change == "remove-shard"
    if table.units is not None:
        if not removes_shards:
            refuse_replaced_units("pmixed.units", privacy.adjacency, path)
        return
    needed_by = None
    if removes_shards:
        needed_by = 'change = "remove-shard"'
    elif (privacy.max_contributions or 1) > 1:
        needed_by = f"max_contributions = {privacy.max_contributions}"
    if needed_by is not None:
        raise InputError(f"{path}: pmixed.units: set it to the column that names each text's owner, which {needed_by} needs")


def _published_protocol(pipeline: Pipeline, table: Pmixed, entry: Entry, path: str) -> Published:
    """Return the parameters of the published protocol for the epsilon that the file's budget claims.

    Raises CannotCertify if the protocol has no radius for it.
    """
    assert isinstance(entry.spec, EnsembleMixtureSpec)
    budget, delta = pipeline.budget, pipeline.privacy.delta
    if budget is not None and budget.delta is not None:
        delta = budget.delta
    if budget is None or budget.epsilon is None or not delta:
        raise InputError(f'{path}: budget: state epsilon and delta > 0 with pmixed.mode = "paper"')
    published = Published(table.order, rate=entry.spec.model_rate, queries=entry.steps, epsilon=budget.epsilon, delta=delta)
    _ = published.target  # raises CannotCertify before any model is fitted
    return published
