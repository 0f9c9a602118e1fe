#include "aten/custom_call/custom_operator.h"

#include <ATen/MemoryOverlap.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "aten/custom_call/custom_attributes.h"
#include "kernels/registry/registered_kernel.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"

namespace mydev {

namespace {

using at::Tensor;
using torch::jit::Stack;

constexpr const char* kNamespace = "mydev_cc";

// --- one call --------------------------------------------------------------------------------------------------------

// Operands and attributes of one call.
class OperatorCall {
 public:
  OperatorCall(CustomOperator& op, const mydev_kernel& record, size_t num_inputs)
      : op_(op),
        signature_(*compiled_signature(record)),
        frame_(num_outputs(signature_, static_cast<uint32_t>(num_inputs))) {}

  void add_operand(const c10::IValue& value) {
    if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorList()) add_tensor(tensor);
    } else {
      add_tensor(value.isTensor() ? value.toTensor() : Tensor());
    }
  }
  void add_tensor(const Tensor& tensor) {
    operands_.push_back(tensor);
    if (tensor.defined() && tensor.is_privateuseone() && tensor.layout() == c10::kStrided) {
      frame_.add(tensor);
    } else {
      frame_.add_absent();  // or what common_device() refuses
    }
  }

  CustomResults run(const mydev_kernel& record, c10::ArrayRef<c10::IValue> attributes) {
    for (uint32_t i = 0; i < signature_.num_attributes; ++i) {
      attributes_.add(record, *signature_.attributes[i], attributes[i]);
    }
    device_ = common_device(op_.kernel().name(), operands_, [&](size_t i) { return operand_name(i); });
    if (device_ == -1) device_ = current_device();
    const CustomKernel::Resolved& kernel = op_.kernel().on(device_);
    MYDEV_CHECK(compiled_signature(*kernel.record) == &signature_, MYDEV_FAILED_PRECONDITION, "kernel '",
                op_.kernel().name(), "' was replaced during the call; call it again");
    const mydev_frame frame = frame_.frame(attributes_.values());
    check_operands(*kernel.record, frame);
    c10::SmallVector<mydev_shape, 2> shapes(frame.num_outputs);
    infer_results(*kernel.record, frame, {shapes.data(), shapes.size()});
    if (signature_.is_broadcast() && !shapes.empty()) broadcast(shapes[0]);
    for (size_t i = 0; i < operands_.size(); ++i) make_dense(kernel, i);
    CustomResults results;
    for (uint32_t i = 0; i < frame.num_outputs; ++i) {
      const int32_t alias = result_of_output(signature_, i).alias;
      results.push_back(alias >= 0 ? operands_[static_cast<size_t>(alias)] : allocate_result(shapes[i]));
      if (alias >= 0) {
        frame_.result(i) = frame_.operand(static_cast<size_t>(alias));
      } else {
        frame_.set_result(i, results.back());
      }
    }
    frame_.launch(kernel, attributes_.values(), device_);
    for (const auto& [operand, dense] : written_copies_) operands_[operand].copy_(dense);
    return results;
  }

 private:
  std::string operand_name(size_t input) const {
    const uint32_t operand = operand_of_input(signature_, static_cast<uint32_t>(input));
    std::string name = signature_.operands[operand]->name;
    if (is_variadic(*signature_.operands[operand])) name += c10::str("[", input - operand, "]");
    return name;
  }

  // Whether a result is written into this operand.
  bool written(size_t operand) const {
    for (uint32_t i = 0; i < signature_.num_results; ++i) {
      if (signature_.results[i]->alias == static_cast<int32_t>(operand)) return true;
    }
    return false;
  }

