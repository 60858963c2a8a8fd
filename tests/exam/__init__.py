"""The exam of every registered mechanism, accountant, filter and format: whoever registers a new one is examined without being named here.

test_mechanisms: lower bound <= enumeration <= upper bound, the laws of any mechanism, and planted bugs. test_accountants: the same for
accountants. test_answers: every accountant answers or gives a reason. test_views: every view is a number or a refusal. test_filters: the
laws of privacy filters. test_formats: no format leaves out what it declares. test_coverage: every sensible combination is examined;
`python -m dpcli.exam` prints the table.
"""
