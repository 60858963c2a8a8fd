"""The measures of queries: classes whose fields are the keys of a [[query]] table."""