  void broadcast(const mydev_shape& shape) {
    const c10::IntArrayRef sizes(shape.sizes, static_cast<size_t>(shape.rank));
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].defined() || operands_[i].sizes() == sizes) continue;
      operands_[i] = operands_[i].expand(sizes);
      frame_.operand(i) = buffer_of(operands_[i]);
    }
  }

  void make_dense(const CustomKernel::Resolved& kernel, size_t i) {
    const Tensor& operand = operands_[i];
    if (!operand.defined()) return;
    if (written(i)) at::assert_no_internal_overlap(operand);
    if (operand.is_conj() || operand.is_neg() || (!operand.is_contiguous() && !takes_strides(*kernel.record, i))) {
      op_.kernel().count_dense_copy();
      Tensor dense = at::empty(operand.sizes(), operand.options());
      dense.copy_(operand);
      copies_.push_back(dense);
      frame_.operand(i) = buffer_of(dense);
      if (written(i)) written_copies_.emplace_back(i, std::move(dense));
    }
  }

  Tensor allocate_result(const mydev_shape& shape) const {
    return empty_dense({shape.sizes, static_cast<size_t>(shape.rank)}, to_scalar_type(shape.dtype),
                       {kDeviceType, static_cast<c10::DeviceIndex>(device_)});
  }

  CustomOperator& op_;
  const CompiledSignature& signature_;
  CustomFrame frame_;
  CustomAttributes attributes_;
  c10::SmallVector<Tensor, 4> operands_;
  c10::SmallVector<Tensor, 2> copies_;
  c10::SmallVector<std::pair<size_t, Tensor>, 1> written_copies_;
  int device_ = -1;
};

// --- registration ----------------------------------------------------------------------------------------------------

class RunKernel final : public c10::OperatorKernel {
 public:
  explicit RunKernel(CustomOperator& op) : op_(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) { run_custom_operator(op_, stack); }

 private:
  CustomOperator& op_;
};

class RecordKernel final : public c10::OperatorKernel {
 public:
  explicit RecordKernel(CustomOperator& op) : op_(op) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    record_custom_operator(op_, handle, keys, stack);
  }

 private:
  CustomOperator& op_;
};

class OperatorTable {
 public:
  static OperatorTable& instance() {
    static auto& table = *new OperatorTable;
    return table;
  }

  CustomOperator* find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(name);
    return entry == entries_.end() ? nullptr : entry->second.op;
  }

  void sync() {
    const std::lock_guard lock(mutex_);
    const uint64_t generation = registry_generation();
    if (generation == generation_) return;
    std::vector<OperatorChange>& changes = changes_;
    std::map<std::string, const mydev_kernel*> wanted;
    for (const mydev_kernel* kernel : registered_kernels()) {
      if (kernel->signature == nullptr) continue;
      const auto [position, inserted] = wanted.emplace(mydev::operator_name(*kernel), kernel);
      if (inserted) continue;
      // The one that has the operator keeps it.
      const auto entry = entries_.find(position->first);
      if (entry != entries_.end() && entry->second.record != nullptr &&
          entry->second.op->kernel().name() == kernel->name) {
        std::swap(position->second, kernel);
      }
      if (collisions_.insert(kernel->name).second) {
        changes.push_back({OperatorChange::kCollision, kernel->name, position->first});
      }
    }
    for (auto& [name, entry] : entries_) {
      if (entry.record != nullptr && !wanted.contains(name)) remove(name, entry, changes);
    }
    for (const auto& [name, kernel] : wanted) define(name, *kernel, changes);
    generation_ = generation;
  }

  std::vector<OperatorChange> take_changes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(changes_, {});
  }

 private:
  struct Entry {
    CustomOperator* op = nullptr;  // of the last kernel; never freed: the dispatcher's kernels refer to it
    const mydev_kernel* record = nullptr;
    std::string schema;
    std::unique_ptr<torch::Library> definition;  // the schema
    std::unique_ptr<torch::Library> kernels;     // keeps the dispatcher's entry alive
  };

  void remove(const std::string& name, Entry& entry, std::vector<OperatorChange>& changes) {
    changes.push_back({OperatorChange::kRemoved, entry.op->kernel().name(), name});
    entry.op->set_record(nullptr);
    entry.record = nullptr;
  }

  void define(const std::string& name, const mydev_kernel& kernel, std::vector<OperatorChange>& changes) {
    Entry& entry = entries_[name];
    if (entry.record == &kernel) return;
    if (entry.record != nullptr) remove(name, entry, changes);
    const bool other_kernel = entry.op != nullptr && entry.op->kernel().name() != kernel.name;
    const std::string schema = operator_schema(kernel);
    if (entry.schema != schema) {
      entry.definition.reset();
      entry.definition =
          std::make_unique<torch::Library>(torch::Library::FRAGMENT, kNamespace, std::nullopt, __FILE__, __LINE__);
      std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
      if (is_in_place(*kernel.signature)) tags.push_back(at::Tag::inplace);
      entry.definition->def(schema.c_str(), std::as_const(tags));
      entry.schema = schema;
    }
    if (entry.op == nullptr || other_kernel) {
      entry.kernels.reset();
      entry.op = new CustomOperator(kernel.name, c10::str(kNamespace, "::", name));
      entry.kernels =
          std::make_unique<torch::Library>(torch::Library::IMPL, kNamespace, std::nullopt, __FILE__, __LINE__);
      register_kernels(*entry.kernels, name, *entry.op);
    }
    entry.op->set_record(&kernel);
    entry.record = &kernel;
    changes.push_back({OperatorChange::kDefined, kernel.name, name});
  }

  static void register_kernels(torch::Library& library, const std::string& name, CustomOperator& op) {
    const auto run = [&] { return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RunKernel>(op)); };
    library.impl(name.c_str(), torch::dispatch(kDispatchKey, run()));
    // For a call without any tensor, and for those of other devices, which it refuses.
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, run()));
    library.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunctor(
                                                                               std::make_unique<RecordKernel>(op))));
  }

  std::mutex mutex_;
  uint64_t generation_ = 0;
  std::vector<OperatorChange> changes_;   // not yet taken
  std::map<std::string, Entry> entries_;  // by operator name
  std::set<std::string> collisions_;      // reported already
};

}  // namespace

