"""Names to objects, resolved only when they are needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from _thread import RLock
from types import ModuleType
from typing import Any

MECHANISMS: dict[str, str] = {
    "gaussian": "dpcli.mechanisms.noise.gaussian_spec:GaussianSpec",
    "gaussian-mixture": "dpcli.mechanisms.noise.gaussian_mixture:GaussianMixtureSpec",
    "laplace": "dpcli.mechanisms.noise.laplace:LaplaceSpec",
    "discrete-gaussian": "dpcli.mechanisms.noise.discrete_gaussian_spec:DiscreteGaussianSpec",
    "discrete-laplace": "dpcli.mechanisms.noise.discrete_laplace:DiscreteLaplaceSpec",
    "randomized-response": "dpcli.mechanisms.choice.randomized_response:RandomizedResponseSpec",
    "exponential": "dpcli.mechanisms.choice.exponential:ExponentialSpec",
    "report-noisy-max": "dpcli.mechanisms.choice.noisy_max:ReportNoisyMaxSpec",
    "permute-and-flip": "dpcli.mechanisms.choice.permute_and_flip:PermuteAndFlipSpec",
    "sparse-vector": "dpcli.mechanisms.choice.sparse_vector:SparseVectorSpec",
    "propose-test-release": "dpcli.mechanisms.stability.propose_test_release:ProposeTestReleaseSpec",
    "stability-histogram": "dpcli.mechanisms.stability.stability_histogram:StabilityHistogramSpec",
    "pure-dp": "dpcli.mechanisms.stated.pure_and_approx:PureSpec",
    "approx-dp": "dpcli.mechanisms.stated.pure_and_approx:ApproxSpec",
    "zcdp": "dpcli.mechanisms.stated.renyi:ZcdpSpec",
    "rdp": "dpcli.mechanisms.stated.renyi:RdpSpec",
    "composed": "dpcli.mechanisms.combined.composed:ComposedSpec",
    "tree-aggregation": "dpcli.mechanisms.noise.correlated:TreeSpec",
    "banded-toeplitz": "dpcli.mechanisms.noise.correlated:ToeplitzSpec",
    "banded-matrix": "dpcli.mechanisms.noise.banded:BandedSpec",
    "buffered-toeplitz": "dpcli.mechanisms.noise.correlated:BufferedToeplitzSpec",
    "repeat-and-select": "dpcli.mechanisms.choice.repeat_and_select:RepeatAndSelectSpec",
    "gnmax": "dpcli.mechanisms.prediction.votes:GnMaxSpec",
    "confident-gnmax": "dpcli.mechanisms.prediction.votes:ConfidentGnMaxSpec",
    "lnmax": "dpcli.mechanisms.prediction.votes:LnMaxSpec",
    "pmixed": "dpcli.mechanisms.prediction.ensemble:EnsembleMixtureSpec",
    "private-decoding": "dpcli.mechanisms.prediction.private_decoding:PrivateDecodingSpec",
    "post-processing": "dpcli.mechanisms.stated.post_processing:PostProcessingSpec",
}

SAMPLING: dict[str, str] = {
    "poisson": "dpcli.mechanisms.sampling.schemes:Poisson",
    "fixed-size": "dpcli.mechanisms.sampling.schemes:FixedSize",
    "balls-in-bins": "dpcli.mechanisms.sampling.schemes:BallsInBins",
    "shuffle": "dpcli.mechanisms.sampling.schemes:OncePerEpoch",
    "cyclic": "dpcli.mechanisms.sampling.schemes:Cyclic",
    "none": "dpcli.mechanisms.sampling.schemes:Unsampled",
}

ACCOUNTANTS: dict[str, str] = {
    "basic": "dpcli.accountants.basic:ACCOUNTANT",
    "advanced-classical": "dpcli.accountants.advanced:CLASSICAL",
    "advanced": "dpcli.accountants.advanced:ACCOUNTANT",
    "optimal": "dpcli.accountants.optimal:ACCOUNTANT",
    "zcdp": "dpcli.accountants.zcdp:ACCOUNTANT",
    "moments": "dpcli.accountants.moments:ACCOUNTANT",
    "rdp-classic": "dpcli.accountants.rdp:CLASSIC",
    "rdp": "dpcli.accountants.rdp:ACCOUNTANT",
    "rdp-optimal": "dpcli.accountants.rdp_optimal:ACCOUNTANT",
    "analytic": "dpcli.accountants.analytic:ACCOUNTANT",
    "exact": "dpcli.accountants.exact:ACCOUNTANT",
    "pld": "dpcli.accountants.pld:ACCOUNTANT",
    "gdp": "dpcli.accountants.gdp:ACCOUNTANT",
}

# Accountants with an interval that may leave the others nothing to add, in the order in which they are asked.
SETTLING = ("analytic", "exact")

# Accountants with an interval, in the order in which they are asked what some mechanism that a file allows loses at the least.
BRACKETING = ("exact", "pld")

# Tables of the pipeline file that one command reads, and everybody checks.
SECTIONS: dict[str, str] = {
    "train": "dpcli.train.plan.settings:Train",
    "audit": "dpcli.audit.settings:AuditSettings",
    "sweep": "dpcli.sweep.settings:Sweep",
    "pate": "dpcli.predict.pate.settings:Pate",
    "pmixed": "dpcli.predict.pmixed.settings:Pmixed",
    "prompt": "dpcli.predict.prompt.settings:Prompt",
    "generate": "dpcli.predict.decode.settings:Generate",
    "federated": "dpcli.federated.settings:Federated",
}

# Tables of the file that become mechanisms of it, and how: (the file's values, findings to add to) -> entries.
RELEASED: dict[str, str] = {
    "source": "dpcli.release.settings:Source",
    "query": "dpcli.release.query:Query",
}
ENTRIES_OF_QUERIES = "dpcli.release.entries:entries"

# What a query asks for: each a class whose fields are the keys that it reads.
MEASURES: dict[str, str] = {
    "count": "dpcli.release.measures.counts:CountQuery",
    "sum": "dpcli.release.measures.sums:SumQuery",
    "mean": "dpcli.release.measures.mean:MeanQuery",
    "variance": "dpcli.release.measures.variance:VarianceQuery",
    "histogram": "dpcli.release.measures.histogram:HistogramQuery",
    "quantile": "dpcli.release.measures.quantile:QuantileQuery",
    "mode": "dpcli.release.measures.mode:ModeQuery",
    "stable-quantile": "dpcli.release.measures.stable:StableQuantileQuery",
    "interquartile-range": "dpcli.release.measures.stable:StableRangeQuery",
    "clustered-mean": "dpcli.release.measures.clustered:ClusteredMeanQuery",
    "top-k": "dpcli.release.measures.top:TopQuery",
    "threshold": "dpcli.release.measures.threshold:ThresholdQuery",
    "linear": "dpcli.release.measures.linear:LinearQuery",
}

# What a section says of the rest of the file: (its value, the file's tables, findings to add to).
JUDGED_IN_FILE: dict[str, str] = {
    "train": "dpcli.train.plan.entries:judge_entries",
    "sweep": "dpcli.sweep.setting:judge_values",
    "pmixed": "dpcli.predict.pmixed.settings:judge_mode",
    "federated": "dpcli.federated.judged:judge_rounds",
}

# What a section says of the rest of the file when a parameter was solved for: (its value, the pipeline with the answer) -> problems.
JUDGED_SOLVED: dict[str, str] = {
    "federated": "dpcli.federated.judged:judge_solved",
}

# What [train] may learn, and how its gradients are clipped: each a class whose fields are the keys that it reads.
TASKS: dict[str, str] = {
    "classification": "dpcli.train.plan.settings_classification:Classification",
    "causal-lm": "dpcli.train.plan.settings_language:CausalLm",
    "soft-prompt": "dpcli.train.plan.settings_language:SoftPrompt",
    "custom": "dpcli.train.plan.settings_custom:Custom",
    "loop": "dpcli.train.plan.settings_loop:Loop",
}

STYLES: dict[str, str] = {
    "flat": "dpcli.train.plan.clipping:FlatClipping",
    "automatic": "dpcli.train.plan.clipping:AutomaticClipping",
    "per-layer": "dpcli.train.plan.clipping:PerLayerClipping",
    "per-group": "dpcli.train.plan.clipping:PerGroupClipping",
    "adaptive": "dpcli.train.plan.clipping:AdaptiveClipping",
}

# Types of mechanisms that aggregate votes of teachers: what each does with the votes of a query.
AGGREGATORS: dict[str, str] = {
    "gnmax": "dpcli.predict.voting.aggregators:GnMax",
    "confident-gnmax": "dpcli.predict.voting.aggregators:ConfidentGnMax",
    "lnmax": "dpcli.predict.voting.aggregators:LnMax",
}

# Types of mechanism by which a token is drawn from clipped logits.
DECODING = frozenset({"private-decoding"})

# The other formats of `lint` and `schema`.
POLICY_KEYS = "dpcli.gate.policy_read:KEYS"
POLICY_READER = "dpcli.gate.policy_read:read_policy_bytes"
SCHEDULE_KEYS = "dpcli.ledger.planning.schedule_read:KEYS"
SCHEDULE_READER = "dpcli.ledger.planning.schedule_read:read_schedule_bytes"

# What a room asks one above it for, by name.
TAKEN_FOR_DATA = "dpcli.release.engines.files:would_match"  # whether a path is among the data that a pattern of a folder names
LEFT_BY_RUN = "dpcli.train.run.outcome:left_by_run"  # whether a run left a file in its folder
REPLAYED = "dpcli.train.replay.program:replays"  # a file with [train]

# What a dataset in a ledger may be cut into.
BLOCKS: dict[str, str] = {
    "day": "dpcli.ledger.blocks.kinds:Days",
    "week": "dpcli.ledger.blocks.kinds:Weeks",
    "region": "dpcli.ledger.blocks.kinds:Regions",
    "hash": "dpcli.ledger.blocks.kinds:Hashes",
}
FILTERS: dict[str, str] = {
    "zcdp": "dpcli.ledger.filters.zcdp:ZcdpFilter",
    "rdp": "dpcli.ledger.filters.rdp:RdpFilter",
    "gdp": "dpcli.ledger.filters.gdp:GdpFilter",
    "approx-dp": "dpcli.ledger.filters.approx_dp:ApproxFilter",
    "advanced": "dpcli.ledger.filters.advanced:AdvancedFilter",
}

FORMATS: dict[str, str] = {
    "text": "dpcli.document.formats.text:render",
    "table": "dpcli.document.formats.table:render",
    "json": "dpcli.document.formats.json:render",
    "jsonl": "dpcli.document.formats.jsonl:render",
    "csv": "dpcli.document.formats.csv:render",
    "markdown": "dpcli.document.formats.markdown:render",
    "html": "dpcli.document.formats.html:render",
    "summary": "dpcli.document.formats.summary:render",
    "github": "dpcli.document.formats.github:render",
    "gitlab": "dpcli.document.formats.gitlab:render",
    "junit": "dpcli.document.formats.junit:render",
    "sarif": "dpcli.document.formats.sarif:render",
    "total": "dpcli.document.formats.total:render",
}

# How a notebook shows what Python's functions return, by the name of its class; "" is for the others. Characters of a result's `repr`.
FRAGMENT = "dpcli.document.formats.html:fragment"
DOCUMENTS: dict[str, str] = {
    "Account": "dpcli.analysis.documents.python:account",
    "Calibration": "dpcli.analysis.documents.python:calibration",
    "DatasetBudget": "dpcli.ledger.documents.ledger_balance:of_budget",
    "Epsilons": "dpcli.analysis.documents.python:epsilons",
    "Pipeline": "dpcli.analysis.documents.python:pipeline",
    "PrivateResult": "dpcli.train.documents.training:of_result",
    "": "dpcli.analysis.documents.python:line",
}
LONGEST_LINE = 160

PLOTS: dict[str, str] = {
    "epsilon-steps": "dpcli.plots.epsilon_steps:chart",
    "epsilon-sigma": "dpcli.plots.epsilon_sigma:chart",
    "delta-epsilon": "dpcli.plots.delta_epsilon:chart",
    "trade-off": "dpcli.plots.trade_off:chart",
    "rdp": "dpcli.plots.renyi:chart",
    "accountants": "dpcli.plots.accountants:chart",
}

CHART_FORMATS: dict[str, str] = {
    "terminal": "dpcli.document.charts.terminal:render",
    "svg": "dpcli.document.charts.svg:render",
    "png": "dpcli.document.charts.png:render",
    "csv": "dpcli.document.charts.csv:render",
    "vega-lite": "dpcli.document.charts.vega:render",
}


def load(target: str) -> Any:
    """Import and return the object that "package.module:name" names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


