"""Trains a small network with Lightning's Trainer, which chooses the device by itself.

python examples/ecosystem/lightning_trainer.py [accelerator=mydev] [strategy=ddp] [precision=bf16-mixed] [devices=2]
"""

import json
import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
        self.losses: list[float] = []
        self.dtypes: set[str] = set()

    def training_step(self, batch, index):
        inputs, targets = batch
        outputs = self.network(inputs)
        self.dtypes.add(str(outputs.dtype))
        loss = nn.functional.cross_entropy(outputs.float(), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-2)


def run(**options) -> dict:
    lightning.seed_everything(0, verbose=False)
    inputs = torch.randn(64, 64)
    data = DataLoader(TensorDataset(inputs, inputs[:, :4].argmax(1)), batch_size=8)
    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(model, data)
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return {
        "device": str(trainer.strategy.root_device),
        "computed in": sorted(model.dtypes),
        "scaler": scaler is not None and scaler.is_enabled(),
        "strategy": type(trainer.strategy).__name__,
        "rank": trainer.global_rank,
        "losses": model.losses,
    }


if __name__ == "__main__":
    options = dict(argument.split("=") for argument in sys.argv[1:])
    if "devices" in options:
        options["devices"] = int(options["devices"])
    result = run(**options)
    if result["rank"] == 0:
        print(json.dumps(result))
