"""The pages of section 7 of the manual, and the texts of `dpcli explain`."""
