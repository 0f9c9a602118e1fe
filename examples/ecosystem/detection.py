"""Boxes by torchvision's C++ operators, whose kernels are for the CPU and CUDA: python detection.py [device]"""

import json
import sys

import torch
from torchvision.ops import batched_nms, nms, roi_align, roi_pool


def run(device: str) -> dict:
    torch.manual_seed(0)
    corners = torch.rand(64, 2) * 40
    boxes = torch.cat([corners, corners + torch.rand(64, 2) * 20 + 1], 1).to(device)
    scores, classes = torch.rand(64).to(device), torch.randint(0, 3, (64,)).to(device)
    kept = nms(boxes, scores, 0.3)
    regions = torch.cat([torch.zeros(len(kept), 1, device=device), boxes[kept]], 1)
    image = torch.rand(1, 3, 64, 64).to(device).requires_grad_()
    aligned = roi_align(image, regions, (7, 7), sampling_ratio=2)
    aligned.square().sum().backward()
    results = {
        "kept": kept,
        "of each class": batched_nms(boxes, scores, classes, 0.3),
        "aligned": aligned.mean((0, 2, 3)),
        "pooled": roi_pool(image, regions, (3, 3)).mean((0, 2, 3)),
        "gradient": image.grad.sum((0, 2, 3)),
    }
    return {"device": str(aligned.device), "values": {name: value.tolist() for name, value in results.items()}}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
