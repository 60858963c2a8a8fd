"""The check that a model and its loss keep records apart: followed operator by operator, their state compared, made-up records tried."""
