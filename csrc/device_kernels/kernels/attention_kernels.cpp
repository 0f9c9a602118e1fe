// The plans of attention and of its gradients.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"

namespace mydev::device_kernels {

namespace {

constexpr uint32_t kMostStaged = 128;         // threads of a group that has memory for as many rows of a matrix
constexpr int64_t kRows = 4;                  // of a group
constexpr uint64_t kMostRowBytes = 16 << 10;  // that a group keeps of its rows: devices have 32 KiB or more for all

// The room that a row has: functions are made for powers of two.
int64_t room_for(int64_t width) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(width, 16))));
}

// The operands and sizes of both directions.
struct Attention {
  const BoundFrame& frame;
  const BoundOperand *query = frame.find("query"), *key = frame.find("key"), *value = frame.find("value"),
                     *mask = frame.find("mask"), *logsumexp = frame.find("logsumexp");
  int64_t batch = size(query, 0), heads = size(query, 1), queries = size(query, 2), width = size(query, 3),
          shared_heads = size(key, 1), keys = size(key, 2), value_width = size(value, 3);
  double dropout = frame.number("dropout");

  int64_t size(const BoundOperand* operand, int32_t d) const { return frame.buffer(*operand).sizes[d]; }
  int64_t sharing() const { return shared_heads == 0 ? 1 : heads / shared_heads; }

  // `rows`: of so many widths of keys, and of values, which a group keeps.
  TemplateUse use(const Request& request, const char* text, const char* name, int64_t of_keys,
                  int64_t of_values) const {
    TemplateUse use(request, text, name);
    use.type('T', query->dtype).type('S', logsumexp->dtype);
    use.type('M', is_there(mask) ? mask->dtype : MYDEV_F32);
    const int64_t room = room_for(width), value_room = room_for(value_width);
    const auto bytes = static_cast<uint64_t>(kRows * (of_keys * room + of_values * value_room)) *
                       (use.domain() == Domain::kF64 ? sizeof(double) : sizeof(float));
    require(bytes <= kMostRowBytes, "take no heads as wide as ", std::max(width, value_width));
    const bool staged = request.language.gpu && use.domain() == Domain::kF32 && request.language.lanes <= kMostStaged;
    use.choose("STAGED", staged ? 1 : 0).choose("WIDTH", room).choose("VALUE_WIDTH", value_room);
    use.choose("MASK", !is_there(mask) ? 0 : mask->dtype == MYDEV_PRED ? 2 : 1);
    use.choose("CAUSAL", frame.integer("is_causal")).choose("DROPS", dropout > 0 ? 1 : 0);
    return use;
  }
  void give_sizes(Call& call) const {
    call.give(batch).give(heads).give(sharing()).give(queries).give(keys).give(width).give(value_width);
  }
  void give_strides(Call& call, std::initializer_list<const BoundOperand*> operands) const {
    for (const BoundOperand* operand : operands) {
      const int32_t dimensions = operand == logsumexp ? 3 : 4;
      for (int32_t d = 0; d < dimensions; ++d) call.give(is_there(operand) ? frame.buffer(*operand).strides[d] : 0);
    }
  }
  // Words below the first number, of the 2^32, are kept; they are weighed by a factor.
  void give_factors(const TemplateUse& use, Call& call) const {
    call.give(static_cast<int64_t>(std::llround(std::ldexp(1 - dropout, 32))));
    use.give_number(call, frame.number("scale"));
    use.give_number(call, dropout < 1 ? 1 / (1 - dropout) : 0);
  }
};

uint64_t tiles_of(int64_t planes, int64_t rows) {
  return static_cast<uint64_t>(planes * ((rows + kRows - 1) / kRows));
}

