"""torchaudio's transforms, filters and models for speech: python speech.py [device]"""

import json
import sys

import torch
from torchaudio import functional, models, transforms


def trained(model: torch.nn.Module, inputs: torch.Tensor, *args: torch.Tensor) -> dict:
    """Returns the loss of the model, and the size of its gradient."""
    output = model(inputs, *args)
    loss = (output[0] if isinstance(output, tuple) else output).square().mean()
    loss.backward()
    gradient = sum(parameter.grad.square().sum() for parameter in model.parameters())
    return {"loss": loss.item(), "gradient": gradient.sqrt().item()}


def run(device: str) -> dict:
    torch.manual_seed(0)
    sound = torch.randn(2, 4000).to(device)
    conformer = models.Conformer(32, num_heads=4, ffn_dim=64, num_layers=2, depthwise_conv_kernel_size=7).to(device)
    letters = models.Wav2Letter(num_classes=10, input_type="mfcc", num_features=13).to(device)

    wave = transforms.Resample(8000, 16000).to(device)(sound)
    mel = transforms.MelSpectrogram(16000, n_fft=256, n_mels=32).to(device)(wave)
    mfcc = transforms.MFCC(16000, n_mfcc=13, melkwargs={"n_fft": 256, "n_mels": 32}).to(device)(wave)
    bass = functional.lowpass_biquad(wave, 16000, 500.0)
    frames = mel.clamp(min=1e-5).log().transpose(1, 2)
    lengths = torch.tensor([frames.shape[1], frames.shape[1] - 8]).to(device)
    values = {"wave": wave.square().mean(), "mel": mel.mean(), "mfcc": mfcc.mean(), "bass": bass.square().mean()}
    return {
        "device": str(wave.device),
        "values": {name: value.item() for name, value in values.items()},
        "conformer": trained(conformer, frames, lengths),
        "letters": trained(letters, mfcc),
    }


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
