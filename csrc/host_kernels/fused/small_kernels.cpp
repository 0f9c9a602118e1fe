// Steps that are calls of kernels as instructions: small products of matrices.
#include <array>
#include <string_view>
#include <utility>

#include "host_kernels/fused/small_instructions.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostMultiplications = 128;  // instructions for one product

}  // namespace

// A matrix of a batch: bytes from row to row, from column to column and from matrix to matrix.
struct SmallProgram::Instructions::Matrix {
  size_t pointer;
  int64_t row, column, batch;
};

bool SmallProgram::Instructions::kernel(const Kernel& kernel) {
  const std::string_view name = kernel.frame->kernel->name;
  return name == "mydev.matmul" && product(kernel);
}

// As the kernel's own loops compute it: each sum begins with 0 and adds products along the inner dimension, each with
// one rounding.
bool SmallProgram::Instructions::product(const Kernel& kernel) {
  const mydev_frame& frame = *kernel.frame;
  const mydev_buffer &result = frame.buffers[0], &left = frame.buffers[1];
  const bool is_double = result.dtype == MYDEV_F64;
  const int64_t width = is_double ? 8 : 4;
  if (!is_double && result.dtype != MYDEV_F32) return false;
  if (kernel.pointers.size() > 3 && kernel.pointers[3] != kNoPointer) return false;
  if (frame.attributes[0].value.f != 1 || frame.attributes[1].value.f != 0) return false;
  std::array<Matrix, 3> matrices{};
  for (size_t i = 0; i < matrices.size(); ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    if (kernel.pointers[i] == kNoPointer || buffer.dtype != result.dtype) return false;
    const int64_t* const strides = buffer.strides + buffer.rank - 2;
    matrices[i] = {kernel.pointers[i], strides[0] * width, strides[1] * width,
                   buffer.rank == 3 ? buffer.strides[0] * width : 0};
  }
  auto& [out, a, b] = matrices;
  const int64_t batch = result.rank == 3 ? result.sizes[0] : 1, depth = left.sizes[left.rank - 1];
  int64_t rows = result.sizes[result.rank - 2], columns = result.sizes[result.rank - 1];
  if (rows > 1 && out.row == width && b.column != width && a.row == width) {  // the product of the transposed ones
    std::swap(rows, columns);
    std::swap(a, b);
    for (Matrix& matrix : matrices) std::swap(matrix.row, matrix.column);
  }
  const bool by_vectors = columns > kMostScalars && out.column == width && b.column == width;
  int64_t multiplications = 0;
  for (int64_t at = 0; at < columns; at += by_vectors ? step_of((columns - at) * width) / width : 1) {
    multiplications += batch * rows * depth;
  }
  if (multiplications > kMostMultiplications) return false;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns;) {
        const int64_t bytes = by_vectors ? step_of((columns - column) * width) : width;
        const int64_t from = i * a.batch + row * a.row, along = i * b.batch + column * b.column;
        pinned_ = 0;
        const uint8_t sum = new_register();
        const uint32_t pinned = pinned_;
        to_.vector({0, 1, 0x57, bytes == 32}, sum, sum, sum);
        for (int64_t k = 0; k < depth; ++k) {
          pinned_ = pinned;
          const uint8_t factors = load(b.pointer, along + k * b.row, bytes);
          uint8_t factor = kScratch0;
          if (by_vectors) {
            const auto opcode = static_cast<uint8_t>(is_double ? 0x19 : 0x18);  // VBROADCASTSD or VBROADCASTSS
            to_.vector({1, 2, opcode, true}, factor, 0, address_of(a.pointer, from + k * a.column));
          } else {
            factor = load(a.pointer, from + k * a.column, width);
          }
          // VFMADD231, of vectors or of one value.
          const auto opcode = static_cast<uint8_t>(by_vectors ? 0xB8 : 0xB9);
          to_.vector({1, 2, opcode, bytes == 32, is_double}, sum, factors, factor);
        }
        store(out.pointer, i * out.batch + row * out.row + column * out.column, bytes, sum);
        column += bytes / width;
      }
    }
  }
  return true;
}

}  // namespace mydev::kernels
