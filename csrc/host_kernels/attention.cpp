// Kernel group attention: softmax(scale * query @ key^T + mask) @ value and its gradients, by blocks, in memory that
// grows with the lengths and not with their product (attention_loops.h).
//
// Any strides. f16 and bf16 are computed in f32. A mask is added, or, of pred, hides what is false. The backward reads
// the logsumexp that the forward gave, and draws the numbers of dropout again from where the forward began.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "host_kernels/attention_loops.h"
#include "host_kernels/builtin_kernels.h"
#include "host_kernels/isa_variant.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

constexpr char kForward[] = "mydev.attention", kBackward[] = "mydev.attention_backward";

[[noreturn]] void refuse(const char* kernel, mydev_code code, const std::string& why) {
  throw Error(code, std::string(kernel) + ": " + why);
}

bool is_floating(const mydev_buffer& buffer) {
  return buffer.dtype == MYDEV_F16 || buffer.dtype == MYDEV_BF16 || buffer.dtype == MYDEV_F32 ||
         buffer.dtype == MYDEV_F64;
}

bool has_sizes(const mydev_buffer& buffer, std::initializer_list<int64_t> sizes) {
  return buffer.rank == static_cast<int32_t>(sizes.size()) && std::equal(sizes.begin(), sizes.end(), buffer.sizes);
}

// With the operands and the options that both directions have; the others are the caller's.
AttentionProblem problem_of(const mydev_frame& frame, const char* kernel, const mydev_buffer* query,
                            const mydev_buffer* mask) {
  const mydev_buffer *key = query + 1, *value = query + 2;
  for (const mydev_buffer* operand : {query, key, value}) {
    if (!is_floating(*operand) || operand->dtype != query->dtype) {
      refuse(kernel, MYDEV_UNIMPLEMENTED, "takes query, key and value of one dtype of f16, bf16, f32 and f64");
    }
    if (operand->rank != 4) refuse(kernel, MYDEV_INVALID_ARGUMENT, "query, key and value have 4 dimensions");
  }
  AttentionProblem problem{};
  problem.batch = query->sizes[0];
  problem.heads = query->sizes[1];
  problem.queries = query->sizes[2];
  problem.width = query->sizes[3];
  problem.shared_heads = key->sizes[1];
  problem.keys = key->sizes[2];
  problem.value_width = value->sizes[3];
  const int64_t groups = problem.shared_heads;
  if (!has_sizes(*key, {problem.batch, groups, problem.keys, problem.width}) ||
      !has_sizes(*value, {problem.batch, groups, problem.keys, problem.value_width}) ||
      (groups == 0 ? problem.heads != 0 : problem.heads % groups != 0)) {
    refuse(kernel, MYDEV_INVALID_ARGUMENT,
           "query [b,h,l,d], key [b,g,s,d] and value [b,g,s,e] do not fit together; g must divide h");
  }
  if (mask->data != nullptr) {
    if (mask->dtype != query->dtype && mask->dtype != MYDEV_F32 && mask->dtype != MYDEV_PRED) {
      refuse(kernel, MYDEV_UNIMPLEMENTED, "takes a mask of the query's dtype, f32 or pred");
    }
    if (!has_sizes(*mask, {problem.batch, problem.heads, problem.queries, problem.keys})) {
      refuse(kernel, MYDEV_INVALID_ARGUMENT, "the mask must be [b,h,l,s], which strides of 0 may repeat");
    }
  }
  problem.is_causal = frame.attributes[0].value.i != 0;
  problem.scale = frame.attributes[1].value.f;
  problem.dropout = frame.attributes[2].value.f;
  if (!(problem.dropout >= 0 && problem.dropout <= 1)) {
    refuse(kernel, MYDEV_INVALID_ARGUMENT, "dropout must lie in 0..1, got " + std::to_string(problem.dropout));
  }
  problem.query = query;
  problem.key = key;
  problem.value = value;
  problem.mask = mask;
  return problem;
}

// Refuses a result or a gradient whose dtype is not the query's.
void check_dtype(const char* kernel, const AttentionProblem& problem, const mydev_buffer& buffer) {
  if (buffer.dtype != problem.query->dtype) {
    refuse(kernel, MYDEV_UNIMPLEMENTED, "the result and gradients have the query's dtype");
  }
}
void check_result(const char* kernel, const AttentionProblem& problem) {
  check_dtype(kernel, problem, *problem.out);
  const int32_t dtype = problem.logsumexp->dtype;
  if (dtype != problem.query->dtype && dtype != MYDEV_F32) {
    refuse(kernel, MYDEV_UNIMPLEMENTED, "logsumexp has the query's dtype or f32");
  }
  if (!has_sizes(*problem.out, {problem.batch, problem.heads, problem.queries, problem.value_width}) ||
      !has_sizes(*problem.logsumexp, {problem.batch, problem.heads, problem.queries})) {
    refuse(kernel, MYDEV_INVALID_ARGUMENT, "the result must be [b,h,l,e] and logsumexp [b,h,l]");
  }
}

void check_counts(const mydev_frame& frame, const char* kernel, uint32_t outputs, uint32_t inputs,
                  uint32_t attributes) {
  if (frame.num_outputs != outputs || frame.num_inputs != inputs || frame.num_attributes != attributes) {
    refuse(kernel, MYDEV_INVALID_ARGUMENT, "takes other operands or attributes; see its contract");
  }
}

