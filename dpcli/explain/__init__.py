"""The pages of section 7 of the manual (*.md), and the texts that `dpcli explain` prints."""
