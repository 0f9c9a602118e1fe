"""The model set: one table of small models, randomly initialized, for every test and benchmark that wants whole models.

``build(name)`` gives the same weights and the same batch each time, on the CPU, in training mode and without dropout;
``Example.to`` copies both to a device. A training step of any of them takes some ten milliseconds on two cores.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _import_torchvision() -> None:
    """Imports torchvision, of whose Python part transformers and timm import some, also where its operators are absent.

    The package index has them for CUDA's torch only. Beside the CPU's torch they do not load, and torchvision imports
    only if the two that it describes at import are declared. Nothing here calls them.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        # [docs: torchvision]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        # [docs: end]
        importlib.import_module("torchvision")


_import_torchvision()
import timm.models  # noqa: E402
import transformers  # noqa: E402

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 256, 64, 64, 4, 2
RECURRENT_LENGTH = 8  #: short, because a compiler unrolls it
CLASSES, PIXELS, BATCH = 10, 32, 8


class LSTMLanguageModel(nn.Module):
    """Embedding, two layers of LSTM cells, and the distribution of the next token at each position.

    Cells and not ``nn.LSTM``, which torch.compile leaves to eager mode on every device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.cells = nn.ModuleList([nn.LSTMCell(WIDTH, WIDTH) for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        steps: list[Tensor] = list(self.embedding(tokens).unbind(1))
        for cell in self.cells:
            state = None
            for t, step in enumerate(steps):
                state = cell(step, state)
                steps[t] = state[0]
        return self.head(torch.stack(steps, 1)).transpose(1, 2)


class UNet(nn.Module):
    """Two halvings, two doublings, skip connections by concatenation; one class per pixel."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(inplace=True)
            )

        self.down = nn.ModuleList([block(3, width), block(width, 2 * width)])
        self.bottom = block(2 * width, 4 * width)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
        )
        self.merge = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            images = block(images)
            skips.append(images)
            images = F.max_pool2d(images, 2)
        images = self.bottom(images)
        for up, merge in zip(self.up, self.merge, strict=True):
            images = merge(torch.cat([up(images), skips.pop()], 1))
        return self.head(images)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, use_cache=False,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    module = transformers.GPT2LMHeadModel(config)
    module.loss_type = "ForCausalLM"  # which transformers tells by the class's name, but not of this one
    return module


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=LENGTH, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=4 * WIDTH,
        image_size=PIXELS, patch_size=PIXELS // 8, num_labels=CLASSES, problem_type="single_label_classification",
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def resnet() -> nn.Module:
    return timm.models.ResNet(
        timm.models.resnet.BasicBlock, layers=(1, 1, 1, 1), channels=(16, 32, 64, 64), num_classes=CLASSES
    )


def convnext() -> nn.Module:
    return timm.models.ConvNeXt(depths=(1, 1, 1, 1), dims=(16, 32, 64, 64), num_classes=CLASSES, ls_init_value=None)


@dataclass(frozen=True)
class Example:
    """A model, one batch for it (keyword arguments of ``forward``), and what the batch should give."""

    module: nn.Module
    inputs: dict[str, Tensor]
    labels: Tensor
    loss_inside: bool  #: the module computes its loss from a keyword argument ``labels``, as those of transformers do
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

    def to(self, device: torch.device | str) -> Example:
        """A copy on the device that shares nothing with this one."""
        return replace(
            self,
            module=copy.deepcopy(self.module).to(device),
            inputs={name: tensor.to(device, copy=True) for name, tensor in self.inputs.items()},
            labels=self.labels.to(device, copy=True),
        )

    def loss(self, run: Callable[..., Any] | None = None) -> Tensor:
        """The batch's loss; ``run`` is called instead of the module: its compiled form."""
        run = self.module if run is None else run
        if self.loss_inside:
            return run(**self.inputs, labels=self.labels).loss
        return F.cross_entropy(run(**self.inputs), self.labels)

    def predict(self, run: Callable[..., Any] | None = None) -> Tensor:
        """Logits of the batch, without gradients."""
        with torch.no_grad():
            output = (self.module if run is None else run)(**self.inputs)
        return output if isinstance(output, Tensor) else output.logits

    def train(self, run: Callable[..., Any] | None = None, steps: int = 3) -> Tensor:
        """Losses, on the CPU: before each of the steps and after the last."""
        optimizer = self.make_optimizer(self.module.parameters())
        losses = []
        for _ in range(steps):
            loss = self.loss(run)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        losses.append(self.loss(run).detach())
        return torch.stack(losses).cpu()


def _tokens() -> dict[str, Tensor]:
    return {"input_ids": torch.randint(VOCABULARY, (BATCH, LENGTH))}


def _few_tokens() -> dict[str, Tensor]:
    return {"tokens": torch.randint(VOCABULARY, (BATCH, RECURRENT_LENGTH))}


def _padded_tokens() -> dict[str, Tensor]:
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1))
    return {**_tokens(), "attention_mask": (torch.arange(LENGTH) < lengths).long()}


def _images(name: str) -> Callable[[], dict[str, Tensor]]:
    return lambda: {name: torch.randn(BATCH, 3, PIXELS, PIXELS)}


def _classes() -> Tensor:
    return torch.randint(CLASSES, (BATCH,))


def _next_tokens() -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH))


def _few_next_tokens() -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, RECURRENT_LENGTH))


def _pixel_classes() -> Tensor:
    return torch.randint(CLASSES, (BATCH, PIXELS, PIXELS))


def _adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def _sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


#: Name: the module, its inputs, its labels, whether it computes its loss itself, and its optimizer.
MODELS: dict[str, tuple[Any, ...]] = {
    "gpt2": (gpt2, _tokens, _next_tokens, True, _adamw),
    "llama": (llama, _tokens, _next_tokens, True, _adamw),
    "bert": (bert, _padded_tokens, _next_tokens, True, _adamw),
    "vit": (vit, _images("pixel_values"), _classes, True, _adamw),
    "resnet": (resnet, _images("x"), _classes, False, _sgd),
    "convnext": (convnext, _images("x"), _classes, False, _adamw),
    "lstm": (LSTMLanguageModel, _few_tokens, _few_next_tokens, False, _adamw),
    "unet": (UNet, _images("images"), _pixel_classes, False, _sgd),
}


def build(name: str) -> Example:
    """The model of this name with its batch, on the CPU."""
    module, inputs, labels, loss_inside, optimizer = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Example(module().train(), inputs(), labels(), loss_inside, optimizer)
