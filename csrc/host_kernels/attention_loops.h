// The loops of the attention kernels (attention.cpp), one variant per instruction set. They read any strides, compute
// f16 and bf16 in f32, and keep no matrix of all queries by all keys.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev::kernels {

struct AttentionProblem {
  int64_t batch, heads, shared_heads;  // of the query; of key and value, which divides those
  int64_t queries, keys, width, value_width;
  bool is_causal;
  double scale, dropout;
  uint64_t seed, offset;  // of dropout, in blocks of Philox
  const mydev_buffer *query, *key, *value, *mask, *out, *logsumexp;
  const mydev_buffer *grad_out, *grad_query, *grad_key, *grad_value;  // backward only

  // Each row of weights begins with a block of four words.
  uint64_t blocks_per_row() const noexcept { return static_cast<uint64_t>(keys + 3) / 4; }
};

// Each function computes the tasks [begin, end) of those that its count gives, in memory of its own.
struct AttentionFunctions {
  int64_t (*forward_tasks)(const AttentionProblem& problem);  // blocks of queries of one head
  uint64_t (*forward_bytes)(const AttentionProblem& problem);
  void (*forward)(const AttentionProblem& problem, int64_t begin, int64_t end, void* memory);
  int64_t (*backward_tasks)(const AttentionProblem& problem);  // heads of key and value
  uint64_t (*backward_bytes)(const AttentionProblem& problem);
  void (*backward)(const AttentionProblem& problem, int64_t begin, int64_t end, void* memory);
};

struct AttentionLoops {
  AttentionFunctions f32, f64;
};

MYDEV_DECLARE_VARIANTS(MYDEV_API extern const AttentionLoops attention_loops;)

}  // namespace mydev::kernels
