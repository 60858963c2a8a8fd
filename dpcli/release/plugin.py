"""The registration of `dpcli release`, which answers queries about a table with noise, and of the measures of its queries.

A *measure* is a statistic such as count or mean. A file with [source] and [[query]] is read by every command: `entries` makes mechanisms of
its queries, so that `dpcli account` can price it.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# For each value of the key `measure`, the class whose fields are the keys of such a [[query]] table. A new measure is added here.
MEASURES: dict[str, str] = {
    "count": "dpcli.release.measures.counting:CountQuery",
    "distinct": "dpcli.release.measures.counting:DistinctQuery",
    "sum": "dpcli.release.measures.averages:SumQuery",
    "mean": "dpcli.release.measures.averages:MeanQuery",
    "variance": "dpcli.release.measures.averages:VarianceQuery",
    "histogram": "dpcli.release.measures.counting:HistogramQuery",
    "quantile": "dpcli.release.measures.quantiles:QuantileQuery",
    "mode": "dpcli.release.measures.most_common:ModeQuery",
    "stable-quantile": "dpcli.release.measures.stable:StableQuantileQuery",
    "interquartile-range": "dpcli.release.measures.stable:StableRangeQuery",
    "clustered-mean": "dpcli.release.measures.stable:ClusteredMeanQuery",
    "top-k": "dpcli.release.measures.most_common:TopQuery",
    "threshold": "dpcli.release.measures.counting:ThresholdQuery",
    "linear": "dpcli.release.measures.weighted_counts:LinearQuery",
}

PLUGIN = Plugin(
    names=("disclosure", "ledger"),  # the folders of dpcli that this one imports; without them it is left out
    commands={
        "release": (
            "dpcli.release.commands.release:command",
            "Answer queries about a table with noise, once, and remember the answers.",
        ),
    },
    released={  # the tables of a file that become mechanisms, by `entries`
        "source": "dpcli.release.data_source:Source",
        "query": "dpcli.release.query:Query",
    },
    entries="dpcli.release.query_entries:entries",
    words={"measure": MEASURES},
    displayed={  # for each class of results, the function that makes the document that a notebook shows
        "ReleasedAnswers": "dpcli.release.documents.python:answers_page",
        "PlannedRelease": "dpcli.release.documents.python:plan_page",
    },
    taken_for_data="dpcli.release.engines.source_files:would_match",  # whether a new file would be among the data of source.path
)
