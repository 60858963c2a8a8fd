"""The noise of a release: its laws, and how it is drawn."""
