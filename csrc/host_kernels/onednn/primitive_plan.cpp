#include "host_kernels/onednn/primitive_plan.h"

#include <string>

#include "runtime/base/status.h"

namespace mydev::kernels {

namespace {

constexpr uint64_t kAlignment = 64;

// Streams of a CPU engine hold no queue; one per thread spares their reference counts a shared cache line.
dnnl_stream_t thread_stream() {
  thread_local const dnnl::stream stream(onednn_engine());
  return stream.get();
}

mydev_code code_of(dnnl_status_t status) noexcept {
  switch (status) {
    case dnnl_out_of_memory:
      return MYDEV_RESOURCE_EXHAUSTED;
    case dnnl_unimplemented:
      return MYDEV_UNIMPLEMENTED;
    case dnnl_invalid_arguments:
      return MYDEV_INVALID_ARGUMENT;
    default:
      return MYDEV_INTERNAL;
  }
}

}  // namespace

const dnnl::engine& onednn_engine() {
  // Never destroyed: threads may still hold streams of it when the process ends.
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type onednn_dtype(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_F32:
      return dnnl::memory::data_type::f32;
    case MYDEV_BF16:
      return dnnl::memory::data_type::bf16;
    default:
      return dnnl::memory::data_type::undef;
  }
}

bool onednn_supports(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_F32:
      return true;
    case MYDEV_BF16: {
      static const bool native = [] {
        const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
        const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
        return (isa & needed) == needed;
      }();
      return native;
    }
    default:
      return false;
  }
}

uint64_t PrimitivePlan::reserve(uint64_t bytes) noexcept {
  const uint64_t offset = scratch_bytes_;
  scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

void PrimitivePlan::add_step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& descriptor,
                             std::vector<Argument> arguments) {
  const dnnl::memory::desc scratchpad = descriptor.scratchpad_desc();
  if (scratchpad.get_size() != 0) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, kScratch, reserve(scratchpad.get_size()), scratchpad});
  }
  steps_.push_back({primitive, std::move(arguments)});
  handles_ = make_handles();
}

void PrimitivePlan::add_reorder(Argument from, Argument to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc descriptor(onednn_engine(), from.descriptor, onednn_engine(), to.descriptor,
                                                 attributes);
  from.argument = DNNL_ARG_FROM;
  to.argument = DNNL_ARG_TO;
  add_step(dnnl::reorder(descriptor), descriptor, {from, to});
}

PrimitivePlan::Handles PrimitivePlan::make_handles() const {
  Handles handles;
  for (const Step& step : steps_) {
    for (const Argument& argument : step.arguments) {
      handles.memories.emplace_back(argument.descriptor, onednn_engine(), nullptr);
      handles.arguments.push_back({argument.argument, handles.memories.back().get()});
    }
  }
  return handles;
}

void PrimitivePlan::run(std::span<void* const> operands, void* scratch) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  Handles own;
  if (!lock.owns_lock()) own = make_handles();
  const dnnl_exec_arg_t* arguments = lock.owns_lock() ? handles_.arguments.data() : own.arguments.data();
  for (const Step& step : steps_) {
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const Argument& argument = step.arguments[i];
      void* data = argument.operand == kScratch ? static_cast<char*>(scratch) + argument.offset
                                                : operands[static_cast<size_t>(argument.operand)];
      dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(arguments[i].memory, data), "could not set an operand");
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(step.primitive.get(), thread_stream(),
                                                   static_cast<int>(step.arguments.size()), arguments),
                            "could not execute a primitive");
    arguments += step.arguments.size();
  }
}

void raise_onednn_error(const char* what, const dnnl::error& error) {
  throw Error(code_of(error.status), std::string(what) + ": oneDNN: " + error.message);
}

}  // namespace mydev::kernels
