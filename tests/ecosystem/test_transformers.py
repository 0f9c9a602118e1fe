"""Hugging Face's transformers: Trainer, pipelines and loading choose the device as they would choose CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from support.programs import ACCELERATE, TORCHRUN, assert_same, program, start

transformers = pytest.importorskip("transformers", reason="not installed; requirements/models.txt has it")

#: The accuracy of half precision in a few steps of training, measured against float32 on the CPU.
HALF = {"rtol": 1e-2, "atol": 1e-2}


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return program("trainer")("use_cpu")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_arguments_choose_the_device_and_take_half_precision(tmp_path: Path, precision: str) -> None:
    arguments = transformers.TrainingArguments(str(tmp_path), report_to=[], **{precision: True})
    assert (arguments.device, arguments.n_gpu) == (torch.device("mydev:0"), 1)
    assert transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True).device.type == "cpu"


@pytest.mark.program
@pytest.mark.parametrize(
    ("options", "dtype", "tolerance"),
    [((), "torch.float32", {}), (("bf16",), "torch.bfloat16", HALF), (("fp16",), "torch.float16", HALF)],
    ids=["32", "bf16", "fp16"],
)
def test_trainer_trains_on_the_device(
    trained: dict[str, Any], options: tuple[str, ...], dtype: str, tolerance: dict[str, float]
) -> None:
    result = program("trainer")(*options)
    assert (trained["device"], result["device"]) == ("cpu", "mydev:0")
    assert result["computed in"] == [dtype]
    assert result["scaler"] == ("fp16" in options)
    torch.testing.assert_close(result["losses"], trained["losses"], **(tolerance or {"rtol": 1.3e-6, "atol": 1e-5}))


@pytest.mark.program
@pytest.mark.parametrize(
    ("changes", "device"), [({}, "mydev:0"), ({"MYDEV_INTEGRATIONS": "off"}, "cpu")], ids=["on", "off"]
)
def test_plain_program_says_where_it_runs(changes: dict[str, str], device: str) -> None:
    result, said = start("trainer", **changes)
    assert result["device"] == device
    assert said.count("mydev: accelerate runs on the device 'mydev'") == (device != "cpu")


FSDP = (
    *ACCELERATE,
    "--num_processes=2",
    "--use_fsdp",
    "--fsdp_version=2",
    "--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP",
    "--fsdp_transformer_layer_cls_to_wrap=BertLayer",
)


@pytest.mark.program
@pytest.mark.parametrize(
    ("launcher", "options", "wrapper"),
    [
        (TORCHRUN, (), "DistributedDataParallel"),
        ((*ACCELERATE, "--num_processes=2"), ("fp16",), "DistributedDataParallel"),
        (FSDP, ("bf16",), "FSDPBertForSequenceClassification"),
    ],
    ids=["ddp", "ddp, fp16", "fsdp2, bf16"],
)
def test_trainer_trains_in_several_processes(
    tmp_path: Path, launcher: tuple[str, ...], options: tuple[str, ...], wrapper: str
) -> None:
    result, _ = start("trainer", *options, launcher=launcher, HF_HOME=str(tmp_path), MYDEV_DRIVER="host:devices=2")
    expected, _ = start("trainer", "use_cpu", launcher=TORCHRUN, MYDEV_INTEGRATIONS="off")
    assert (result["device"], result["wrapper"], result["processes"]) == ("mydev:0", wrapper, 2)
    torch.testing.assert_close(
        result["losses"], expected["losses"], **(HALF if options else {"rtol": 1e-5, "atol": 1e-5})
    )


def test_training_that_is_resumed_draws_the_same_numbers(tmp_path: Path) -> None:
    class Dropping(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": torch.nn.functional.dropout(self.layer(x), 0.5, training=self.training).square().mean()}

    def train(**options: Any) -> list[float]:
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=1,
            num_train_epochs=1,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            seed=0,
        )
        transformers.set_seed(0)
        data = [{"x": torch.full((4,), float(number))} for number in range(4)]
        trainer = transformers.Trainer(model=Dropping(), args=arguments, train_dataset=data)
        trainer.train(**options)
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    whole = train()
    assert train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))[-2:] == whole[-2:]


def test_models_are_placed_by_the_memory_of_the_device(gpt2: Path) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(gpt2, device_map="auto")
    assert {parameter.device for parameter in model.parameters()} == {torch.device("mydev:0")}
    split = transformers.GPT2LMHeadModel.from_pretrained(gpt2, device_map="auto", max_memory={0: "100KB", "cpu": "1GB"})
    assert {str(device) for device in split.hf_device_map.values()} == {"0", "cpu"}
    tokens = torch.tensor([[3, 5, 7]])
    with torch.no_grad():
        results = [each(tokens.to("mydev")).logits.cpu() for each in (model, split)]
        expected = transformers.GPT2LMHeadModel.from_pretrained(gpt2)(tokens).logits
    torch.testing.assert_close(results, [expected, expected])


@pytest.mark.parametrize(("device", "expected"), [(None, "mydev:0"), (0, "mydev:0"), ("cpu", "cpu"), (-1, "cpu")])
def test_pipelines_run_on_the_device(gpt2: Path, device: Any, expected: str) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(gpt2)

    class Plain(transformers.Pipeline):
        def _sanitize_parameters(self, **options: Any) -> Any:
            return {}, {}, {}

        def preprocess(self, inputs: Any) -> Any:
            return {"input_ids": torch.tensor([[len(inputs), 1]])}

        def _forward(self, inputs: Any) -> Any:
            return self.model(**inputs)

        def postprocess(self, outputs: Any) -> Any:
            return outputs.logits.shape[-1]

    plain = Plain(model, device=device)
    assert (str(plain.device), str(next(model.parameters()).device)) == (expected, expected)
    assert plain("text") == 64


def test_weights_are_read_straight_to_the_device() -> None:
    run = program("straight_to_device")
    result = run("mydev")
    assert result["device"] == "mydev:0"
    assert_same(result, run("cpu"))
