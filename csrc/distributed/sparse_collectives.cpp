// The collective that engines have for sparse tensors: the sum of COO tensors, as DistributedDataParallel needs it for
// the gradients of sparse embeddings.
//
// The engine is given a sparse CPU tensor over the staging tensors of indices and values, and replaces both. How many
// elements the sum has is known when it is there; so wait() blocks the caller, whatever the driver.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "aten/core/device_type.h"
#include "aten/host/sparse.h"
#include "distributed/device_backend.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// A dense tensor of the device, to be used on `stream` though it is made on another.
at::Tensor on_device_for(const c10::Stream& stream, const at::Tensor& host) {
  const at::Tensor result = host.to(stream.device());
  result.record_stream(stream);
  return result;
}

}  // namespace

DeviceBackend::WorkPtr DeviceBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "all_reduce: expected one sparse tensor, got ", tensors.size());
  const Tensor tensor = tensors[0];
  TORCH_CHECK(on_device(tensor) && tensor.layout() == at::kSparse, "all_reduce: expected a sparse COO tensor on ",
              kDeviceType, ", got one of layout ", tensor.layout(), " on ", tensor.device());
  const Reduction reduction(tensor.scalar_type(), options.reduceOp, size_);
  TORCH_CHECK(reduction.engine_op() == c10d::ReduceOp::SUM, "all_reduce: sparse tensors of ", tensor.scalar_type(),
              " have no such reduction; SUM, AVG and PREMUL_SUM of real numbers are there, for others use .to_dense()");
  const Components components = sparse_components(tensor);
  // The caller's tensor is given the sum if it is still there; the thread that does so must not be the one to drop it,
  // since Python knows it.
  const Tensor result = sparse_over(components, tensor);
  const WeakTensor caller(tensor.getIntrusivePtr());
  const c10::Stream stream = c10::impl::VirtualGuardImpl(kDeviceType).getStream(tensor.device());
  if (Stream& device_stream = current_stream(tensor.get_device()); device_stream.capture() != nullptr) {
    raise_not_captured(device_stream, "the sum of sparse tensors, whose size depends on values,");
  }
  const auto issue = [=, this](Stages& stages, const Tensors& /*outputs*/, const Tensors& inputs) {
    const Tensor &indices = inputs[0], &values = inputs[1];
    c10d::AllreduceOptions engine_options = options;
    engine_options.reduceOp = reduction.engine_op();
    HostOperands& operands = stages.add();
    const Tensor wire_values = reduction.to_wire(operands.read(values));
    Tensors wire{at::_sparse_coo_tensor_unsafe(operands.read(indices), wire_values, result.sizes())};
    operands.at_end([=] {
      const Components sum = sparse_components(wire[0]);
      const Tensor host_values = at::empty(sum[1].sizes(), wire_values.options().dtype(result.scalar_type()));
      reduction.from_wire(sum[1], host_values);
      const Components on_device{on_device_for(stream, sum[0]), on_device_for(stream, host_values)};
      set_sparse(result, on_device, wire[0]);
      if (auto impl = caller.lock()) set_sparse(Tensor(std::move(impl)), on_device, wire[0]);
    });
    stages.start(engine_->allreduce(wire, engine_options));
  };
  return start(c10d::OpType::_ALLREDUCE_SPARSE, "all_reduce", tensor.get_device(), {result},
               {components[0], components[1]}, issue);
}

namespace {

std::tuple<std::vector<at::Tensor>, c10::intrusive_ptr<c10d::Work>> allreduce_sparse(
    at::TensorList tensors, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::ReduceOp>& op, const std::optional<at::Tensor>& /*sparse_indices*/, bool async_op,
    int64_t timeout) {
  std::vector<at::Tensor> operands = tensors.vec();
  c10d::AllreduceOptions options;
  options.reduceOp = *op;
  options.timeout = std::chrono::milliseconds(timeout);
  options.asyncOp = async_op;
  auto work = group->getBackend(kDeviceType)->allreduce_sparse(operands, options);
  return {std::move(operands), std::move(work)};
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) {
  m.impl("allreduce_", &allreduce_sparse);
}

}  // namespace
}  // namespace mydev
