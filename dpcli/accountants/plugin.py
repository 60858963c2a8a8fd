"""Registry of the accountants, and two lists of accountants that the order of questions depends on.

A name is what `--accountant` takes and what reports print; its target is imported when the accountant is first asked. The lists are read by
dpcli/analysis/inquiry.py. Both name accountants that certify a lower bound together with the upper one: an interval.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# Accountants whose interval may be so narrow that no other accountant can improve it, in the order in which they are asked.
SETTLING = ("analytic", "exact")

# Accountants that are asked, in this order, for a lower bound on the cost of some mechanism that a file allows.
BRACKETING = ("exact", "pld")

PLUGIN = Plugin(
    accountants={
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
)
