#include "host_kernels/isa/pointwise/pointwise.h"

#include "host_kernels/isa/pointwise/pointwise_chain.h"
#include "host_kernels/isa/pointwise/pointwise_loops.h"
#include "host_kernels/isa/simd/complex.h"
#include "host_kernels/isa/simd/element_conversion.h"
#include "host_kernels/isa/simd/strided_runs.h"
#include "host_kernels/pointwise_block.h"
#include "host_kernels/strided_layout.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kMinRow = 64;  // shorter rows are gathered, several to a buffer

struct ComputeType {
  mydev_dtype dtype;
  Apply Types::* apply;
};

// Whether `accepts` returns true for every number among the inputs.
template <typename Accepts>
bool all_numbers(const mydev_frame& frame, const Accepts& accepts) {
  for (uint32_t k = frame.num_outputs; k < frame.num_outputs + frame.num_inputs; ++k) {
    const mydev_buffer& buffer = frame.buffers[k];
    const bool is_number = (buffer.flags & MYDEV_BUFFER_SCALAR) != 0;
    if (is_number && !accepts(*static_cast<const mydev_scalar*>(buffer.data))) return false;
  }
  return true;
}

// The dtype itself, for those that are not computed in their own type by every kernel that takes them.
ComputeType own_type(int32_t dtype) {
  switch (dtype) {
    case MYDEV_BF16:
      return {MYDEV_BF16, &Types::bf16};
    case MYDEV_PRED:
      return {MYDEV_PRED, &Types::pred};
    case MYDEV_U8:
      return {MYDEV_U8, &Types::u8};
    case MYDEV_S8:
      return {MYDEV_S8, &Types::s8};
    case MYDEV_S16:
      return {MYDEV_S16, &Types::s16};
    default:
      return {MYDEV_DTYPE_INVALID, nullptr};
  }
}

// Whether the result is the same if numbers become elements of the dtype, one of own_type's. Numbers that are not final
// may change before the kernel runs, so this has to hold for all of them.
bool keeps_numbers(const PointwiseKernel& kernel, const mydev_frame& frame, int32_t dtype, bool numbers_are_final) {
  return all_numbers(frame, [&](const mydev_scalar& number) {
    if (dtype == MYDEV_BF16 || dtype == MYDEV_PRED) return dtype == MYDEV_PRED;
    const int64_t highest = dtype == MYDEV_U8 ? 255 : dtype == MYDEV_S8 ? 127 : 32767;
    const int64_t lowest = dtype == MYDEV_U8 ? 0 : -highest - 1;
    return kernel.wraps || (numbers_are_final && lowest <= number.i && number.i <= highest);
  });
}

ComputeType compute_type(int32_t dtype) {
  switch (dtype) {
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_F32:
      return {MYDEV_F32, &Types::f32};
    case MYDEV_F64:
      return {MYDEV_F64, &Types::f64};
    case MYDEV_PRED:
    case MYDEV_S8:
    case MYDEV_S16:
    case MYDEV_U8:
    case MYDEV_S32:
      return {MYDEV_S32, &Types::s32};
    case MYDEV_S64:
      return {MYDEV_S64, &Types::s64};
    case MYDEV_C64:
      return {MYDEV_C64, &Types::c64};
    case MYDEV_C128:
      return {MYDEV_C128, &Types::c128};
    default:
      return {MYDEV_DTYPE_INVALID, nullptr};
  }
}

// The value of a scalar operand as an element of a compute type.
union ScalarValue {
  float f32;
  double f64;
  int32_t s32;
  int64_t s64;
  Complex<float> c64;
  Complex<double> c128;
  uint8_t byte;
  int16_t s16;
};

void set_scalar(ScalarValue& value, mydev_dtype dtype, const mydev_scalar& scalar) {
  switch (dtype) {
    case MYDEV_F32:
      value.f32 = static_cast<float>(scalar.f);
      break;
    case MYDEV_F64:
      value.f64 = scalar.f;
      break;
    case MYDEV_S32:
      value.s32 = static_cast<int32_t>(scalar.i);
      break;
    case MYDEV_S64:
      value.s64 = scalar.i;
      break;
    case MYDEV_C64:
      value.c64 = {static_cast<float>(scalar.c[0]), static_cast<float>(scalar.c[1])};
      break;
    case MYDEV_C128:
      value.c128 = {scalar.c[0], scalar.c[1]};
      break;
    case MYDEV_U8:
    case MYDEV_S8:
      value.byte = static_cast<uint8_t>(scalar.i);
      break;
    case MYDEV_S16:
      value.s16 = static_cast<int16_t>(scalar.i);
      break;
    default:
      value.byte = scalar.i != 0;
      break;
  }
}

