"""Operators that a graph compiled for the host leaves to the device: which ones, and their fake kernels.

Such an operator is replaced by its device call, an operator of ``torch.ops.mydev_call``, which takes CPU tensors over
the device's memory and runs the original there (csrc/aten/custom_call/device_call.h).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._inductor import config, ir, lowering, select_algorithm
from torch._inductor.kernel import mm_common
from torch._inductor.virtualized import V
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile import collectives
from torch_mydev.compile.device_kernels import DEVICE_KERNELS
from torch_mydev.compile.fake_tensors import CPU, retarget_all

aten = torch.ops.aten


#: Operators that PyTorch brings, for which the CPU's kernels say what the device's must give. All other operators are
#: somebody's own, and may do on the device what they do nowhere else.
_TORCH_NAMESPACES = frozenset(
    {"aten", "prims", "prim", "rngprims", "inductor", "quantized", "quantized_decomposed", "mkldnn", "onednn", "mkl"}
    | {"_c10d_functional", "c10d_functional", "c10d", "torchvision", "fsdp", "profiler", "debugprims", "streams"}
)


def kept_call(node: Node) -> OpOverload | None:
    """The device call of a node's operator if the graph keeps it as one, else None."""
    target = node.target
    if not isinstance(target, OpOverload) or not _on_device(node):
        return None
    if target.namespace == collectives.NAMESPACE:
        return device_call(collectives.waited(target))
    if _is_somebodys_own(target) or torch.Tag.nondeterministic_seeded in target.tags:
        return device_call(target)
    kernel = DEVICE_KERNELS.get(target)
    if kernel is None or not kernel.faster or config.cpp_wrapper or (kernel.better_frozen and _has_constant(node)):
        return None
    return device_call(target)


def kept_functionalized_call(node: Node) -> OpOverload | None:
    """The same as ``kept_call``, for a node that makes an operator functional which writes into its operands."""
    if node.target not in (auto_functionalized, auto_functionalized_v2) or not _on_device(node):
        return None
    target = node.args[0]
    return device_call(target) if isinstance(target, OpOverload) and _is_somebodys_own(target) else None


def _is_somebodys_own(op: OpOverload) -> bool:
    """Whether it has a kernel for the device that is not PyTorch's: a custom call, or an operator of an extension."""
    if op.namespace in _TORCH_NAMESPACES:
        return False
    name = str(op.name())  # type: ignore[no-untyped-call]
    keys = ("PrivateUse1", "CompositeExplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _has_constant(node: Node) -> bool:
    """Whether an operand is frozen into the graph: such weights lie in the CPU's memory."""
    return any(operand.op == "get_attr" for operand in node.all_input_nodes)


def _on_device(node: Node) -> bool:
    leaves = pytree.tree_leaves((node.args, node.kwargs, node.meta.get("val")))
    for leaf in leaves:
        value = leaf.meta.get("val") if isinstance(leaf, Node) else leaf
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device) and device.type == DEVICE_NAME:
            return True
    return False


_library = torch.library.Library("mydev_call", "FRAGMENT")  # type: ignore[no-untyped-call]


@functools.cache
def device_call(op: OpOverload) -> OpOverload:
    """The operator that runs ``op`` on the device from inside a graph of the host."""
    name, _, overload = str(op.name()).partition(".")  # type: ignore[no-untyped-call]
    qualified = _C.define_device_call(name, overload)
    device = torch.device(DEVICE_NAME)

    def fake_kernel(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = retarget_all((args, kwargs), "cpu", device)
        return retarget_all(op(*args, **kwargs), DEVICE_NAME, CPU)

    kernel = DEVICE_KERNELS.get(op)
    fake = fake_kernel if kernel is None else op
    torch.library.register_fake(qualified, _FAKE_KERNELS.get(op, fake), lib=_library)
    namespace, _, short = qualified.partition("::")
    overloads = getattr(getattr(torch.ops, namespace), short)
    found: OpOverload = overloads.default
    if op in torch.fx.node._side_effectful_functions:
        torch.fx.node.has_side_effect(found)
    if kernel is not None:
        lower = _lower_product if kernel.is_product else _lower_operator
        lower(found, kernel.call)
    return found


# PyTorch's own fake kernels of group normalization forget channels-last.


def _fake_group_norm(images: Tensor, *args: Any) -> tuple[Tensor, ...]:
    result, *statistics = aten.native_group_norm.default(images, *args)
    return result.contiguous(memory_format=suggest_memory_format(images)), *statistics


def _fake_group_norm_backward(grad: Tensor, images: Tensor, *args: Any) -> tuple[Tensor | None, ...]:
    grad_images, *others = aten.native_group_norm_backward.default(grad, images, *args)
    if grad_images is not None:
        grad_images = grad_images.contiguous(memory_format=suggest_memory_format(images))
    return grad_images, *others


_FAKE_KERNELS: dict[OpOverload, Callable[..., Any]] = {
    aten.native_group_norm.default: _fake_group_norm,
    aten.native_group_norm_backward.default: _fake_group_norm_backward,
}


# --- kernels that generated code calls straight ----------------------------------------------------------------------


def _add_extern_kernel(kernel: Any) -> str:
    """Returns its name in generated code."""
    name = f"{DEVICE_NAME}_{kernel.__name__}"
    setattr(select_algorithm.extern_kernels, name, kernel)
    return f"extern_kernels.{name}"


def _lower_operator(op: OpOverload, kernel: Any) -> None:
    name = _add_extern_kernel(kernel)
    fallback = lowering.fallback_handler(op)  # type: ignore[no-untyped-call]

    def lower(*args: Any, **kwargs: Any) -> Any:
        rest = [argument for argument in op._schema.arguments[len(args) :] if not argument.kwarg_only]
        results = fallback(*args, *(argument.default_value for argument in rest), **kwargs)
        result = next(result for result in pytree.tree_leaves(results) if result is not None)
        # The call itself, or, of several results and of all before torch 2.14, what takes one from it.
        node = result.data.data
        call: Any = node.inputs[0] if isinstance(node, ir.MultiOutput) else node
        call.set_python_kernel_name(name)
        return results

    lowering.register_lowering(op, type_promotion_kind=None)(lower)
    lowering.add_layout_constraint(op, _lay_out)


def _lay_out(node: Node, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands that lie as the graph says, since the results lie as these do. Symbolic strides, which Inductor cannot
    always compare, are left to it: the operators take any."""

    def lay_out(operand: Any, source: Any) -> Any:
        if not isinstance(operand, ir.TensorBox) or not has_static_strides(source):
            return operand
        order = ir.get_stride_order(source.meta["val"].stride(), V.graph.sizevars.shape_env)
        return ir.ExternKernel.require_stride_order(operand, order)

    return tuple(map(lay_out, args, node.args)), kwargs


def has_static_strides(node: Node) -> bool:
    return not any(isinstance(stride, torch.SymInt) for stride in node.meta["val"].stride())


def _lower_product(op: OpOverload, kernel: Any) -> None:
    name = _add_extern_kernel(kernel)

    def lower(*operands: Any, **scales: Any) -> Any:
        *added, first, second = operands
        _, _, _, layout, first, second = mm_common.mm_args(first, second)  # type: ignore[no-untyped-call]
        inputs = [*(ir.ExternKernel.realize_input(operand) for operand in added), first, second]
        return ir.TensorBox.create(
            ir.ExternKernelOut(
                layout=layout,
                inputs=inputs,
                kwargs=scales,
                python_kernel_name=name,
                op_overload=op,
            )
        )

    lowering.register_lowering(op, type_promotion_kind=None)(lower)
