"""What a run left, used: loaded, asked, measured and attested."""
