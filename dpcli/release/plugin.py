"""Noisy answers about a table."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

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

PLUGIN = Plugin(
    names=("disclosure", "ledger"),
    commands={
        "release": (
            "dpcli.release.commands.release:command",
            "Answer queries about a table with noise, once, and remember the answers.",
        ),
    },
    released={
        "source": "dpcli.release.settings:Source",
        "query": "dpcli.release.query:Query",
    },
    entries="dpcli.release.entries:entries",
    words={"measure": MEASURES},
    taken_for_data="dpcli.release.engines.files:would_match",
)