const mydev_kernel& CustomOperator::record() const {
  const mydev_kernel* record = current_record();
  MYDEV_CHECK(record != nullptr, MYDEV_NOT_FOUND, "there is no kernel '", kernel_.name(),
              "' any more: it was unregistered, or its library was reloaded without it");
  return *record;
}

void run_custom_operator(CustomOperator& op, Stack* stack) {
  const CustomCallErrors errors;
  const mydev_kernel& record = op.record();
  const mydev_signature& signature = *record.signature;
  const size_t count = signature.num_operands + signature.num_attributes;
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  size_t num_inputs = signature.num_operands;
  if (has_variadic_operand(signature)) num_inputs += arguments[num_inputs - 1].toListRef().size() - 1;
  OperatorCall call(op, record, num_inputs);
  for (uint32_t i = 0; i < signature.num_operands; ++i) call.add_operand(arguments[i]);
  CustomResults results = call.run(record, arguments.slice(signature.num_operands));
  torch::jit::drop(*stack, count);
  push_results(signature, std::move(results), stack);
}

void push_results(const mydev_signature& signature, CustomResults&& results, Stack* stack) {
  const uint32_t num_single = num_single_results(signature);
  for (uint32_t i = 0; i < num_single; ++i) {
    if (is_returned(signature, i)) stack->emplace_back(std::move(results[i]));
  }
  if (has_variadic_result(signature)) {
    stack->emplace_back(c10::List<Tensor>(c10::ArrayRef<Tensor>(results).slice(num_single)));
  }
}

CustomResults call_custom_operator(CustomOperator& op, const mydev_kernel& record, c10::ArrayRef<Tensor> operands,
                                   c10::ArrayRef<c10::IValue> attributes) {
  const CustomCallErrors errors;
  OperatorCall call(op, record, operands.size());
  for (const Tensor& operand : operands) call.add_tensor(operand);
  return call.run(record, attributes);
}

CustomOperator& custom_operator(const std::string& name) {
  CustomOperator* op = OperatorTable::instance().find(name);
  MYDEV_CHECK(op != nullptr, MYDEV_NOT_FOUND, "there is no operator ", kNamespace, "::", name);
  return *op;
}

void sync_custom_operators() {
  OperatorTable::instance().sync();
}

std::vector<OperatorChange> take_operator_changes() {
  return OperatorTable::instance().take_changes();
}

}  // namespace mydev
