"""Fine-tunes a small BERT with transformers' Trainer, which chooses the device by itself.

python examples/ecosystem/trainer.py [bf16] [fp16] [use_cpu]
torchrun --nproc-per-node=2 examples/ecosystem/trainer.py         # DistributedDataParallel
accelerate launch --use_fsdp ... examples/ecosystem/trainer.py    # FSDP
"""

import json
import os
import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


def run(*options: str) -> dict:
    set_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    tokens = torch.randint(0, 100, (64, 32), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": row[0] % 2} for row in tokens]
    dtypes = set()
    model.bert.encoder.layer[0].intermediate.dense.register_forward_hook(lambda *call: dtypes.add(str(call[2].dtype)))
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory,
            per_device_train_batch_size=8,
            num_train_epochs=1,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            **dict.fromkeys(options, True),
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=data)
        trainer.train()
    return {
        "device": str(arguments.device),
        "computed in": sorted(dtypes),
        "scaler": trainer.accelerator.scaler is not None and trainer.accelerator.scaler.is_enabled(),
        "wrapper": type(trainer.model_wrapped).__name__,
        "processes": arguments.world_size,
        "losses": [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry],
    }


if __name__ == "__main__":
    result = run(*sys.argv[1:])
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(result))