class Displayed:
    """A result with a short `repr`, for which it says `_line`, and a page in a notebook. Ledgers' passwords are in neither."""

    __slots__ = ()

    def _line(self) -> str:
        """What tells it from others of its class; names from files as Python writes a text, so that no terminal acts on them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        line = self._line()
        return f"{type(self).__name__}({line if len(line) <= LONGEST_LINE else f'{line[:LONGEST_LINE]}...'})"

    def _repr_html_(self) -> str:
        """The document that the command prints as HTML, or the line where no command has one."""
        html: str = load(FRAGMENT)(load(DOCUMENTS.get(type(self).__name__, DOCUMENTS[""]))(self))
        return html


class LazyModule(ModuleType):
    """Not loaded yet: the first to read an attribute loads all of it, and whoever reads meanwhile waits.

    With importlib.util.LazyLoader, before Python 3.12.3, a second thread finds half of a module that is being loaded.
    """

    def __getattribute__(self, name: str) -> Any:
        spec = object.__getattribute__(self, "__spec__")
        with spec.loader_state["lock"]:
            if object.__getattribute__(self, "__class__") is LazyModule and not spec.loader_state["loading"]:
                spec.loader_state["loading"] = True  # what it reads of itself until then is read as it stands
                try:
                    spec.loader.exec_module(self)
                    object.__setattr__(self, "__class__", ModuleType)
                finally:
                    spec.loader_state["loading"] = False
        return ModuleType.__getattribute__(self, name)


def lazy(name: str) -> ModuleType:
    """A module that is imported when its first attribute is read, by one thread; reading a file must not cost numpy."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader_state = {"lock": RLock(), "loading": False}
    module.__class__ = LazyModule
    return sys.modules.setdefault(name, module)
