"""Writes the checkpoints of this folder, as Opacus 1.6 and torch save them.

python tests/vectors/opacus/make.py    # where torch and opacus are installed
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    data = TensorDataset(torch.randn(64, 3), torch.randint(0, 2, (64,)))
    engine = PrivacyEngine(accountant="rdp")
    module, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        noise_multiplier=1.1,
        max_grad_norm=1.0,
    )
    for noise in (1.1, 1.5):
        optimizer.noise_multiplier = noise
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
    state = engine.accountant.state_dict()
    engine.save_checkpoint(path=HERE / "checkpoint.pt", module=module, optimizer=optimizer, checkpoint_dict={"epoch": 2})
    torch.save(state, HERE / "state_dict.pt")
    torch.save(engine.accountant, HERE / "accountant.pt")
    whole = {"model": model.state_dict(), "privacy": {"accountant": state}}
    torch.save(whole, HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    (HERE / "state_dict.json").write_text(json.dumps(state) + "\n")


if __name__ == "__main__":
    main()
