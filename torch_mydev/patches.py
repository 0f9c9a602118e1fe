"""The objects of torch that are replaced by ones of this package's, each with its reason and the condition of removal.

They are functions and methods written in Python, and tables of them. Besides, and beyond what torch offers a device to
register for itself, the package changes this of torch in the process:

- the allocator of CPU memory: one that asks the former one, but while a CPU kernel runs on the device's memory
  (csrc/aten/host/alias.cpp);
- autograd's multithreading, which is off from a thread's first use of the device's allocator on
  (csrc/aten/library.cpp), and in the main thread at exit (csrc/python/device_bindings.cpp);
- the kernels of ``aten::_copy_from``, which copies from and to external devices, for conjugated and negated tensors
  (csrc/aten/ops/memory/copy_ops.cpp);
- the fallbacks of two dispatch keys that torch keeps for tests and modes, from the first dispatch trace on
  (csrc/aten/trace/dispatch_trace.cpp); only threads that are traced go through them;
- how torch.multiprocessing pickles storages: one that hands those of other devices on to torch's (device/sharing.py);
- the import of some modules of the compiler and of other libraries, which are given to this package once they are
  loaded (compile/registration.py); what is replaced in them, and in torch's flex attention, is in integrations/.

Additions under names of the device's own are not listed.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import warnings
import weakref
from types import ModuleType
from typing import Any

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.fake_tensors import as_on_cpu
from torch_mydev.compile.registration import when_imported
from torch_mydev.device import memory_history, random, sharing, tensor_types
from torch_mydev.device.captured_steps import StepCheck
from torch_mydev.device.fused_steps import prefer_fused
from torch_mydev.distributed import data_parallel
from torch_mydev.distributed.backend import refuse_device_tensors


def apply() -> None:
    """Applies the patches of what ``import torch`` brings, and those of Inductor once it is imported. Called once, at
    registration."""
    _patch_dlpack_device()
    _patch_default_tensor_type()
    _patch_fake_convolution()
    _patch_fake_attention()
    _patch_shared_memory()
    _patch_default_process_group()
    _patch_monitored_barrier()
    _patch_bfloat16_hooks()
    _patch_higher_order_operators()
    _patch_integer_products()
    _patch_random_state_operators()
    _patch_data_parallel()
    _patch_accelerator_graph()
    _patch_accelerator_snapshot()
    _patch_optimizers()
    when_imported("torch._inductor.compile_fx", _patch_inductor)


def _patch_fake_convolution() -> None:
    """Gives fake convolutions on the device the memory format of the real ones, which is the CPU's.

    Reason: torch's fake kernel lays out the results of a backend of one's own channels-first, whatever the backend
    does; a graph of channels-last convolutions then holds views of tensors that have other strides.
    Guard: does nothing where torch has no such fake kernel.
    Remove when: torch asks the backend for the memory format of "overrideable" convolutions, as it asks XPU.
    """
    from torch._subclasses import fake_impls

    aten = torch.ops.aten
    for op in (aten.convolution.default, aten._convolution.default, aten.convolution_backward.default):
        if op in fake_impls.op_implementations_dict:
            fake_impls.op_implementations_dict[op] = as_on_cpu(fake_impls.op_implementations_dict[op])


def _patch_fake_attention() -> None:
    """Gives the fake gradients of fused attention on the device the strides of the real ones, which are the CPU's.

    Reason: torch's fake kernel lays out the gradients of a backend of one's own like the operands; a graph then holds
    views of tensors that have other strides.
    Guard: an operator with a fake kernel of torch's own for it keeps that one.
    Remove when: torch asks the backend how it lays out gradients of "overrideable" attention.
    """
    from torch._subclasses import fake_impls

    def by_rows(tensor: torch.Tensor) -> torch.Tensor:
        batch, heads, rows, width = tensor.shape
        return tensor.new_empty((batch, rows, heads, width)).transpose(1, 2)

    def kernel(fake_mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        query, key, value, dropout = args[1], args[2], args[3], args[12]
        if query.device.type != DEVICE_NAME or query.dim() != 4:
            return NotImplemented
        with fake_mode:
            if dropout == 0:
                return by_rows(query), by_rows(key), by_rows(value), None
            transposed = key.new_empty((*key.shape[:2], key.shape[3], key.shape[2])).transpose(-2, -1)
            return query.new_empty(query.shape), transposed, value.new_empty(value.shape), None

    backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
    fake_impls.op_implementations_dict.setdefault(backward, kernel)


def _patch_inductor(module: ModuleType) -> None:
    """Lets torch.compile without a backend, or with "inductor", take graphs of the device. ``module`` is Inductor's
    ``compile_fx``.

    Reason: Inductor has no place where a device can say how its graphs are compiled, short of a code generator of its
    own; and torch.compile's default backend cannot be chosen by device. Graphs without tensors of the device are
    handed on unchanged.
    Guard: leaves Inductor alone, with a warning, where compile_fx no longer takes ``inner_compile``.
    Remove when: a device can register a backend of torch.compile for graphs with its tensors.
    """
    from torch_mydev.compile.backend import make_compile_fx  # not before it is needed: `import torch` is to stay light

    if "inner_compile" not in inspect.signature(module.compile_fx).parameters:
        warnings.warn(
            f"this torch's Inductor is not the one that {DEVICE_NAME} knows: torch.compile works on {DEVICE_NAME} with "
            'backend="aot_eager" only',
            stacklevel=2,
        )
        return
    module.compile_fx = make_compile_fx(module.compile_fx, module.compile_fx_inner)  # type: ignore[attr-defined]


def _patch_dlpack_device() -> None:
    """Lets ``torch.from_dlpack(tensor)`` and other consumers of the DLPack protocol take tensors of the device.

    Reason: torch's ``Tensor.__dlpack_device__`` compares the device's type with "privateuse1", which it never is: not
    before the backend is renamed ("privateuseone"), nor after. It then raises "Unknown device type".
    Remove when: the method asks torch._C._torchDeviceToDLDevice, as its consumer torch.utils.dlpack does.
    """
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[enum.IntEnum, int]:
        if self.device.type != DEVICE_NAME:
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        device_type, index = torch._C._torchDeviceToDLDevice(self.device)
        return DLDeviceType(device_type), index

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]


def _patch_default_tensor_type() -> None:
    """Lets ``torch.set_default_tensor_type`` take the device's types: their dtype and the device become the defaults.

    Reason: torch takes its own types only, of which there are none for a backend of one's own.
    Remove when: torch makes typed tensors for the backend, or the function is gone, which is deprecated.
    """
    original = torch.set_default_tensor_type
    ours = False

    @functools.wraps(original)
    def set_default_tensor_type(t: type | str, /) -> None:
        nonlocal ours
        if tensor_types.set_default_tensor_type(t):
            ours = True
            return
        original(t)
        if ours:
            torch.set_default_device(None)
            ours = False

    torch.set_default_tensor_type = set_default_tensor_type


def _patch_shared_memory() -> None:
    """Lets ``share_memory_()`` and ``is_shared()`` of storages, and so of tensors and modules, mean on the device what
    they mean on the CPU.

    Reason: torch takes every device but the CPU for CUDA, whose memory needs no preparation: ``share_memory_()`` does
    nothing there and ``is_shared()`` is True.
    Guard: does nothing where torch's storages have no such methods.
    Remove when: torch asks the device's hooks how its storages are shared.
    """
    storage_class = torch.UntypedStorage
    if not (hasattr(storage_class, "share_memory_") and hasattr(storage_class, "is_shared")):
        return
    original_share, original_is_shared = storage_class.share_memory_, storage_class.is_shared

    @functools.wraps(original_share)
    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        if self.device.type != DEVICE_NAME:
            return original_share(self, *args, **kwargs)  # type: ignore[no-any-return]
        sharing.share(self)
        return self

    @functools.wraps(original_is_shared)
    def is_shared(self: torch.UntypedStorage) -> bool:
        return sharing.is_shared(self) if self.device.type == DEVICE_NAME else original_is_shared(self)

    storage_class.share_memory_ = share_memory_  # type: ignore[method-assign]
    storage_class.is_shared = is_shared  # type: ignore[assignment, method-assign]


def _patch_default_process_group() -> None:
    """Names the device's backend the default of process groups that would have none.

    Reason: if no backend is asked for, torch makes the accelerator's only, but names gloo the group's default unless it
    is NCCL. DistributedDataParallel then asks the group for a gloo that it does not have. If backends are given by
    device, torch looks up a custom backend by its name in capitals, finds none, and warns at each use. In a group of
    gloo alone, collectives of the device's tensors say that there is no backend, and not which to ask for.
    Guard: does nothing where torch.distributed is absent or makes its groups elsewhere.
    Remove when: torch names as default what it has made.
    """
    if not torch.distributed.is_available():
        return
    from torch.distributed import ProcessGroup, distributed_c10d

    original = getattr(distributed_c10d, "_new_process_group_helper", None)
    if original is None:
        return

    @functools.wraps(original)
    def _new_process_group_helper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        group = result[0]
        if isinstance(group, ProcessGroup):  # not on ranks outside of the group
            devices = [device.type for device in group._device_types]
            absent = distributed_c10d.Backend.GLOO if devices == [DEVICE_NAME] else distributed_c10d.Backend.UNDEFINED
            if DEVICE_NAME in devices and group.name() == absent:
                group._set_default_backend(ProcessGroup.BackendType.CUSTOM)
            elif DEVICE_NAME not in devices and group.name() == distributed_c10d.Backend.GLOO:
                refuse_device_tensors(group)
        return result

    distributed_c10d._new_process_group_helper = _new_process_group_helper


def _patch_monitored_barrier() -> None:
    """Lets ``torch.distributed.monitored_barrier`` take groups that have a backend for the device.

    Reason: it refuses every group that is not named gloo, and looks for the group's backend for CPU tensors.
    Guard: does nothing where torch.distributed has no such function.
    Remove when: torch asks the group's default backend whether it has a monitored barrier.
    """
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    original = getattr(distributed_c10d, "monitored_barrier", None)
    if original is None:
        return

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        whole = group or distributed_c10d._get_default_group()
        on_device = (
            isinstance(whole, distributed_c10d.ProcessGroup)
            and whole.name() != distributed_c10d.Backend.GLOO
            and any(device.type == DEVICE_NAME for device in whole._device_types)
        )
        if on_device:
            limit = {} if timeout is None else {"timeout": timeout}
            backend: Any = whole._get_backend(torch.device(DEVICE_NAME))
            backend.monitored_barrier(**limit, wait_all_ranks=wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    distributed_c10d.monitored_barrier = torch.distributed.monitored_barrier = monitored_barrier


def _patch_bfloat16_hooks() -> None:
    """Lets DistributedDataParallel take ``bf16_compress_hook`` and its wrapper for models on the device.

    Reason: it asks for NCCL or XCCL before it takes hooks of these names, whatever the device.
    Guard: does nothing where DistributedDataParallel does not check hooks.
    Remove when: torch asks the group's backend whether it reduces bfloat16.
    """
    distributed_data_parallel = torch.nn.parallel.DistributedDataParallel
    original = getattr(distributed_data_parallel, "_check_comm_hook", None)
    if original is None:
        return

    @functools.wraps(original)
    def _check_comm_hook(self: Any, hook: Any) -> None:
        is_compressing = getattr(hook, "__name__", None) in ("bf16_compress_hook", "bf16_compress_wrapper_hook")
        if not (is_compressing and self.device_type == DEVICE_NAME):
            original(self, hook)

    distributed_data_parallel._check_comm_hook = _check_comm_hook  # type: ignore[method-assign]


def _patch_higher_order_operators() -> None:
    """Lets operators that call functions fall through the device's keys of autograd and autocast, as the CPU's.

    Reason: torch, and whoever writes such an operator, names one by one the devices for which it has nothing to do
    there. A device of one's own is not among them, and the operator has no kernel for its tensors.
    Remove when: torch has a key for the autograd of all devices that operators can fall through, and its list of keys
    that they fall through by default has AutocastPrivateUse1.
    """
    from torch._C import DispatchKey
    from torch._ops import HigherOrderOperator, _higher_order_ops

    own_keys = {
        DispatchKey.AutogradCPU: DispatchKey.AutogradPrivateUse1,
        DispatchKey.AutocastCPU: DispatchKey.AutocastPrivateUse1,  # type: ignore[attr-defined]
    }
    original: Any = HigherOrderOperator.fallthrough

    @functools.wraps(original)
    def fallthrough(self: HigherOrderOperator, dispatch_key: DispatchKey) -> None:
        original(self, dispatch_key)
        if dispatch_key in own_keys:
            original(self, own_keys[dispatch_key])

    for operator in _higher_order_ops.values():
        for cpu_key, own_key in own_keys.items():
            if not operator.non_fallthrough_keys.has(cpu_key):
                original(operator, own_key)
    HigherOrderOperator.fallthrough = fallthrough  # type: ignore[method-assign]


def _patch_integer_products() -> None:
    """Multiplies int8 matrices into int32 by ``_int_mm``, as CUDA does, where ``out_dtype`` asks for it.

    Reason: torch names the devices for which it does so; on others ``out_dtype``, and with it torchao's int8 linear
    layers, convert both matrices to int32 first, which takes ten times as long.
    Remove when: torch asks whether the device has ``_int_mm``.
    """
    from torch._C import DispatchKey
    from torch._higher_order_ops.out_dtype import out_dtype, out_dtype_dense

    @out_dtype.py_impl(DispatchKey.PrivateUse1)
    def out_dtype_on_device(op: torch._ops.OpOverload, output_dtype: torch.dtype, *args: Any) -> Any:
        is_product = op is torch.ops.aten.mm.default and output_dtype == torch.int32 and len(args) == 2
        if is_product and all(isinstance(arg, torch.Tensor) and arg.dtype == torch.int8 for arg in args):
            return torch._int_mm(*args)
        return out_dtype_dense(op, output_dtype, *args)


def _patch_random_state_operators() -> None:
    """Lets graphs that recompute random numbers (checkpointing) keep and restore the device's random state.

    Reason: torch's two operators for it have a list of devices; a graph on another one fails when it runs.
    Guard: tensors of other devices go where they went.
    Remove when: torch asks the device's module for its random state there.
    """
    from torch._C import DispatchKey
    from torch._prims import rng_prims

    def save(op: Any, *args: Any, **kwargs: Any) -> Any:
        return random.get_rng_state(), op(*args, **kwargs)

    def restore(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
        current = random.get_rng_state()
        random.set_rng_state(state.cpu())
        try:
            return op(*args, **kwargs)
        finally:
            random.set_rng_state(current)

    get_device: Any = rng_prims.get_device
    for operator, on_device, leading in (
        (rng_prims.run_and_save_rng_state, save, 1),
        (rng_prims.run_with_rng_state, restore, 2),
    ):
        original = operator.py_kernels[DispatchKey.BackendSelect]

        def select(
            *args: Any, _original: Any = original, _on_device: Any = on_device, _leading: int = leading, **kwargs: Any
        ) -> Any:
            device = get_device(args[_leading:], kwargs)
            return (_on_device if device == DEVICE_NAME else _original)(*args, **kwargs)

        operator.py_kernels[DispatchKey.BackendSelect] = select


def _patch_data_parallel() -> None:
    """Lets ``torch.nn.DataParallel`` and ``torch.nn.parallel.comm`` take the device; leaves a model on the CPU alone
    that is given no devices.

    Reason: DataParallel asks any accelerator for its devices, but torch._C has the functions that it copies with for
    CUDA alone. A program for the CPU, where DataParallel only calls its module, fails for want of them.
    Guard: functions that torch._C has take the calls for CUDA's devices, and NCCL is asked about their tensors.
    Remove when: torch.nn.parallel.comm copies by operators, and a device can say that it is not to be chosen.
    """
    from torch.cuda import nccl

    for name, function in data_parallel.FUNCTIONS.items():
        setattr(torch._C, name, data_parallel.with_device(getattr(torch._C, name, None), function))
    original_is_available = nccl.is_available

    @functools.wraps(original_is_available)
    def is_available(tensors: Any) -> bool:  # which warns where torch has no NCCL
        return not data_parallel.is_meant(tensors) and bool(original_is_available(tensors))  # type: ignore[no-untyped-call]

    nccl.is_available = is_available
    parallel = torch.nn.DataParallel
    original_init, original_forward = parallel.__init__, parallel.forward

    @functools.wraps(original_init)
    def __init__(
        self: Any, module: torch.nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        chosen_by_torch = device_ids is None and data_parallel.is_meant(())
        original_init(self, torch.nn.Module() if chosen_by_torch else module, device_ids, output_device, dim)
        self.module = module
        self.chosen_by_torch = chosen_by_torch

    @functools.wraps(original_forward)
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        if getattr(self, "chosen_by_torch", False) and data_parallel.is_on_cpu(self.module):
            if not data_parallel.has_device_tensors((inputs, kwargs)):
                return self.module(*inputs, **kwargs)
            if len(self.device_ids) == 1:
                self.module.to(self.src_device_obj)
        return original_forward(self, *inputs, **kwargs)

    parallel.__init__, parallel.forward = __init__, forward  # type: ignore[method-assign]


def _patch_accelerator_graph() -> None:
    """Lets ``torch.accelerator.Graph`` refuse steps of optimizers that cannot be captured, as ``MyDevGraph`` does.

    Reason: optimizers ask whether they are captured for CUDA and XPU by name. On another device a replay repeats the
    step of the capture, without an error.
    Guard: does nothing where torch has no such class; captures on other devices are not looked at.
    Remove when: optimizers ask any accelerator, and those without the option ``capturable`` ask, too.
    """
    graph = getattr(torch.accelerator, "Graph", None)
    if graph is None:
        return
    checks: weakref.WeakKeyDictionary[Any, StepCheck] = weakref.WeakKeyDictionary()

    def with_check(name: str) -> None:
        original = getattr(graph, name)

        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            check = checks.setdefault(self, StepCheck())
            check.end()
            result = original(self, *args, **kwargs)
            if name == "capture_begin":
                check.begin()
            return result

        setattr(graph, name, method)

    for name in ("capture_begin", "capture_end", "reset"):
        with_check(name)


def _patch_accelerator_snapshot() -> None:
    """Lets ``torch.accelerator.memory._snapshot`` show the device's memory, as ``torch.mydev.memory._snapshot`` does.

    Reason: torch asks torch.cuda for the snapshot of every accelerator but XPU.
    Guard: does nothing where torch has no such function; calls for another accelerator go where they went.
    Remove when: torch asks the accelerator's module, or its allocator.
    """
    memory: Any = torch.accelerator.memory
    original = getattr(memory, "_snapshot", None)
    if original is None:
        return

    @functools.wraps(original)
    def _snapshot(*args: Any, **kwargs: Any) -> Any:
        accelerator = torch.accelerator.current_accelerator()
        is_ours = accelerator is not None and accelerator.type == DEVICE_NAME
        return (memory_history._snapshot if is_ours else original)(*args, **kwargs)

    memory._snapshot = _snapshot


def _patch_optimizers() -> None:
    """Lets Adam, AdamW and SGD step in one launch on the device, where the user chose no form.

    Reason: torch then takes the foreach form, a dozen passes over memory.
    Guard: does nothing where MYDEV_FUSED_OPTIMIZERS is 0; what the device cannot fuse steps as in torch.
    Remove when: torch makes the fused form the default on devices that have it.
    """
    if _C.config_value("MYDEV_FUSED_OPTIMIZERS") == "0":
        return
    for name, num_lists in (("adam", 6), ("sgd", 3)):
        module = sys.modules[f"torch.optim.{name}"]
        setattr(module, name, prefer_fused(getattr(module, name), num_lists, is_adam=name == "adam"))
