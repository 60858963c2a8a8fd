"""That a model and its loss keep records apart: the program followed operator by operator, its state compared, its records tried."""
