"""Arrays in, arrays out: nothing here knows what a mechanism is."""
