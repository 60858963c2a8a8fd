"""The exam that every registered mechanism, accountant, filter and format sits: whoever adds one is examined here without being named.

test_references: lower <= enumeration <= upper of every mechanism. test_accountants: the same of every accountant. test_answers: every
accountant answers or says why. test_views: every view is a number or a refusal. test_laws: what must hold of any mechanism.
test_filters: what must hold of any privacy filter. test_formats: no format leaves out what it says that it shows. test_planted: bugs in
every registered mechanism, and that the exam sees them (those in accountants, filters and formats stand beside their own examination).
test_coverage: nothing that makes sense is examined by nothing; `python -m tests.exam` prints what is examined by what.
"""
