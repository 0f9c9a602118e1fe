// Operands against a signature, and the shapes of the results.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/spec/signature.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

bool has_no_dtype(const mydev_buffer& buffer) {
  return buffer.dtype == MYDEV_DTYPE_INVALID;
}

void check_count(const mydev_kernel& kernel, const mydev_frame& frame) {
  const mydev_signature& signature = *kernel.signature;
  const bool variadic = has_variadic_operand(signature);
  const uint32_t least = signature.num_operands - (variadic ? 1 : 0);
  MYDEV_CHECK(variadic ? frame.num_inputs >= least : frame.num_inputs == least, MYDEV_INVALID_ARGUMENT, kernel.name,
              " takes ", variadic ? "at least " : "", least, " operands, not ", frame.num_inputs, ": ",
              describe_signature(kernel));
}

std::string operand_text(const mydev_kernel& kernel, uint32_t input) {
  const mydev_signature& signature = *kernel.signature;
  const uint32_t operand = operand_of_input(signature, input);
  std::string text = std::string(kernel.name) + ": operand '" + signature.operands[operand]->name;
  if (is_variadic(*signature.operands[operand])) {
    text += "[" + std::to_string(input - operand) + "]";
  }
  return text + "'";
}

const char* buffer_dtype(const mydev_buffer& buffer) {
  return dtype_name(static_cast<mydev_dtype>(buffer.dtype));
}

void check_operand(const mydev_kernel& kernel, const mydev_buffer* inputs, uint32_t input) {
  const mydev_signature& signature = *kernel.signature;
  const mydev_operand& operand = *signature.operands[operand_of_input(signature, input)];
  const mydev_buffer& buffer = inputs[input];
  if (has_no_dtype(buffer)) {
    MYDEV_CHECK((operand.flags & MYDEV_OPERAND_OPTIONAL) != 0, MYDEV_INVALID_ARGUMENT, operand_text(kernel, input),
                " is absent; it is not optional: ", describe_signature(kernel));
    return;
  }
  MYDEV_CHECK(static_cast<uint32_t>(buffer.dtype) < 64 && (operand.dtypes & MYDEV_DTYPE_BIT(buffer.dtype)) != 0,
              MYDEV_INVALID_ARGUMENT, operand_text(kernel, input), " is ", buffer_dtype(buffer),
              ", which it does not take: ", describe_signature(kernel));
  MYDEV_CHECK(operand.like < 0 || inputs[operand.like].dtype == buffer.dtype, MYDEV_INVALID_ARGUMENT,
              operand_text(kernel, input), " is ", buffer_dtype(buffer), ", but '",
              signature.operands[operand.like]->name, "' is ", buffer_dtype(inputs[operand.like]),
              "; they must have the same dtype: ", describe_signature(kernel));
  MYDEV_CHECK(buffer.rank >= operand.rank_min && (operand.rank_max < 0 || buffer.rank <= operand.rank_max),
              MYDEV_INVALID_ARGUMENT, operand_text(kernel, input), " has rank ", buffer.rank,
              ", which it does not take: ", describe_signature(kernel));
}

void check_attribute(const mydev_kernel& kernel, const mydev_attribute& attribute, const mydev_attribute& expected) {
  MYDEV_CHECK(attribute.name == expected.name || std::string_view(attribute.name) == expected.name,
              MYDEV_INVALID_ARGUMENT, kernel.name, ": attribute '", attribute.name, "' where '", expected.name,
              "' should be: ", describe_signature(kernel));
  MYDEV_CHECK(
      attribute.kind == expected.kind && (attribute.kind != MYDEV_ATTRIBUTE_ARRAY || attribute.dtype == expected.dtype),
      MYDEV_INVALID_ARGUMENT, kernel.name, ": attribute '", attribute.name, "' has kind ", attribute.kind, " and not ",
      expected.kind, ": ", describe_signature(kernel));
}

// --- shapes of results -----------------------------------------------------------------------------------------------

