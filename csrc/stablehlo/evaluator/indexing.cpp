// gather, scatter, dynamic_slice, dynamic_update_slice.
#include <algorithm>
#include <cstring>
#include <memory>

#include "stablehlo/evaluator/box.h"
#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

bool has(const Sizes& dimensions, size_t d) noexcept {
  return std::ranges::count(dimensions, static_cast<int64_t>(d)) != 0;
}

Sizes dimensions_but(size_t rank, const Sizes& left_out) {
  Sizes rest;
  for (size_t d = 0; d < rank; ++d) {
    if (!has(left_out, d)) rest.push_back(static_cast<int64_t>(d));
  }
  return rest;
}

int64_t clamped(int64_t value, int64_t least, int64_t most) noexcept {
  return std::min(std::max(value, least), most);
}

// Finds windows of one tensor (the operand) for each index. Another tensor (the slices) has their elements.
struct Windows {
  Sizes window_sizes;                        // of the window, for each dimension of the operand
  Sizes operand, operand_strides;            // all of it
  Sizes window_strides;                      // where a window's elements lie in the slices
  Sizes batch, batch_strides;                // of indices; where their windows begin in the slices
  Sizes index_strides;                       // where an index begins in start_indices, by batch
  int64_t component_stride = 0;              // between its components
  Sizes components;                          // the operand's dimension of each
  Sizes operand_batching, indices_batching;  // dimensions that go together; the latter among `batch`

  // The place in the operand at which the window of an index begins, by dimension.
  Sizes start(const Index& at, const Type& type, const std::byte* indices) const {
    Sizes start(operand.size(), 0);
    const int64_t base = at.offset(index_strides);
    for (size_t i = 0; i < components.size(); ++i) {
      const Number number = element(type, indices, base + static_cast<int64_t>(i) * component_stride);
      const bool beyond = kind_of(type.element) == ElementKind::kUnsigned && number.integer < 0;
      start[static_cast<size_t>(components[i])] = beyond ? INT64_MAX : number.integer;
    }
    for (size_t i = 0; i < operand_batching.size(); ++i) {
      start[static_cast<size_t>(operand_batching[i])] = at[static_cast<size_t>(indices_batching[i])];
    }
    return start;
  }
  int64_t offset(const Sizes& start) const {
    int64_t offset = 0;
    for (size_t d = 0; d < start.size(); ++d) offset += start[d] * operand_strides[d];
    return offset;
  }
};

// `window_dims` of the slices are the window's dimensions, in order, without the `dropped` ones of the operand.
Windows windows_of(const Operation& op, const Type& operand, const Type& indices, const Type& slices,
                   const Sizes& window_dims, const Sizes& dropped, const char* map, const char* operand_batching,
                   const char* indices_batching) {
  Windows windows;
  windows.operand = operand.dims;
  windows.operand_strides = row_major_strides(operand.dims);
  windows.components = op.integers(map);
  windows.operand_batching = op.integers_or_none(operand_batching);
  const auto vector_dim = static_cast<size_t>(op.integer("index_vector_dim"));
  const Sizes slice_strides = row_major_strides(slices.dims), strides = row_major_strides(indices.dims);

  windows.window_strides.assign(operand.dims.size(), 0);
  windows.window_sizes.assign(operand.dims.size(), 1);
  size_t next = 0;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    if (has(dropped, d) || has(windows.operand_batching, d)) continue;
    const auto slice_dim = static_cast<size_t>(window_dims.at(next++));
    windows.window_strides[d] = slice_strides.at(slice_dim);
    windows.window_sizes[d] = slices.dims.at(slice_dim);
  }
  for (const int64_t d : dimensions_but(slices.dims.size(), window_dims)) {
    windows.batch.push_back(slices.dims[static_cast<size_t>(d)]);
    windows.batch_strides.push_back(slice_strides[static_cast<size_t>(d)]);
  }
  const Sizes batching = op.integers_or_none(indices_batching);
  Sizes batch_of(indices.dims.size(), 0);
  for (size_t d = 0; d < indices.dims.size(); ++d) {
    if (d == vector_dim) continue;
    batch_of[d] = static_cast<int64_t>(windows.index_strides.size());
    windows.index_strides.push_back(strides[d]);
  }
  for (const int64_t d : batching) windows.indices_batching.push_back(batch_of.at(static_cast<size_t>(d)));
  if (vector_dim < strides.size()) windows.component_stride = strides[vector_dim];
  return windows;
}

}  // namespace

