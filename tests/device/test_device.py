"""Devices from Python: counting, choosing, describing, waiting; torch.mydev and torch.accelerator agree."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

import pytest
import torch

import torch_mydev  # noqa: F401
from support.torch_version import needs_torch

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# The forms that a device argument may have, for device 0.
SPELLINGS = [0, "mydev:0", torch.device("mydev:0"), torch.device("mydev", 0)]


# --- counting and choosing --------------------------------------------------------------------------------------------


def test_device_is_available() -> None:
    assert mydev.is_available()
    assert mydev.device_count() >= 1
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == mydev.device_count()
    assert torch.accelerator.current_accelerator() == torch.device("mydev")


@needs_torch("2.14")
def test_random_state_of_the_accelerator_is_the_devices() -> None:
    random = torch.accelerator.random  # type: ignore[attr-defined]
    mydev.manual_seed(2147)
    assert random.initial_seed() == 2147
    state = random.get_rng_state()
    numbers = torch.rand(5, device="mydev")
    assert not torch.equal(random.get_rng_state(), state)
    states = random.get_rng_state_all()
    assert len(states) == mydev.device_count()
    assert torch.equal(states[0], mydev.get_rng_state(0))
    mydev.set_rng_state(state)
    assert torch.equal(torch.rand(5, device="mydev"), numbers)


def test_first_use_initializes() -> None:
    torch.empty(0, device="mydev")
    assert mydev.is_initialized()
    assert mydev._initialized  # what torch.utils.checkpoint looks at


def test_current_device_starts_as_the_first() -> None:
    assert mydev.current_device() == 0
    assert torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_set_device_takes_every_spelling(spelling: object) -> None:
    mydev.set_device(spelling)
    assert mydev.current_device() == 0


@pytest.mark.devices(2)
def test_set_device_changes_where_tensors_are_made() -> None:
    mydev.set_device(1)
    try:
        assert torch.accelerator.current_device_index() == 1
        assert torch.empty(2, device="mydev").device == torch.device("mydev:1")
    finally:
        mydev.set_device(0)
    assert torch.empty(2, device="mydev").device == torch.device("mydev:0")


@pytest.mark.devices(2)
@pytest.mark.parametrize("context", [mydev.device, torch.accelerator.device_index], ids=["mydev", "accelerator"])
def test_context_manager_changes_the_device_and_restores_it(context: type) -> None:
    with context(1):
        assert mydev.current_device() == 1
        with context(0):
            assert mydev.current_device() == 0
        assert mydev.current_device() == 1
    assert mydev.current_device() == 0


@pytest.mark.devices(2)
def test_context_manager_restores_the_device_after_an_exception() -> None:
    with pytest.raises(KeyError), mydev.device(1):
        raise KeyError
    assert mydev.current_device() == 0


@pytest.mark.parametrize("nothing", [None, -1])
def test_context_manager_without_a_device_changes_nothing(nothing: int | None) -> None:
    with mydev.device(nothing):
        assert mydev.current_device() == 0


@pytest.mark.devices(2)
def test_device_of_follows_a_tensor() -> None:
    there = torch.empty(1, device="mydev:1")
    with mydev.device_of(there):
        assert mydev.current_device() == 1
    with mydev.device_of(there.untyped_storage()):
        assert mydev.current_device() == 1
    with mydev.device_of(torch.empty(1)):
        assert mydev.current_device() == 0


@pytest.mark.devices(2)
def test_device_as_a_context_manager_of_torch() -> None:
    with torch.device("mydev:1"):
        assert torch.empty(1).device == torch.device("mydev:1")
    assert torch.empty(1).device.type == "cpu"


@pytest.mark.devices(2)
def test_current_device_belongs_to_the_thread() -> None:
    seen = []
    with mydev.device(1):
        thread = threading.Thread(target=lambda: seen.append(mydev.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.devices(2)
def test_threads_choose_their_devices_independently() -> None:
    barrier = threading.Barrier(4)
    made: dict[int, torch.device] = {}

    def work(number: int) -> None:
        mydev.set_device(number % 2)
        barrier.wait()
        made[number] = torch.empty(1, device="mydev").device

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == {number: torch.device("mydev", number % 2) for number in range(4)}


@pytest.mark.devices(2)
def test_work_on_one_device_leaves_the_other_current() -> None:
    with mydev.device(1):
        (torch.ones(3, device="mydev:0") * 2).sum().item()
        assert mydev.current_device() == 1


# --- wrong devices ----------------------------------------------------------------------------------------------------

WRONG_INDEX = [
    pytest.param(lambda: mydev.set_device(99), id="set_device"),
    pytest.param(lambda: mydev.set_device(-1), id="set_device negative"),
    pytest.param(lambda: mydev.device(99).__enter__(), id="device"),
    pytest.param(lambda: mydev.synchronize(99), id="synchronize"),
    pytest.param(lambda: mydev.get_device_name(99), id="get_device_name"),
    pytest.param(lambda: mydev.get_device_properties(99), id="get_device_properties"),
    pytest.param(lambda: mydev.get_device_capability(99), id="get_device_capability"),
    pytest.param(lambda: mydev.current_stream(99), id="current_stream"),
    pytest.param(lambda: mydev.default_stream(99), id="default_stream"),
    pytest.param(lambda: mydev.Stream(99), id="Stream"),
    pytest.param(lambda: mydev.get_rng_state(99), id="get_rng_state"),
    pytest.param(lambda: torch.accelerator.set_device_index(99), id="accelerator.set_device_index"),
    pytest.param(lambda: torch.accelerator.synchronize(99), id="accelerator.synchronize"),
    pytest.param(lambda: torch.empty(2, device="mydev:99"), id="empty"),
    pytest.param(lambda: torch.ones(2).to("mydev:99"), id="to"),
    pytest.param(lambda: torch.ones(2, device="mydev").to("mydev:99"), id="to from device"),
    pytest.param(lambda: torch.Generator(device="mydev:99"), id="Generator"),
]


@pytest.mark.parametrize("use", WRONG_INDEX)
def test_index_that_does_not_exist_is_refused_with_the_range(use: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, IndexError), match=r"invalid device index (99|-1)"):
        use()
    assert mydev.current_device() == 0
    assert torch.ones(2, device="mydev").sum().item() == 2  # and the process stays usable


@pytest.mark.parametrize("wrong", ["cpu", torch.device("cpu"), "cuda:0"], ids=str)
def test_device_of_another_type_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="expected a device of type 'mydev'"):
        mydev.set_device(wrong)


@pytest.mark.parametrize("wrong", [1.5, [], True, b"mydev"], ids=repr)
def test_what_is_no_device_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.device, a string, an index or None"):
        mydev.set_device(wrong)


# --- describing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", [None, *SPELLINGS], ids=str)
def test_properties(spelling: object) -> None:
    properties = mydev.get_device_properties(spelling)
    assert properties.total_memory > 0
    assert properties.multi_processor_count >= 1
    assert properties.stream_priority_high <= properties.stream_priority_low
    assert properties.name == mydev.get_device_name(spelling)
    assert (properties.major, properties.minor) == mydev.get_device_capability(spelling)


def test_properties_tell_the_hardware_as_torch_cuda_does() -> None:
    properties = mydev.get_device_properties()
    assert len(str(properties.uuid)) == 36
    assert properties.architecture
    assert properties.max_allocation <= properties.total_memory
    assert all(isinstance(dtype, torch.dtype) for dtype in properties.native_dtypes)
    assert properties.shared_memory_per_block >= 0


@pytest.mark.devices(2)
def test_each_device_has_a_uuid_of_its_own() -> None:
    assert mydev.get_device_properties(0).uuid != mydev.get_device_properties(1).uuid


def test_every_dtype_is_a_capability() -> None:
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool} <= set(supported)


def test_asynchronous_property_tells_the_mode(run_python: Run) -> None:
    code = "import torch, torch_mydev; print(torch.mydev.get_device_properties().asynchronous)"
    assert run_python(code, MYDEV_DRIVER="host").stdout.strip() == "False"
    assert run_python(code, MYDEV_DRIVER="host:async").stdout.strip() == "True"


def test_device_does_not_reach_itself_as_a_peer() -> None:
    assert not mydev.can_device_access_peer(0, 0)


@pytest.mark.devices(2)
def test_peers_copy_directly() -> None:
    assert mydev.can_device_access_peer(0, 1)
    there = torch.arange(5, device="mydev:0").to("mydev:1")
    assert there.device == torch.device("mydev:1")
    assert there.tolist() == [0, 1, 2, 3, 4]


def test_mixed_precision_queries() -> None:
    assert torch.bfloat16 in mydev.get_amp_supported_dtype()
    assert mydev.is_bf16_supported()
    assert mydev.amp.is_bf16_supported()


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", [None, *SPELLINGS], ids=str)
def test_synchronize_takes_every_spelling(spelling: object) -> None:
    total = torch.ones(1000, device="mydev").sum()
    mydev.synchronize(spelling)
    assert total.item() == 1000


# --- random state -----------------------------------------------------------------------------------------------------


def test_manual_seed_repeats_the_numbers(device: torch.device) -> None:
    mydev.manual_seed(5)
    first = torch.rand(10, device=device)
    mydev.manual_seed(5)
    torch.testing.assert_close(torch.rand(10, device=device), first, rtol=0, atol=0)
    assert mydev.initial_seed() == 5


def test_seed_of_torch_reaches_the_device(device: torch.device) -> None:
    torch.manual_seed(6)
    assert mydev.initial_seed() == 6


def test_state_round_trip(device: torch.device) -> None:
    state = mydev.get_rng_state()
    first = torch.rand(10, device=device)
    mydev.set_rng_state(state)
    torch.testing.assert_close(torch.rand(10, device=device), first, rtol=0, atol=0)


def test_offset_of_the_state_round_trips(device: torch.device) -> None:
    mydev.manual_seed(5)
    assert mydev._get_rng_state_offset() == 0
    torch.rand(10, device=device)
    offset = mydev._get_rng_state_offset("mydev")
    assert offset > 0
    second = torch.rand(10, device=device)
    mydev._set_rng_state_offset(offset)
    torch.testing.assert_close(torch.rand(10, device=device), second, rtol=0, atol=0)
    mydev.manual_seed(5)
    mydev._set_rng_state_offset(offset, 0)
    torch.testing.assert_close(torch.rand(10, device=device), second, rtol=0, atol=0)


def test_states_of_all_devices_round_trip(device: torch.device) -> None:
    states = mydev.get_rng_state_all()
    assert len(states) == mydev.device_count()
    first = torch.rand(4, device=device)
    mydev.set_rng_state_all(states)
    torch.testing.assert_close(torch.rand(4, device=device), first, rtol=0, atol=0)


@pytest.mark.devices(2)
def test_manual_seed_all_seeds_every_device_alike() -> None:
    mydev.manual_seed_all(7)
    torch.testing.assert_close(
        torch.rand(8, device="mydev:0").cpu(), torch.rand(8, device="mydev:1").cpu(), rtol=0, atol=0
    )


def test_seed_all_draws_a_new_seed() -> None:
    mydev.manual_seed_all(7)
    mydev.seed_all()
    assert mydev.initial_seed() != 7
    assert len({generator.initial_seed() for generator in mydev.default_generators}) == 1


def test_seed_draws_a_new_seed() -> None:
    mydev.manual_seed(7)
    mydev.seed()
    assert mydev.initial_seed() != 7


def test_fork_rng_restores_the_state(device: torch.device) -> None:
    before = mydev.get_rng_state()
    with torch.random.fork_rng(device_type="mydev"):
        torch.rand(3, device=device)
    assert torch.equal(mydev.get_rng_state(), before)


def test_seed_given_before_the_first_use_is_applied_then(run_python: Run) -> None:
    code = """
