"""The exam that every registered mechanism, accountant, filter and format sits, those of other packages too: python -m dpcli.exam NAME.

A mechanism is compared with an enumeration of the releases that its keys allow (`enumeration/`), under every adjacency and sampling scheme
and by every accountant; its views may not contradict each other; laws hold that hold of any mechanism; and bugs that any mechanism could
have are planted in it, and must be seen. Accountants, filters and formats likewise. None is named: a new one is examined as the others are.
"""