AttentionProblem forward_problem(const mydev_frame& frame) {
  const bool has_state = frame.num_inputs == 5;
  check_counts(frame, kForward, 2, has_state ? 5 : 4, 5);
  const mydev_buffer* b = frame.buffers;
  AttentionProblem problem = problem_of(frame, kForward, b + 2, b + 5);
  problem.out = b;
  problem.logsumexp = b + 1;
  problem.seed = static_cast<uint64_t>(frame.attributes[3].value.i);
  problem.offset = static_cast<uint64_t>(frame.attributes[4].value.i);
  if (has_state && (b[6].dtype != MYDEV_S64 || !has_sizes(b[6], {2}))) {
    refuse(kForward, MYDEV_INVALID_ARGUMENT, "the state is two numbers, s64[2]");
  }
  check_result(kForward, problem);
  return problem;
}

AttentionProblem backward_problem(const mydev_frame& frame) {
  check_counts(frame, kBackward, 3, 9, 3);
  const mydev_buffer* b = frame.buffers;
  AttentionProblem problem = problem_of(frame, kBackward, b + 4, b + 9);
  problem.grad_query = b;
  problem.grad_key = b + 1;
  problem.grad_value = b + 2;
  problem.grad_out = b + 3;
  problem.out = b + 7;
  problem.logsumexp = b + 8;
  check_result(kBackward, problem);
  const std::array<std::pair<const mydev_buffer*, const mydev_buffer*>, 4> alike = {
      {{problem.grad_query, problem.query},
       {problem.grad_key, problem.key},
       {problem.grad_value, problem.value},
       {problem.grad_out, problem.out}}};
  for (const auto& [gradient, operand] : alike) {
    check_dtype(kBackward, problem, *gradient);
    if (gradient->rank != 4 || !std::equal(operand->sizes, operand->sizes + 4, gradient->sizes)) {
      refuse(kBackward, MYDEV_INVALID_ARGUMENT, "a gradient must have the sizes of what it is of");
    }
  }
  for (const mydev_buffer* state : {b + 10, b + 11}) {
    if (state->data != nullptr && state->dtype != MYDEV_S64)
      refuse(kBackward, MYDEV_UNIMPLEMENTED, "seed and offset are s64");
    if (state->rank != 0 || (problem.dropout > 0 && state->data == nullptr)) {
      refuse(kBackward, MYDEV_INVALID_ARGUMENT, "seed and offset are one number each, there where dropout is");
    }
  }
  return problem;
}

// How the work is divided: pieces of equally many tasks, each with its own part of the scratch.
struct AttentionPlan {
  int64_t tasks = 0, pieces = 0;
  uint64_t bytes = 0, scratch_bytes = 0;  // of a piece, of all
};

const AttentionFunctions& functions_for(const AttentionProblem& problem) {
  const AttentionLoops& loops = MYDEV_ISA_VARIANT(instruction_set(), attention_loops);
  return problem.query->dtype == MYDEV_F64 ? loops.f64 : loops.f32;
}

AttentionPlan plan_of(int64_t tasks, uint64_t bytes) {
  AttentionPlan plan{tasks, std::min<int64_t>(tasks, parallel_threads()), bytes, 0};
  plan.scratch_bytes = static_cast<uint64_t>(plan.pieces) * bytes;
  return plan;
}
AttentionPlan plan_forward(const mydev_frame& frame) {
  const AttentionProblem problem = forward_problem(frame);
  const AttentionFunctions& functions = functions_for(problem);
  return plan_of(functions.forward_tasks(problem), functions.forward_bytes(problem));
}
AttentionPlan plan_backward(const mydev_frame& frame) {
  const AttentionProblem problem = backward_problem(frame);
  const AttentionFunctions& functions = functions_for(problem);
  return plan_of(functions.backward_tasks(problem), functions.backward_bytes(problem));
}

using Tasks = void (*)(const AttentionProblem& problem, int64_t begin, int64_t end, void* memory);

void run_pieces(const mydev_frame& frame, const AttentionProblem& problem, Tasks run) {
  const auto& plan = planned<AttentionPlan>(frame);
  const int64_t grain = plan.tasks * problem.queries * problem.keys < kGrainCheap ? plan.pieces : 1;
  parallel_for(plan.pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      run(problem, plan.tasks * piece / plan.pieces, plan.tasks * (piece + 1) / plan.pieces,
          static_cast<char*>(frame.scratch) + static_cast<uint64_t>(piece) * plan.bytes);
    }
  });
}

mydev_code forward_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] {
    AttentionProblem problem = forward_problem(*frame);
    if (frame->num_inputs == 5) {
      const mydev_buffer& state = frame->buffers[6];
      problem.seed = static_cast<const uint64_t*>(state.data)[0];
      problem.offset += static_cast<const uint64_t*>(state.data)[state.strides[0]];
    }
    run_pieces(*frame, problem, functions_for(problem).forward);
  });
}

mydev_code backward_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] {
    AttentionProblem problem = backward_problem(*frame);
    if (problem.dropout > 0) {
      problem.seed = static_cast<uint64_t>(*static_cast<const int64_t*>(frame->buffers[10].data));
      problem.offset = static_cast<uint64_t>(*static_cast<const int64_t*>(frame->buffers[11].data));
    }
    run_pieces(*frame, problem, functions_for(problem).backward);
  });
}

template <AttentionPlan (*plan)(const mydev_frame& frame)>
constexpr mydev_kernel record(const char* name, mydev_kernel_fn entry) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.plan = plan_entry<AttentionPlan, plan>;
  return kernel;
}

constexpr mydev_kernel kAttentionRecords[] = {record<plan_forward>(kForward, forward_entry),
                                              record<plan_backward>(kBackward, backward_entry)};

}  // namespace

std::span<const mydev_kernel> attention() {
  return kAttentionRecords;
}

}  // namespace mydev::kernels