import torch, torch_mydev
torch.manual_seed(1)
torch.manual_seed(9)
assert not torch.mydev.is_current_stream_capturing()
assert not torch.mydev.is_initialized()
early = torch.rand(3, device="mydev").tolist()
torch.manual_seed(9)
print(early == torch.rand(3, device="mydev").tolist(), torch.mydev.initial_seed())
"""
    assert run_python(code).stdout.strip() == "True 9"


# --- without a driver -------------------------------------------------------------------------------------------------

NO_DRIVER = {"MYDEV_DRIVER": "/nowhere/driver.so"}


@pytest.mark.any_driver
@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(2, device='mydev')",
        "torch.ones(2).to('mydev')",
        "torch.mydev.init()",
        "torch.mydev.synchronize(0)",
        "torch.mydev.Stream()",
        "torch.mydev.get_device_name()",
    ],
)
def test_driver_that_is_not_there_is_named(run_python: Run, use: str) -> None:
    result = run_python(f"import torch, torch_mydev\n{use}", **NO_DRIVER)
    assert result.returncode == 1
    assert "RuntimeError" in result.stderr
    assert "/nowhere/driver.so" in result.stderr


@pytest.mark.any_driver
def test_without_a_driver_torch_works_and_the_device_is_not_available(run_python: Run) -> None:
    code = """
