"""What other libraries computed for runs of their own, by library, from tests/vectors/peers."""

from __future__ import annotations

import json

from tests.command import ROOT

VECTORS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "tests" / "vectors" / "peers").glob("*.json"))}
