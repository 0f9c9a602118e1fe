"""Runs the Python parts of torchvision, and a spectrum: python vision_and_sound.py [device]"""

import json
import sys

import torch
from torchvision.ops import box_iou, generalized_box_iou_loss, sigmoid_focal_loss
from torchvision.transforms import v2


def run(device: str) -> dict:
    torch.manual_seed(0)
    corners = torch.rand(16, 2) * 50
    boxes = torch.cat([corners, corners + torch.rand(16, 2) * 30 + 1], 1).to(device)
    logits, truths = torch.randn(32, 5).to(device), torch.randint(0, 2, (32, 5)).float().to(device)
    image = torch.rand(3, 48, 64).to(device)
    changes = v2.Compose(
        [v2.Resize((32, 40)), v2.CenterCrop(24), v2.Normalize([0.5] * 3, [0.2] * 3), v2.GaussianBlur(3, 1.0)]
    )
    sound = torch.randn(1, 4000).to(device)
    spectrum = torch.stft(sound, 256, 128, window=torch.hann_window(256, device=device), return_complex=True).abs()
    results = {
        "box_iou": box_iou(boxes[:8], boxes[8:]).mean(),
        "giou": generalized_box_iou_loss(boxes[:8], boxes[8:]).mean(),
        "focal": sigmoid_focal_loss(logits, truths, reduction="mean"),
        "image": changes(image).mean(),
        "spectrum": spectrum.clamp(min=1e-5).log10().mean(),
    }
    return {"device": str(results["image"].device), "values": {name: value.item() for name, value in results.items()}}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
