// The plans of attention and of its gradients.
#include <algorithm>
#include <bit>
#include <cmath>

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
    use.choose("STAGED", staged).choose("WIDTH", room).choose("VALUE_WIDTH", value_room);
    use.choose("MASK", !is_there(mask) ? 0 : mask->dtype == MYDEV_PRED ? 2 : 1);
    use.choose("CAUSAL", frame.integer("is_causal")).choose("DROPS", dropout > 0);
    return use;
  }
  // Adds the call for so many planes of rows; its sizes, and the strides of these operands, are given.
  Call& add_call(const Request& request, TemplateUse& use, int64_t planes, int64_t rows,
                 std::initializer_list<const char*> operands, Work& work) const {
    use.place("deltas", Call::Memory{});
    Call& call = work.calls.emplace_back(use.call(frame, groups(request, planes * ((rows + kRows - 1) / kRows))));
    call.give(batch).give(heads).give(sharing()).give(queries).give(keys).give(width).give(value_width);
    for (const char* name : operands) {
      const int32_t dimensions = frame.find(name) == logsumexp ? 3 : 4;
      for (int32_t d = 0; d < dimensions; ++d) call.give(frame.stride(name, d));
    }
    return call;
  }
  // Words below the first number, of the 2^32, are kept; they are weighed by a factor.
  void give_factors(const TemplateUse& use, Call& call) const {
    call.give(static_cast<int64_t>(std::llround(std::ldexp(1 - dropout, 32))));
    use.give_number(call, frame.number("scale"));
    use.give_number(call, dropout < 1 ? 1 / (1 - dropout) : 0);
  }
};

}  // namespace

Work plan_attention(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const Attention problem{frame};
  Work work;
  if (problem.batch * problem.heads * problem.queries == 0) return work;
  TemplateUse use = problem.use(request, kAttentionText, "attention", 1, 1);
  use.choose("STATE", frame.has("state"));
  Call& call = problem.add_call(request, use, problem.batch * problem.heads, problem.queries,
                                {"out", "query", "key", "value", "mask", "logsumexp"}, work);
  call.give(frame.stride("state", 0)).give(frame.integer("seed")).give(frame.integer("offset"));
  problem.give_factors(use, call);
  return work;
}

Work plan_attention_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const Attention problem{frame};
  Work work;
  const int64_t rows = problem.batch * problem.heads * problem.queries;
  if (rows != 0) {
    TemplateUse use = problem.use(request, kAttentionQueriesText, "attention_queries", 2, 1);
    Call& call =
        problem.add_call(request, use, problem.batch * problem.heads, problem.queries,
                         {"grad_query", "grad_out", "query", "key", "value", "out", "mask", "logsumexp"}, work);
    problem.give_factors(use, call);
  }
  if (problem.batch * problem.shared_heads * problem.keys != 0) {
    TemplateUse use = problem.use(request, kAttentionKeysText, "attention_keys", 2, 2);
    Call& call =
        problem.add_call(request, use, problem.batch * problem.shared_heads, problem.keys,
                         {"grad_key", "grad_value", "grad_out", "query", "key", "value", "mask", "logsumexp"}, work);
    problem.give_factors(use, call);
  }
  work.scratch_bytes = static_cast<uint64_t>(rows) * sizeof(double);
  return work;
}

}  // namespace mydev::device_kernels
