"""What a reader of a private release must be told: the items, where each is answered from, and the statement that they make up."""
