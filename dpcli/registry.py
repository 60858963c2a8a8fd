"""Names to objects, resolved only when they are needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

MECHANISMS: dict[str, str] = {
    "gaussian": "dpcli.mechanisms.gaussian_spec:GaussianSpec",
    "gaussian-mixture": "dpcli.mechanisms.gaussian_mixture:GaussianMixtureSpec",
    "laplace": "dpcli.mechanisms.laplace:LaplaceSpec",
    "discrete-gaussian": "dpcli.mechanisms.discrete_gaussian:DiscreteGaussianSpec",
    "discrete-laplace": "dpcli.mechanisms.discrete_laplace:DiscreteLaplaceSpec",
    "randomized-response": "dpcli.mechanisms.randomized_response:RandomizedResponseSpec",
    "exponential": "dpcli.mechanisms.exponential:ExponentialSpec",
    "report-noisy-max": "dpcli.mechanisms.noisy_max:ReportNoisyMaxSpec",
    "permute-and-flip": "dpcli.mechanisms.permute_and_flip:PermuteAndFlipSpec",
    "sparse-vector": "dpcli.mechanisms.sparse_vector:SparseVectorSpec",
    "pure-dp": "dpcli.mechanisms.given:PureSpec",
    "approx-dp": "dpcli.mechanisms.given:ApproxSpec",
    "zcdp": "dpcli.mechanisms.given_renyi:ZcdpSpec",
    "rdp": "dpcli.mechanisms.given_renyi:RdpSpec",
    "composed": "dpcli.mechanisms.composed:ComposedSpec",
    "tree-aggregation": "dpcli.mechanisms.correlated:TreeSpec",
    "banded-toeplitz": "dpcli.mechanisms.correlated:ToeplitzSpec",
    "buffered-toeplitz": "dpcli.mechanisms.correlated:BufferedToeplitzSpec",
    "repeat-and-select": "dpcli.mechanisms.repeat_and_select:RepeatAndSelectSpec",
    "post-processing": "dpcli.mechanisms.post_processing:PostProcessingSpec",
}

SAMPLING: dict[str, str] = {
    "poisson": "dpcli.mechanisms.sampling:Poisson",
    "fixed-size": "dpcli.mechanisms.sampling:FixedSize",
    "balls-in-bins": "dpcli.mechanisms.sampling:BallsInBins",
    "shuffle": "dpcli.mechanisms.sampling:OncePerEpoch",
    "cyclic": "dpcli.mechanisms.sampling:Cyclic",
    "none": "dpcli.mechanisms.sampling:Unsampled",
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

# Tables of the pipeline file that one command reads, and everybody checks.
SECTIONS: dict[str, str] = {
    "train": "dpcli.train.settings:Train",
    "audit": "dpcli.audit.settings:AuditSettings",
    "sweep": "dpcli.sweep.settings:Sweep",
}

# The other format of `lint` and `schema`.
POLICY_KEYS = "dpcli.gate.policy_read:KEYS"
POLICY_READER = "dpcli.gate.policy_read:read_policy_bytes"

REPLAYED = "dpcli.train.replayed:replays"  # a file with [train]

FILTERS: dict[str, str] = {
    "zcdp": "dpcli.ledger.filter_zcdp:ZcdpFilter",
    "rdp": "dpcli.ledger.filter_rdp:RdpFilter",
    "gdp": "dpcli.ledger.filter_gdp:GdpFilter",
    "approx-dp": "dpcli.ledger.filter_approx:ApproxFilter",
    "advanced": "dpcli.ledger.filter_advanced:AdvancedFilter",
}

FORMATS: dict[str, str] = {
    "text": "dpcli.report.format_text:render",
    "table": "dpcli.report.format_table:render",
    "json": "dpcli.report.format_json:render",
    "jsonl": "dpcli.report.format_jsonl:render",
    "csv": "dpcli.report.format_csv:render",
    "markdown": "dpcli.report.format_markdown:render",
    "html": "dpcli.report.format_html:render",
    "summary": "dpcli.report.format_summary:render",
    "github": "dpcli.report.format_github:render",
    "gitlab": "dpcli.report.format_gitlab:render",
    "junit": "dpcli.report.format_junit:render",
    "sarif": "dpcli.report.format_sarif:render",
    "total": "dpcli.report.format_total:render",
}

PLOTS: dict[str, str] = {
    "epsilon-steps": "dpcli.plots.epsilon_steps:chart",
    "epsilon-sigma": "dpcli.plots.epsilon_sigma:chart",
    "delta-epsilon": "dpcli.plots.delta_epsilon:chart",
    "trade-off": "dpcli.plots.trade_off:chart",
    "rdp": "dpcli.plots.renyi:chart",
    "accountants": "dpcli.plots.accountants:chart",
}

CHART_FORMATS: dict[str, str] = {
    "terminal": "dpcli.report.chart_terminal:render",
    "svg": "dpcli.report.chart_svg:render",
    "png": "dpcli.report.chart_png:render",
    "csv": "dpcli.report.chart_csv:render",
    "vega-lite": "dpcli.report.chart_vega:render",
}


def load(target: str) -> Any:
    """Import and return the object that "package.module:name" names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def lazy(name: str) -> ModuleType:
    """A module that is imported when its first attribute is read; reading a file must not cost numpy."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
