"""Metrics of torchmetrics, gathered on the device: python metrics.py [device]"""

import json
import sys

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef, R2Score


def run(device: str) -> dict:
    torch.manual_seed(0)
    scores, labels = torch.randn(512, 5).softmax(1), torch.randint(0, 5, (512,))
    guesses, truths = torch.randn(512), torch.randn(512)
    classes = MetricCollection(
        [MulticlassAccuracy(5), MulticlassF1Score(5), MulticlassAUROC(5), MulticlassConfusionMatrix(5)]
    ).to(device)
    numbers = MetricCollection([MeanSquaredError(), R2Score(), PearsonCorrCoef()]).to(device)
    for part in range(4):
        rows = slice(128 * part, 128 * (part + 1))
        classes.update(scores[rows].to(device), labels[rows].to(device))
        numbers.update(guesses[rows].to(device), truths[rows].to(device))
    results = {**classes.compute(), **numbers.compute()}
    where = {str(value.device) for value in results.values()}
    return {
        "device": where.pop() if len(where) == 1 else str(where),
        "values": {k: v.tolist() for k, v in results.items()},
    }


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
