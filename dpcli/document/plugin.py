"""The registration of the formats: of documents, which commands print (-f, -o), and of charts, which `dpcli plot` and others draw.

A name is the word on the command line. Its target is the function that renders a `Document` (formats/) or a `Chart` (charts/).
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    formats={
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
    },
    chart_formats={
        "terminal": "dpcli.document.charts.terminal:render",
        "svg": "dpcli.document.charts.svg:render",
        "png": "dpcli.document.charts.png:render",
        "csv": "dpcli.document.charts.chart_csv:render",
        "vega-lite": "dpcli.document.charts.vega:render",
    },
    # Not the name of a class: the function renders the documents that the other entries of `displayed` return.
    displayed={"fragment": "dpcli.document.formats.html:fragment"},
)
