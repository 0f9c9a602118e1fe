#include "host_kernels/onednn/primitive_plan.h"

#include <new>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace mydev::kernels {

namespace {

constexpr uint64_t kAlignment = 64;

uint64_t aligned(uint64_t bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

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

void make_onednn_statics() noexcept {
  const float one = 1;
  float product = 0;
  dnnl_sgemm('N', 'N', 1, 1, 1, 1, &one, 1, &one, 1, 0, &product, 1);
}

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

bool is_computed_in_f32(mydev_dtype dtype) noexcept {
  return dtype == MYDEV_F32 || dtype == MYDEV_BF16 || dtype == MYDEV_F16 || dtype == MYDEV_F8E4M3FN ||
         dtype == MYDEV_F8E5M2;
}

namespace {

bool onednn_has(dnnl::cpu_isa needed) noexcept {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(needed)) == static_cast<unsigned>(needed);
}

}  // namespace

bool onednn_supports(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_F32:
      return true;
    case MYDEV_BF16:
      return onednn_has(dnnl::cpu_isa::avx512_core_bf16);
    case MYDEV_S8:
      return onednn_has(dnnl::cpu_isa::avx512_core_vnni);
    default:
      return false;
  }
}

uint64_t PrimitivePlan::reserve(uint64_t bytes) noexcept {
  const uint64_t offset = scratch_bytes_;
  scratch_bytes_ += aligned(bytes);
  return offset;
}

void PrimitivePlan::add_step(Sequence& sequence, const dnnl::primitive& primitive,
                             const dnnl::primitive_desc_base& descriptor, std::vector<Argument> arguments) {
  const dnnl::memory::desc scratchpad = descriptor.scratchpad_desc();
  if (scratchpad.get_size() != 0) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, kScratch, reserve(scratchpad.get_size()), scratchpad});
  }
  sequence.steps.push_back({primitive, std::move(arguments)});
  sequence.handles = make_handles(sequence.steps);
}

void PrimitivePlan::add_reorder(Sequence& sequence, Argument from, Argument to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc descriptor(onednn_engine(), from.descriptor, onednn_engine(), to.descriptor,
                                                 attributes);
  from.argument = DNNL_ARG_FROM;
  to.argument = DNNL_ARG_TO;
  add_step(sequence, dnnl::reorder(descriptor), descriptor, {from, to});
}

void PrimitivePlan::add_step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& descriptor,
                             std::vector<Argument> arguments) {
  add_step(steps_, primitive, descriptor, std::move(arguments));
}

void PrimitivePlan::add_reorder(Argument from, Argument to) {
  add_reorder(steps_, std::move(from), std::move(to));
}

PrimitivePlan::Argument PrimitivePlan::keep(int32_t argument, int32_t operand, const dnnl::memory::desc& given,
                                            const dnnl::memory::desc& wanted) {
  Argument kept{argument, kKept, kept_bytes_, wanted};
  kept_bytes_ += aligned(wanted.get_size());
  add_reorder(preparation_, {0, operand, 0, given}, kept);
  return kept;
}

PrimitivePlan::Handles PrimitivePlan::make_handles(const std::vector<Step>& steps) {
  Handles handles;
  for (const Step& step : steps) {
    for (const Argument& argument : step.arguments) {
      handles.memories.emplace_back(argument.descriptor, onednn_engine(), nullptr);
      handles.arguments.push_back({argument.argument, handles.memories.back().get()});
    }
  }
  return handles;
}

void PrimitivePlan::prepare(std::span<void* const> operands, void* scratch, void* kept) {
  preparation_.run(operands, scratch, kept);
}

void PrimitivePlan::run(std::span<void* const> operands, void* scratch, void* kept) {
  steps_.run(operands, scratch, kept);
}

void PrimitivePlan::Sequence::run(std::span<void* const> operands, void* scratch, void* kept) {
  std::unique_lock lock(mutex, std::try_to_lock);
  Handles own;
  if (!lock.owns_lock()) own = make_handles(steps);
  const dnnl_exec_arg_t* arguments = lock.owns_lock() ? handles.arguments.data() : own.arguments.data();
  const auto place_of = [&](const Argument& argument) -> void* {
    if (argument.operand >= 0) return operands[static_cast<size_t>(argument.operand)];
    return static_cast<char*>(argument.operand == kScratch ? scratch : kept) + argument.offset;
  };
  for (const Step& step : steps) {
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(arguments[i].memory, place_of(step.arguments[i])),
                              "could not set an operand");
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(step.primitive.get(), thread_stream(),
                                                   static_cast<int>(step.arguments.size()), arguments),
                            "could not execute a primitive");
    arguments += step.arguments.size();
  }
}

KeptOperands::~KeptOperands() {
  ::operator delete(memory_, std::align_val_t{kAlignment});
}

void* KeptOperands::filled(const std::function<void(void* memory)>& fill) {
  std::call_once(once_, [&] {
    if (memory_ == nullptr) memory_ = ::operator new(bytes_, std::align_val_t{kAlignment}, std::nothrow);
    if (memory_ == nullptr) {
      throw Error(MYDEV_RESOURCE_EXHAUSTED,
                  "no memory for " + std::to_string(bytes_) + " bytes of constant operands in the kernel's own layout");
    }
    fill(memory_);
  });
  return memory_;
}

void raise_onednn_error(const char* what, const dnnl::error& error) {
  throw Error(code_of(error.status), std::string(what) + ": oneDNN: " + error.message);
}

}  // namespace mydev::kernels
