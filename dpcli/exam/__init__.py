"""The exam of registered mechanisms, accountants, filters and output formats, including those of other packages: python -m dpcli.exam NAME.

A mechanism is compared with an enumeration of the releases that its keys allow (`enumeration/`), under every adjacency and sampling scheme
and by every accountant. Its views must not contradict each other, and it must obey the laws that every mechanism obeys. Bugs that any
mechanism could have are planted in it, and the exam must detect each of them. Accountants, filters and formats are examined in the same
way. The exam names no type itself, so a newly registered type is examined like the others.
"""
