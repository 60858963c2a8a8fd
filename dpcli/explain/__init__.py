"""What dpcli is and how it is used, in words: the pages of section 7 of the manual, and what `dpcli explain` prints."""
