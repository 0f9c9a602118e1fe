// csr_matmul(row_starts I[m+1], columns I[nnz], values T[nnz], dense T[k,n]) -> T[m,n]: a sparse matrix in compressed
// rows times a dense one, and its gradient with respect to values and dense. T is f32 or f64, I is s32 or s64.
//
// Row i of the sparse matrix has values[row_starts[i] .. row_starts[i+1]), in those columns. The indices come from
// users, so each call checks them: it costs one pass over what is read n times anyway.
#include <algorithm>
#include <cstdio>

#include "parallel_for.h"
#include "records.h"

namespace {

template <typename Index, typename T>
struct Csr {
  const Index *row_starts, *columns;
  const T* values;
  int64_t rows, nonzeros;

  explicit Csr(const mydev_buffer* operands)
      : row_starts(static_cast<const Index*>(operands[0].data)),
        columns(static_cast<const Index*>(operands[1].data)),
        values(static_cast<const T*>(operands[2].data)),
        rows(operands[0].sizes[0] - 1),
        nonzeros(operands[1].sizes[0]) {}

  mydev_code check(const mydev_frame& frame, int64_t num_columns) const {
    if (rows < 0) return refuse(frame, "row_starts must have an entry more than there are rows, not", rows + 1);
    if (row_starts[0] != 0 || row_starts[rows] != nonzeros) {
      return refuse(frame, "row_starts must begin with 0 and end with the number of values", nonzeros);
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (row_starts[i] > row_starts[i + 1]) return refuse(frame, "row_starts must not fall; it does after row", i);
    }
    for (int64_t i = 0; i < nonzeros; ++i) {
      if (columns[i] < 0 || columns[i] >= num_columns) {
        return refuse(frame, "columns must lie in the rows of dense; this one does not:", columns[i]);
      }
    }
    return MYDEV_OK;
  }

 private:
  // [docs: error]
  static mydev_code refuse(const mydev_frame& frame, const char* what, int64_t value) {
    char message[160];
    std::snprintf(message, sizeof(message), "%s %lld", what, static_cast<long long>(value));
    frame.host->set_error(&frame, message);  // copied
    return MYDEV_INVALID_ARGUMENT;
  }
  // [docs: end]
};

template <typename T>
void add_scaled(T* __restrict to, const T* __restrict from, T scale, int64_t n) {
  for (int64_t j = 0; j < n; ++j) to[j] += scale * from[j];
}

template <typename T>
T dot(const T* __restrict a, const T* __restrict b, int64_t n) {
  T lanes[16] = {};
  int64_t j = 0;
  for (; j + 16 <= n; j += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += a[j + lane] * b[j + lane];
  }
  T sum = 0;
  for (; j < n; ++j) sum += a[j] * b[j];
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <typename Index, typename T>
mydev_code multiply(const mydev_frame& frame) {
  const Csr<Index, T> sparse(frame.buffers + 1);
  const mydev_buffer& dense = frame.buffers[4];
  const int64_t n = dense.sizes[1];
  if (const mydev_code code = sparse.check(frame, dense.sizes[0]); code != MYDEV_OK) return code;
  T* out = static_cast<T*>(frame.buffers[0].data);
  const T* from = static_cast<const T*>(dense.data);
  parallel_for(frame, sparse.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::fill(out + i * n, out + (i + 1) * n, T(0));
      for (Index at = sparse.row_starts[i]; at < sparse.row_starts[i + 1]; ++at) {
        add_scaled(out + i * n, from + sparse.columns[at] * n, sparse.values[at], n);
      }
    }
  });
  return MYDEV_OK;
}