// nullptr: the kernel lacks T.
Apply find_apply(const PointwiseKernel& kernel, int32_t dtype, const ComputeType& compute) {
  if (compute.apply == nullptr || (dtype == MYDEV_PRED && !kernel.pred)) return nullptr;
  return kernel.types.*compute.apply;
}

// Describes operand k to the plan; `wanted` is the type that it is computed in. False if the
// dtypes do not fit together.
bool plan_operand(Plan& plan, int k, char* base, mydev_dtype dtype, mydev_dtype wanted) {
  Operand& operand = plan.operands[k];
  operand.base = base;
  operand.size = dtype_row(dtype).size;
  operand.compute_size = dtype_row(wanted).size;
  operand.convert = nullptr;
  if (dtype != wanted) {
    // One step: the compute type is the native type that the dtype loads to.
    const Conversion conversion = k == 0 ? find_conversion(wanted, dtype) : find_conversion(dtype, wanted);
    if (conversion.count != 1) return false;
    operand.convert = conversion.steps[0];
  }
  operand.access = choose_access(plan, k);
  plan.buffered = plan.buffered || operand.access != Access::kDirect;
  const int64_t fits = kBufferBytes / operand.compute_size;
  if (fits < plan.chunk) plan.chunk = fits;
  return true;
}

bool is_row_major(const mydev_buffer& buffer) {
  int64_t stride = 1;
  for (int32_t d = buffer.rank; d-- > 0; stride *= buffer.sizes[d]) {
    if (buffer.strides[d] != stride && buffer.sizes[d] != 1) return false;
  }
  return true;
}

// Few elements that lie dense, of the compute type, and numbers: there is nothing to plan. False: it is not so.
bool run_few(const PointwiseKernel& kernel, const mydev_frame& frame, const ComputeType& compute, Apply apply,
             const Params& params) {
  const mydev_buffer& out = frame.buffers[0];
  const int64_t bytes = dtype_row(compute.dtype).size;
  int64_t count = 1;
  for (int32_t d = 0; d < out.rank; ++d) count *= out.sizes[d];
  if (count == 0 || count * bytes > kBufferBytes) return false;
  alignas(64) char numbers[kMaxInputs][kBufferBytes];
  const void* in[kMaxInputs];
  for (int k = 0; k <= kernel.inputs; ++k) {
    const mydev_buffer& buffer = frame.buffers[k];
    const mydev_dtype wanted = (k == 0 ? kernel.predicate : k - 1 == kernel.pred_input) ? MYDEV_PRED : compute.dtype;
    if ((buffer.flags & MYDEV_BUFFER_SCALAR) != 0) {
      ScalarValue value;
      set_scalar(value, wanted, *static_cast<const mydev_scalar*>(buffer.data));
      fill_dense(numbers[k - 1], reinterpret_cast<const char*>(&value), count, dtype_row(wanted).size);
      in[k - 1] = numbers[k - 1];
      continue;
    }
    if (buffer.dtype != wanted || buffer.data == nullptr || buffer.rank != out.rank || !is_row_major(buffer)) {
      return false;
    }
    for (int32_t d = 0; buffer.sizes != out.sizes && d < out.rank; ++d) {
      if (buffer.sizes[d] != out.sizes[d]) return false;
    }
    if (k > 0) in[k - 1] = buffer.data;
  }
  apply(params, out.data, in, count);
  return true;
}

bool run_block(const PointwiseBlock& block, const mydev_frame& frame, void* out, const void* const* in, int64_t n,
               bool by_one) {
  const Params params(frame.attributes, frame.num_attributes);
  reinterpret_cast<Apply>(by_one ? block.apply_by_one : block.apply)(params, out, in, n);
  if (!params.failed()) [[likely]]
    return true;
  frame.host->set_error(&frame, static_cast<const PointwiseKernel*>(block.kernel)->failure);
  return false;
}

