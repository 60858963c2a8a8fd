"""The exam that every registered mechanism and accountant sits: whoever adds one is examined here without being named.

test_references: lower <= enumeration <= upper. test_answers: every accountant answers or says why. test_views: every view is a number or
a refusal. test_laws: what must hold of any mechanism. test_planted: bugs in every registered mechanism, and that the exam sees them.
"""