Evaluation evaluate_gather(const Operation& op) {
  const Type &operand = *op.operand(0).type, &indices = *op.operand(1).type, &result = *op.result().type;
  const Windows windows =
      windows_of(op, operand, indices, result, op.integers("offset_dims"), op.integers("collapsed_slice_dims"),
                 "start_index_map", "operand_batching_dims", "start_indices_batching_dims");
  return [&operand, &indices, windows](auto operands, auto results) {
    const int64_t bytes = element_bytes(operand.element);
    const int64_t each = std::max<int64_t>(count_of(windows.window_sizes), 1);
    parallel_for(count_of(windows.batch), std::max<int64_t>(kGrainHeavy / each, 1), [&](int64_t begin, int64_t end) {
      Index at(windows.batch);
      at.seek(begin);
      for (int64_t i = begin; i < end; ++i, at.next()) {
        Sizes start = windows.start(at, indices, operands[1]);
        for (size_t d = 0; d < start.size(); ++d) {
          start[d] = clamped(start[d], 0, windows.operand[d] - windows.window_sizes[d]);
        }
        copy_box(windows.window_sizes, operands[0] + windows.offset(start) * bytes, windows.operand_strides,
                 results[0] + at.offset(windows.batch_strides) * bytes, windows.window_strides, bytes);
      }
    });
  };
}

Evaluation evaluate_scatter(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  const size_t n = op.results.size();
  const Type &operand = *op.operand(0).type, &indices = *op.operand(n).type, &updates = *op.operand(n + 1).type;
  const Windows windows =
      windows_of(op, operand, indices, updates, op.integers("update_window_dims"), op.integers("inserted_window_dims"),
                 "scatter_dims_to_operand_dims", "input_batching_dims", "scatter_indices_batching_dims");
  return [&op, &indices, body, windows, n](auto operands, auto results) {
    for (size_t k = 0; k < n; ++k) {
      std::memcpy(results[k], operands[k], static_cast<size_t>(op.operand(k).type->bytes()));
    }
    std::vector<Number> registers = body->make_registers(), values(n);
    for (Index at(windows.batch); at; at.next()) {
      const Sizes start = windows.start(at, indices, operands[n]);
      bool inside = true;  // a window that is not whole is left out
      for (size_t d = 0; d < start.size(); ++d) {
        inside = inside && start[d] >= 0 && start[d] <= windows.operand[d] - windows.window_sizes[d];
      }
      if (!inside) continue;
      const int64_t to = windows.offset(start), from = at.offset(windows.batch_strides);
      for (Index within(windows.window_sizes); within; within.next()) {
        const int64_t place = to + within.offset(windows.operand_strides);
        const int64_t update = from + within.offset(windows.window_strides);
        for (size_t k = 0; k < n; ++k) {
          registers[k] = element(*op.operand(k).type, results[k], place);
          registers[n + k] = element(*op.operand(n + 1 + k).type, operands[n + 1 + k], update);
        }
        body->run(registers);
        for (size_t k = 0; k < n; ++k) values[k] = body->result(registers, k);
        for (size_t k = 0; k < n; ++k) set_element(*op.result(k).type, results[k], place, values[k]);
      }
    }
  };
}

namespace {

// The offset at which a slice of these sizes begins. The slice is moved so that it lies within the operand.
int64_t slice_offset(const Operation& op, std::span<const std::byte* const> operands, size_t first,
                     const Sizes& sizes) {
  const Sizes& whole = op.operand(0).type->dims;
  const Sizes strides = row_major_strides(whole);
  int64_t offset = 0;
  for (size_t d = 0; d < whole.size(); ++d) {
    const Type& type = *op.operand(first + d).type;
    const int64_t index = element(type, operands[first + d], 0).integer;
    const bool beyond = kind_of(type.element) == ElementKind::kUnsigned && index < 0;
    offset += clamped(beyond ? INT64_MAX : index, 0, whole[d] - sizes[d]) * strides[d];
  }
  return offset;
}

}  // namespace

Evaluation evaluate_dynamic_slice(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &operand = *op.operand(0).type, &result = *op.result().type;
    const int64_t bytes = element_bytes(operand.element);
    copy_box(result.dims, operands[0] + slice_offset(op, operands, 1, result.dims) * bytes,
             row_major_strides(operand.dims), results[0], row_major_strides(result.dims), bytes);
  };
}

Evaluation evaluate_dynamic_update_slice(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &operand = *op.operand(0).type, &update = *op.operand(1).type;
    const int64_t bytes = element_bytes(operand.element);
    std::memcpy(results[0], operands[0], static_cast<size_t>(operand.bytes()));
    copy_box(update.dims, operands[1], row_major_strides(update.dims),
             results[0] + slice_offset(op, operands, 2, update.dims) * bytes, row_major_strides(operand.dims), bytes);
  };
}

}  // namespace mydev::stablehlo