// Runs the calls one after the other, `iterations` times, and advances the operands of those that move.
const PointwiseCall* run_iterations(std::span<PointwiseCall> calls, int64_t n, uint64_t iterations) {
  for (uint64_t iteration = 0; iteration < iterations; ++iteration) {
    for (PointwiseCall& call : calls) {
      const Params params(call.frame->attributes, call.frame->num_attributes);
      const auto apply = call.by_one ? call.block->apply_by_one : call.block->apply;
      reinterpret_cast<Apply>(apply)(params, call.operands[0], call.operands + 1, n);
      if (params.failed()) [[unlikely]] {
        call.frame->host->set_error(call.frame, static_cast<const PointwiseKernel*>(call.block->kernel)->failure);
        return &call;
      }
      if (!call.moves) continue;
      for (int k = 0; k <= kMaxBlockInputs; ++k)
        call.operands[k] = static_cast<char*>(call.operands[k]) + call.advance[k];
    }
  }
  return nullptr;
}

const PointwiseTableCall* run_table(std::span<const PointwiseTableCall> calls, void* const* table) {
  for (const PointwiseTableCall& call : calls) {
    const Params params(call.frame->attributes, call.frame->num_attributes);
    reinterpret_cast<Apply>(call.apply)(params, table[call.first], table + call.first + 1, call.count);
    if (params.failed()) [[unlikely]] {
      call.frame->host->set_error(call.frame, static_cast<const PointwiseKernel*>(call.kernel)->failure);
      return &call;
    }
  }
  return nullptr;
}

void fill_block(const PointwiseBlock& block, int operand, const mydev_scalar& number, void* values, int64_t n) {
  ScalarValue value;
  set_scalar(value, block.wanted[operand], number);
  fill_dense(static_cast<char*>(values), reinterpret_cast<const char*>(&value), n, block.value_bytes[operand]);
}

static_assert(kMaxInputs == kMaxBlockInputs);

// A kernel's function for a frame. Without `apply`, the kernel lacks its dtype.
struct Computation {
  int32_t dtype;
  ComputeType compute;
  Apply apply;
};

Computation computation_of(const PointwiseKernel& kernel, const mydev_frame& frame, bool numbers_are_final) {
  const int32_t dtype = frame.buffers[kernel.predicate ? 1 : 0].dtype;
  const ComputeType own = own_type(dtype);
  const bool is_own = own.apply != nullptr && kernel.types.*own.apply != nullptr &&
                      keeps_numbers(kernel, frame, dtype, numbers_are_final);
  const ComputeType compute = is_own ? own : compute_type(dtype);
  return {dtype, compute, find_apply(kernel, dtype, compute)};
}

bool describe_block(const PointwiseKernel& kernel, const mydev_frame& frame, PointwiseBlock& block) {
  if (frame.num_outputs != 1 || frame.num_inputs != static_cast<uint32_t>(kernel.inputs)) return false;
  const auto [dtype, compute, apply] = computation_of(kernel, frame, /*numbers_are_final=*/false);
  if (apply == nullptr) return false;
  // A product with another alpha would be rounded before it is added; a loop over values adds it as it is.
  const Params params(frame.attributes, frame.num_attributes);
  const bool is_exact = params.get<double>(0, 1.0) == 1.0;
  const Apply by_one = is_exact && compute.apply != nullptr ? kernel.by_one.*compute.apply : nullptr;
  block = {run_block,
           run_iterations,
           run_table,
           fill_block,
           run_chain,
           joined_operation,
           drain_stores,
           &kernel,
           reinterpret_cast<void (*)()>(apply),
           reinterpret_cast<void (*)()>(by_one),
           kernel.inputs,
           {},
           {},
           0,
           nullptr};
  for (int k = 0; k <= kernel.inputs; ++k) {
    const bool pred = k == 0 ? kernel.predicate : k - 1 == kernel.pred_input;
    block.wanted[k] = pred ? MYDEV_PRED : compute.dtype;
    block.value_bytes[k] = static_cast<int32_t>(dtype_row(block.wanted[k]).size);
    const bool is_number = (frame.buffers[k].flags & MYDEV_BUFFER_SCALAR) != 0;
    if (!is_number && frame.buffers[k].dtype != block.wanted[k]) return false;
  }
  if (compute.dtype == MYDEV_F32) block.pack = reinterpret_cast<void (*)()>(kernel.packs.f32);
  if (compute.dtype == MYDEV_F64) block.pack = reinterpret_cast<void (*)()>(kernel.packs.f64);
  if (compute.dtype == MYDEV_F32 && is_exact) block.chain_operation = chain_operation(kernel.name);
  return true;
}

