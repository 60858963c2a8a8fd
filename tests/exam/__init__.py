"""The exam that every registered mechanism, accountant, filter and format sits: whoever adds one is examined here without being named.

test_mechanisms: lower <= enumeration <= upper of every mechanism, what must hold of any, and bugs in each that must be seen.
test_accountants: the same of every accountant. test_answers: every accountant answers or says why. test_views: every view is a number
or a refusal. test_filters: what must hold of any privacy filter. test_formats: no format leaves out what it says that it shows.
test_coverage: nothing that makes sense is examined by nothing; `python -m dpcli.exam` prints what is examined by what.
"""