// grad_values[at] = grad[row of at] . dense[column of at];  grad_dense = the transposed sparse matrix times grad.
template <typename Index, typename T>
mydev_code multiply_gradient(const mydev_frame& frame) {
  const Csr<Index, T> sparse(frame.buffers + 2);
  const mydev_buffer &dense = frame.buffers[5], &grad = frame.buffers[6];
  const int64_t k = dense.sizes[0], n = dense.sizes[1];
  if (const mydev_code code = sparse.check(frame, k); code != MYDEV_OK) return code;
  if (grad.sizes[0] != sparse.rows) {
    frame.host->set_error(&frame, "grad must have as many rows as the sparse matrix");
    return MYDEV_INVALID_ARGUMENT;
  }
  T *grad_values = static_cast<T*>(frame.buffers[0].data), *grad_dense = static_cast<T*>(frame.buffers[1].data);
  const T *from = static_cast<const T*>(dense.data), *g = static_cast<const T*>(grad.data);
  parallel_for(frame, sparse.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (Index at = sparse.row_starts[i]; at < sparse.row_starts[i + 1]; ++at) {
        grad_values[at] = dot(g + i * n, from + sparse.columns[at] * n, n);
      }
    }
  });
  // Several rows add to one row of grad_dense, so the threads share the columns: no two write to one place.
  parallel_for(frame, n, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < k; ++row) std::fill(grad_dense + row * n + begin, grad_dense + row * n + end, T(0));
    for (int64_t i = 0; i < sparse.rows; ++i) {
      for (Index at = sparse.row_starts[i]; at < sparse.row_starts[i + 1]; ++at) {
        add_scaled(grad_dense + sparse.columns[at] * n + begin, g + i * n + begin, sparse.values[at], end - begin);
      }
    }
  });
  return MYDEV_OK;
}

// [docs: dtypes]
// The instance for the types of the first sparse operand, row_starts and values.
mydev_code forward_entry(const mydev_frame* frame) {
  const bool wide = frame->buffers[1].dtype == MYDEV_S64, single = frame->buffers[3].dtype == MYDEV_F32;
  if (wide) return single ? multiply<int64_t, float>(*frame) : multiply<int64_t, double>(*frame);
  return single ? multiply<int32_t, float>(*frame) : multiply<int32_t, double>(*frame);
}
// [docs: end]

mydev_code backward_entry(const mydev_frame* frame) {
  const bool wide = frame->buffers[2].dtype == MYDEV_S64, single = frame->buffers[4].dtype == MYDEV_F32;
  if (wide) return single ? multiply_gradient<int64_t, float>(*frame) : multiply_gradient<int64_t, double>(*frame);
  return single ? multiply_gradient<int32_t, float>(*frame) : multiply_gradient<int32_t, double>(*frame);
}

// [docs: computed-size]
constexpr char kTypes[] = "I: s32 s64; T: f32 f64";
constexpr mydev_signature kSignature = {
    .struct_size = sizeof(mydev_signature),
    .contract =
        "dense (out T[m,n]) <- (row_starts I[starts], columns I[nnz], values T[nnz], dense T[k,n])"
        " where m = starts - 1",
    .types = kTypes};
// [docs: end]

constexpr int32_t kSaved[] = {0, 1, 2, 3}, kWrt[] = {2, 3};
constexpr mydev_gradient kGradient = {
    sizeof(mydev_gradient), "example.csr_matmul_grad", kSaved, 4, /*num_wrt=*/2, kWrt};

constexpr mydev_signature kGradSignature = {
    .struct_size = sizeof(mydev_signature),
    .contract =
        "dense (grad_values T[nnz], grad_dense T[k,n]) <- (row_starts I[starts], columns I[nnz], values T[nnz],"
        " dense T[k,n], grad T[m,n])",
    .types = kTypes};

}  // namespace

extern "C" constexpr mydev_kernel csr_matmul = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.csr_matmul",
    .entry = forward_entry,
    .doc = "a sparse matrix in compressed rows times a dense one",
    .signature = &kSignature,
    .gradient = &kGradient,
    .batching = MYDEV_BATCHING_SEQUENTIAL,
};

extern "C" constexpr mydev_kernel csr_matmul_grad = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.csr_matmul_grad",
    .entry = backward_entry,
    .doc = "the gradient of example.csr_matmul",
    .signature = &kGradSignature,
    .batching = MYDEV_BATCHING_SEQUENTIAL,
};
