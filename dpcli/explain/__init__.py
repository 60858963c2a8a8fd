"""The pages of section 7 of the manual (*.md), and the texts that `dpcli explain` prints.

topics.py reads the pages, lists.py makes the lists in them, and lookup.py finds the texts for a word. `dpcli man` writes the same pages.
"""