bool overflows(const mydev_shape& shape) {
  int64_t bytes = std::max<int64_t>(dtype_size(static_cast<mydev_dtype>(shape.dtype)), 1);
  bool overflow = false;
  bool empty = false;
  for (int32_t d = 0; d < shape.rank; ++d) {
    empty = empty || shape.sizes[d] == 0;
    overflow = __builtin_mul_overflow(bytes, shape.sizes[d], &bytes) || overflow;
  }
  return overflow && !empty;
}

std::string shape_text(const mydev_shape& shape) {
  std::string text = std::string(dtype_name(static_cast<mydev_dtype>(shape.dtype))) + "[";
  for (int32_t d = 0; d < shape.rank; ++d) text += (d != 0 ? "," : "") + std::to_string(shape.sizes[d]);
  return text + "]";
}

// This thread's current call of a kernel's infer_shapes puts its message here.
thread_local std::string* inference_message = nullptr;

void keep_inference_message(const mydev_frame* /*frame*/, const char* message) {
  if (inference_message != nullptr) *inference_message = message != nullptr ? message : "";
}

void run_parallel_for(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  host_services().parallel_for(count, grain, body, context);
}

constexpr mydev_host_services kInferenceServices = {sizeof(mydev_host_services), keep_inference_message,
                                                    run_parallel_for, nullptr};

// Calls the kernel's own inference, and detects its mistakes.
void call_infer_shapes(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results) {
  mydev_frame inference = frame;
  inference.buffers += frame.num_outputs;
  inference.num_outputs = 0;
  inference.host = &kInferenceServices;
  inference.kernel = &kernel;
  for (mydev_shape& result : results) result.rank = -1;
  std::string message;
  std::string* outer = std::exchange(inference_message, &message);
  mydev_code code = MYDEV_OK;
  try {
    code = kernel.signature->infer_shapes(&inference, results.data());
  } catch (const std::exception& error) {
    code = MYDEV_INTERNAL;
    message = std::string("infer_shapes threw: ") + error.what();
  } catch (...) {
    code = MYDEV_INTERNAL;
    message = "infer_shapes threw";
  }
  inference_message = outer;
  if (code != MYDEV_OK) {
    raise(code, std::string(kernel.name) + ": " + (message.empty() ? "infer_shapes gave no message" : message) + ": " +
                    describe_signature(kernel));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const mydev_shape& result = results[i];
    const bool valid_rank = result.rank >= 0 && result.rank <= MYDEV_MAX_SHAPE_RANK;
    MYDEV_CHECK(valid_rank && std::all_of(result.sizes, result.sizes + result.rank, [](int64_t s) { return s >= 0; }),
                MYDEV_INTERNAL, kernel.name, ": infer_shapes gives result ", i, " a rank of ", result.rank,
                " or a negative size; this is a bug of the kernel's library");
  }
}

// The shapes of the results by the text of the signature. Operands that are broadcast count as they arrive at the
// kernel.
void infer_by_text(const mydev_kernel& kernel, const KernelContract& contract, const mydev_frame& frame,
                   std::span<mydev_shape> results) {
  const std::optional<ShapeRule>& rule = compiled_signature(kernel)->rule;
  const mydev_buffer* inputs = frame.buffers + frame.num_outputs;
  std::vector<mydev_buffer> operands(inputs, inputs + frame.num_inputs);
  if (contract.has_one_shape() && rule.has_value() && !results.empty()) {
    rule->apply(kernel, frame, results);
    for (mydev_buffer& operand : operands) {
      if (has_no_dtype(operand)) continue;
      operand.rank = results[0].rank;
      operand.sizes = operand.strides = results[0].sizes;
    }
  }
  mydev_frame alone = frame;
  alone.buffers = operands.data();
  alone.num_outputs = 0;
  const std::string why = infer_by_contract(contract, alone, results);
  MYDEV_CHECK(why.empty(), MYDEV_INVALID_ARGUMENT, why);
}