mydev_code fail(const mydev_frame& frame, mydev_code code, const char* message) {
  frame.host->set_error(&frame, message);
  return code;
}

}  // namespace

mydev_code run_pointwise(const PointwiseKernel& kernel, const mydev_frame& frame) {
  if (frame.num_outputs != 1 || frame.num_inputs != static_cast<uint32_t>(kernel.inputs)) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "wrong number of operands");
  }
  const mydev_buffer* buffers = frame.buffers;
  if (kernel.predicate && buffers[0].dtype != MYDEV_PRED) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "the output must be pred");
  }
  const auto [dtype, compute, apply] = computation_of(kernel, frame, /*numbers_are_final=*/true);
  if (apply == nullptr) return fail(frame, MYDEV_UNIMPLEMENTED, "no kernel for this dtype");
  const Params params(frame.attributes, frame.num_attributes);
  const auto finish = [&] {
    return params.failed() ? fail(frame, MYDEV_FAILED_PRECONDITION, kernel.failure) : MYDEV_OK;
  };
  if (run_few(kernel, frame, compute, apply, params)) return finish();

  Plan plan;
  if (!make_layout(buffers, kernel.inputs + 1, plan.layout)) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "the operands must have one shape, of at most 64 dimensions");
  }
  if (plan.layout.count == 0) return MYDEV_OK;

  ScalarValue scalars[kOperands];
  plan.inputs = kernel.inputs;
  plan.by_row = plan.layout.rank == 1 || plan.layout.sizes[0] >= kMinRow;
  plan.buffered = false;
  plan.chunk = kBufferBytes;
  for (int k = 0; k <= kernel.inputs; ++k) {
    const bool pred = k == 0 ? kernel.predicate : k - 1 == kernel.pred_input;
    const mydev_dtype wanted = pred ? MYDEV_PRED : compute.dtype;
    char* base = static_cast<char*>(buffers[k].data);
    mydev_dtype type = static_cast<mydev_dtype>(buffers[k].dtype);
    if (base == nullptr) return fail(frame, MYDEV_INVALID_ARGUMENT, "an operand has no data");
    if ((buffers[k].flags & MYDEV_BUFFER_SCALAR) != 0) {
      set_scalar(scalars[k], wanted, *static_cast<const mydev_scalar*>(buffers[k].data));
      base = reinterpret_cast<char*>(&scalars[k]);
      type = wanted;
    } else if (type != (pred ? MYDEV_PRED : dtype)) {
      return fail(frame, MYDEV_INVALID_ARGUMENT, "the operands must have one dtype, and conditions be pred");
    }
    if (!plan_operand(plan, k, base, type, wanted)) {
      return fail(frame, MYDEV_INVALID_ARGUMENT, "the operands must have one dtype");
    }
  }
  plan.params = &params;
  plan.apply = apply;
  plan.transposed = transposed_dimension(plan);
  if (plan.transposed != 0) {
    parallel_for(TransposingWorker::count_tiles(plan), std::max<int64_t>(kernel.grain / (kTileRows * kTileColumns), 1),
                 [&plan](int64_t begin, int64_t end) { TransposingWorker(plan).run(begin, end); });
    return finish();
  }
  parallel_for(plan.layout.count, kernel.grain, [&plan](int64_t begin, int64_t end) { Worker(plan).run(begin, end); });
  return finish();
}

bool find_block(const char* name, const mydev_frame& frame, PointwiseBlock& block) {
  for (const std::span<const PointwiseKernel> table :
       {activation_kernels(), binary_kernels(), comparison_kernels(), ternary_kernels(), unary_kernels()}) {
    for (const PointwiseKernel& kernel : table) {
      if (__builtin_strcmp(kernel.name, name) == 0) return describe_block(kernel, frame, block);
    }
  }
  return false;
}

}  // namespace mydev::kernels::MYDEV_ISA