import torch, torch_mydev
print(torch.mydev.is_available(), torch.mydev.device_count(), torch.ones(2).sum().item())
torch.manual_seed(0)
"""
    result = run_python(code, **NO_DRIVER)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "False 0 2.0"


def test_wrong_option_is_named_with_the_valid_ones(run_python: Run) -> None:
    result = run_python("import torch, torch_mydev\ntorch.ones(1, device='mydev')", MYDEV_DRIVER="host:devises=2")
    assert result.returncode == 1
    assert "devises" in result.stderr
    assert "devices" in result.stderr


# --- how busy they are ------------------------------------------------------------------------------------------------


def test_utilization_is_a_percentage() -> None:
    assert 0 <= mydev.utilization() <= 100
    assert 0 <= mydev.utilization("mydev:0") <= 100


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        ("memory_usage", "utilization of memory"),
        ("temperature", "temperature"),
        ("power_draw", "power draw"),
        ("clock_rate", "clock rate"),
    ],
)
def test_what_the_driver_does_not_tell_is_not_implemented(measure: str, name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"the driver '.*host.*' does not tell the {name} of its devices"):
        getattr(mydev, measure)()


def test_no_device_is_busy_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match="invalid device index 17"):
        mydev.utilization(17)


# --- the module's names -----------------------------------------------------------------------------------------------


# The names that torch.cuda.__all__ does not have.
OWN_NAMES = {
    "DeviceProperties",
    "LaunchStatistics",
    "MyDevGraph",
    "OutOfMemoryError",
    "get_amp_supported_dtype",
    "launch_statistics",
}


def test_star_gives_public_names_only() -> None:
    names: dict[str, object] = {}
    exec("from torch.mydev import *", names)
    del names["__builtins__"]
    assert {"Stream", "Event", "MemPool", "use_mem_pool", "FloatTensor", "memory", "amp", "synchronize"} <= set(names)
    assert not [name for name in names if name.startswith("_")]
    assert set(names) - set(torch.cuda.__all__) == OWN_NAMES


# --- names in torch ---------------------------------------------------------------------------------------------------


def test_aliases_of_torch_enumerations() -> None:
    assert torch._C._autograd.DeviceType.PrivateUse1 == torch._C._autograd.DeviceType.MYDEV
    assert torch.profiler.ProfilerActivity.PrivateUse1 == torch.profiler.ProfilerActivity.MYDEV


def test_module_cannot_be_registered_twice() -> None:
    with pytest.raises(RuntimeError, match="already"):
        torch._register_device_module("mydev", mydev)


def test_device_cannot_be_renamed() -> None:
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("other")


def test_device_module_is_found_by_torch() -> None:
    assert torch.get_device_module("mydev") is mydev
    assert torch.utils.backend_registration._get_custom_mod_func("device_count")() == mydev.device_count()


@pytest.mark.parametrize("name", ["memory_allocated", "empty_cache", "Stream", "Event", "OutOfMemoryError", "random"])
def test_module_has_the_names_that_habits_expect(name: str) -> None:
    assert hasattr(mydev, name)


def test_unknown_name_is_an_attribute_error() -> None:
    message = "'torch.mydev' has no attribute 'synchronise', did you mean 'synchronize'"
    with pytest.raises(AttributeError, match=message):
        torch.mydev.synchronise()
    with pytest.raises(AttributeError, match="'torch.mydev' has no attribute 'no_such_name'"):
        mydev.no_such_name  # noqa: B018
