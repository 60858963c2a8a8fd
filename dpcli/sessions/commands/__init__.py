"""The options of commands that run a session."""