// The dtype and sizes of an operand.
void take_shape(const mydev_kernel& kernel, const mydev_frame& frame, uint32_t input, mydev_shape& shape) {
  const mydev_buffer& operand = frame.buffers[frame.num_outputs + input];
  MYDEV_CHECK(operand.rank <= MYDEV_MAX_SHAPE_RANK, MYDEV_INVALID_ARGUMENT, operand_text(kernel, input), " has rank ",
              operand.rank, "; the limit is ", MYDEV_MAX_SHAPE_RANK);
  shape.dtype = operand.dtype;
  shape.rank = operand.rank;
  std::copy_n(operand.sizes, operand.rank, shape.sizes);
}

void check_alias(const mydev_kernel& kernel, const mydev_frame& frame, int32_t operand, const mydev_shape& result) {
  const mydev_buffer& buffer = frame.buffers[frame.num_outputs + static_cast<uint32_t>(operand)];
  MYDEV_CHECK(buffer.dtype == result.dtype && buffer.rank == result.rank &&
                  std::equal(result.sizes, result.sizes + result.rank, buffer.sizes),
              MYDEV_INVALID_ARGUMENT, operand_text(kernel, static_cast<uint32_t>(operand)),
              " is written in place by a ", "result of ", shape_text(result),
              ", which it cannot hold: ", describe_signature(kernel));
}

}  // namespace

void check_operands(const mydev_kernel& kernel, const mydev_frame& frame) {
  const mydev_signature& signature = *kernel.signature;
  check_count(kernel, frame);
  for (uint32_t input = 0; input < frame.num_inputs; ++input) {
    check_operand(kernel, frame.buffers + frame.num_outputs, input);
  }
  MYDEV_CHECK(frame.num_attributes == signature.num_attributes, MYDEV_INVALID_ARGUMENT, kernel.name, " takes ",
              signature.num_attributes, " attributes, not ", frame.num_attributes, ": ", describe_signature(kernel));
  for (uint32_t i = 0; i < signature.num_attributes; ++i) {
    check_attribute(kernel, frame.attributes[i], signature.attributes[i]->value);
  }
}

void infer_results(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results) {
  const CompiledSignature& signature = *compiled_signature(kernel);
  check_count(kernel, frame);
  const uint32_t count = num_outputs(signature, frame.num_inputs);
  MYDEV_CHECK(results.size() == count, MYDEV_INVALID_ARGUMENT, kernel.name, " has ", count, " results, not ",
              results.size(), ": ", describe_signature(kernel));
  const uint32_t num_single = num_single_results(signature);
  const mydev_buffer* inputs = frame.buffers + frame.num_outputs;
  const std::span<mydev_shape> single = results.first(num_single);
  for (uint32_t i = 0; i < num_single; ++i) single[i].dtype = declared_dtype(*signature.results[i], inputs);
  if (signature.text) {
    infer_by_text(kernel, *signature.text, frame, single);
  } else if (signature.rule) {
    signature.rule->apply(kernel, frame, single);
  } else if (signature.infer_shapes != nullptr) {
    call_infer_shapes(kernel, frame, single);
  } else {  // each result is an operand
    for (uint32_t i = 0; i < num_single; ++i) {
      take_shape(kernel, frame, static_cast<uint32_t>(signature.results[i]->alias), single[i]);
    }
  }
  for (uint32_t i = num_single; i < count; ++i) {
    take_shape(kernel, frame, signature.num_operands - 1 + i - num_single, results[i]);
  }
  for (uint32_t i = 0; i < num_single; ++i) {
    const mydev_operand& result = *signature.results[i];
    MYDEV_CHECK(results[i].dtype == declared_dtype(result, inputs), MYDEV_INTERNAL, kernel.name,
                ": infer_shapes gives result ", i, " the dtype ",
                dtype_name(static_cast<mydev_dtype>(results[i].dtype)), ", which is not its signature's");
    MYDEV_CHECK(!overflows(results[i]), signature.infer_shapes == nullptr ? MYDEV_INVALID_ARGUMENT : MYDEV_INTERNAL,
                kernel.name, ": result ", i, ", ", shape_text(results[i]), ", has more bytes than there can be");
    if (result.alias >= 0) check_alias(kernel, frame, result.alias, results[i]);
  }
}

}  // namespace mydev
