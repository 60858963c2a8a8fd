"""The tasks of [train]. Each module builds a model, records and a loss from the table. The code about privacy is elsewhere."""