Call queries_gradient(const Request& request, const Attention& problem) {
  const BoundFrame& frame = problem.frame;
  const TemplateUse use = problem.use(request, kAttentionQueriesText, "attention_queries", 2, 1);
  Call call = use.call({2, 0, 9, std::string(39, 'i') + "cc"},
                       groups(request, tiles_of(problem.batch * problem.heads, problem.queries)));
  const BoundOperand *result = frame.find("grad_query"), *grad = frame.find("grad_out"), *out = frame.find("out");
  call.give(Call::Memory{result->buffer}).give(Call::Memory{});
  for (const BoundOperand* operand : {grad, problem.query, problem.key, problem.value, out, problem.logsumexp}) {
    call.give(Call::Memory{operand->buffer});
  }
  for (const BoundOperand* operand : {problem.mask, frame.find("seed"), frame.find("offset")}) {
    call.give(memory_or(operand, problem.query->buffer));
  }
  problem.give_sizes(call);
  problem.give_strides(call,
                       {result, grad, problem.query, problem.key, problem.value, out, problem.mask, problem.logsumexp});
  problem.give_factors(use, call);
  return call;
}

Call keys_gradient(const Request& request, const Attention& problem) {
  const BoundFrame& frame = problem.frame;
  const TemplateUse use = problem.use(request, kAttentionKeysText, "attention_keys", 2, 2);
  Call call = use.call({2, 0, 9, std::string(39, 'i') + "cc"},
                       groups(request, tiles_of(problem.batch * problem.shared_heads, problem.keys)));
  const BoundOperand *grad_key = frame.find("grad_key"), *grad_value = frame.find("grad_value"),
                     *grad = frame.find("grad_out");
  call.give(Call::Memory{grad_key->buffer}).give(Call::Memory{grad_value->buffer}).give(Call::Memory{});
  for (const BoundOperand* operand : {grad, problem.query, problem.key, problem.value, problem.logsumexp}) {
    call.give(Call::Memory{operand->buffer});
  }
  for (const BoundOperand* operand : {problem.mask, frame.find("seed"), frame.find("offset")}) {
    call.give(memory_or(operand, problem.query->buffer));
  }
  problem.give_sizes(call);
  problem.give_strides(
      call, {grad_key, grad_value, grad, problem.query, problem.key, problem.value, problem.mask, problem.logsumexp});
  problem.give_factors(use, call);
  return call;
}

}  // namespace

Work plan_attention(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const Attention problem{frame};
  Work work;
  if (problem.batch * problem.heads * problem.queries == 0) return work;
  const BoundOperand *out = frame.find("out"), *state = frame.find("state");
  TemplateUse use = problem.use(request, kAttentionText, "attention", 1, 1);
  use.choose("STATE", is_there(state) ? 1 : 0);
  Call call = use.call({2, 0, 5, std::string(34, 'i') + "cc"},
                       groups(request, tiles_of(problem.batch * problem.heads, problem.queries)));
  for (const BoundOperand* operand : {out, problem.logsumexp, problem.query, problem.key, problem.value}) {
    call.give(Call::Memory{operand->buffer});
  }
  call.give(memory_or(problem.mask, problem.query->buffer)).give(memory_or(state, problem.query->buffer));
  problem.give_sizes(call);
  problem.give_strides(call, {out, problem.query, problem.key, problem.value, problem.mask, problem.logsumexp});
  call.give(is_there(state) ? frame.buffer(*state).strides[0] : 0);
  call.give(frame.integer("seed")).give(frame.integer("offset"));
  problem.give_factors(use, call);
  work.calls.push_back(std::move(call));
  return work;
}

Work plan_attention_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const Attention problem{frame};
  Work work;
  const int64_t rows = problem.batch * problem.heads * problem.queries;
  if (rows != 0) work.calls.push_back(queries_gradient(request, problem));
  if (problem.batch * problem.shared_heads * problem.keys != 0) work.calls.push_back(keys_gradient(request, problem));
  work.scratch_bytes = static_cast<uint64_t>(rows) * sizeof(double);
  return work;
}

}  // namespace mydev::device_kernels
