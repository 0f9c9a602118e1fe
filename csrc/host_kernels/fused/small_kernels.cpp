// Steps that are calls of kernels as instructions: small products of matrices, and parts of arrays that begin where
// indices say.
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "host_kernels/fused/small_instructions.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostMultiplications = 128;       // instructions for one product
constexpr size_t kMostRead = 16, kMostWritten = 8;  // pieces of a part; those that are written stay in registers before

}  // namespace

// A matrix of a batch: bytes from row to row, from column to column and from matrix to matrix.
struct SmallProgram::Instructions::Matrix {
  size_t pointer;
  int64_t row, column, batch;
};

bool SmallProgram::Instructions::kernel(const Kernel& kernel) {
  const std::string_view name = kernel.frame->kernel->name;
  if (name == "mydev.matmul") return product(kernel);
  if (name == "mydev.sum" || name == "mydev.amax" || name == "mydev.amin") return columns(kernel);
  if (name == "mydev.max_with_index") return places_in_columns(kernel, kGreaterThan);
  if (name == "mydev.min_with_index") return places_in_columns(kernel, kLess);
  if (name == "mydev.gather_slices") return part(kernel, PartUse::kRead);
  if (name == "mydev.scatter_slices") return part(kernel, PartUse::kWrite);
  return name == "mydev.scatter_slices_add" && part(kernel, PartUse::kAdd);
}

// Sums are those of the kernel's own loops: each begins with 0 and adds products along the inner dimension, each with
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

// The frame has one part: `whole` is [d...], `parts` is [1,w...], and `index` [1,k].
bool SmallProgram::Instructions::part(const Kernel& kernel, PartUse use) {
  const mydev_frame& frame = *kernel.frame;
  const bool reads = use == PartUse::kRead;
  const size_t whole_at = reads ? 1 : 0, parts_at = reads ? 0 : 3;
  const mydev_buffer &whole = frame.buffers[whole_at], &parts = frame.buffers[parts_at], &index = frame.buffers[2];
  const std::optional<Class> of = class_of(static_cast<mydev_dtype>(parts.dtype));
  if (!of || *of == Class::kTruth || parts.sizes[0] != 1) return false;
  for (const size_t pointer : kernel.pointers) {
    if (pointer == kNoPointer) return false;
  }
  const int64_t width = parts.dtype == MYDEV_F64 || parts.dtype == MYDEV_S64 ? 8 : 4;
  const std::span<const int64_t> sizes(parts.sizes + 1, static_cast<size_t>(whole.rank));
  const std::vector<Piece> pieces = pieces_of(whole, parts, width, reads ? kMostRead : kMostWritten);
  if (pieces.empty()) return false;
  std::vector<Component> components;
  const int64_t wraps = frame.attributes[reads ? 1 : 2].value.i;
  for (uint32_t k = 0; k < frame.attributes[0].count; ++k) {
    const auto dimension = static_cast<size_t>(frame.attributes[0].value.ints[k]);
    components.push_back({k * index.strides[1], signed32(whole.sizes[dimension] - sizes[dimension]),
                          signed32(whole.strides[dimension] * width),
                          (wraps >> k & 1) != 0 ? signed32(whole.sizes[dimension]) : 0});
  }
  if (!reads && !begin_with(kernel, width)) return false;
  // The values are loaded before a jump: registers would hold them on one way only.
  pinned_ = 0;
  std::vector<uint8_t> values;
  if (!reads) {
    for (const Piece& piece : pieces) values.push_back(load(kernel.pointers[parts_at], piece.in_part, piece.bytes));
  }
  const Address begin = address_of(kernel.pointers[whole_at], 0);
  const bool clamps = reads || frame.attributes[1].value.i != 0;
  const std::vector<size_t> outside =
      place_of_part(components, kernel.pointers[2], index.dtype == MYDEV_S64, clamps, begin.base);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const Address at{kRcx, signed32(begin.offset + piece.in_whole)};
    if (reads) {
      pinned_ = 0;
      const uint8_t value = new_register();
      to_.vector(move_op(piece.bytes, false), value, 0, at);
      store(kernel.pointers[parts_at], piece.in_part, piece.bytes, value);
      continue;
    }
    uint8_t value = values[i];
    if (use == PartUse::kAdd) {
      to_.vector(move_op(piece.bytes, false), kScratch0, 0, at);
      const bool is_float = *of == Class::kFloat;
      const auto wide = static_cast<uint8_t>(width == 8 ? 0xD4 : 0xFE);  // VPADDQ, VPADDD
      to_.vector({is_float ? prefix_of(piece.bytes == width, static_cast<int>(width)) : uint8_t{1}, 1,
                  is_float ? uint8_t{0x58} : wide, piece.bytes == 32},
                 kScratch0, kScratch0, value);
      value = kScratch0;
    }
    to_.vector(move_op(piece.bytes, true), value, 0, at);
  }
  for (const size_t jump : outside) to_.land(jump);
  if (!reads) overwritten(kernel.pointers[0], 0, elements_of(whole) * width);
  return true;
}

// The part in the order of its elements; no pieces: there are none, or more than `most`.
std::vector<SmallProgram::Instructions::Piece> SmallProgram::Instructions::pieces_of(const mydev_buffer& whole,
                                                                                     const mydev_buffer& parts,
                                                                                     int64_t width, size_t most) {
  int64_t run = 1;
  int32_t outer = whole.rank;
  const auto size = [&](int32_t d) { return parts.sizes[d + 1]; };
  for (; outer > 0; run *= size(--outer)) {
    if (size(outer - 1) != 1 && (whole.strides[outer - 1] != run || parts.strides[outer] != run)) break;
  }
  int64_t runs = 1;
  for (int32_t d = 0; d < outer; ++d) runs *= size(d);
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < runs && run != 0; ++i) {
    Piece piece{};
    for (int64_t d = outer, rest = i; d-- > 0; rest /= parts.sizes[d + 1]) {
      piece.in_whole += rest % parts.sizes[d + 1] * whole.strides[d] * width;
      piece.in_part += rest % parts.sizes[d + 1] * parts.strides[d + 1] * width;
    }
    for (int64_t left = run * width; left > 0; left -= piece.bytes) {
      if (pieces.size() == most) return {};
      piece.in_whole += piece.bytes;
      piece.in_part += piece.bytes;
      piece.bytes = run > kMostScalars ? step_of(left) : width;
      pieces.push_back(piece);
    }
  }
  return pieces;
}

int64_t SmallProgram::Instructions::elements_of(const mydev_buffer& buffer) {
  int64_t count = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) count *= buffer.sizes[d];
  return count;
}

// The array as it was, in the result, if that is not where it lies.
bool SmallProgram::Instructions::begin_with(const Kernel& kernel, int64_t width) {
  const Pointer &to = program_.pointers_[kernel.pointers[0]], &from = program_.pointers_[kernel.pointers[1]];
  if (to.binding == from.binding && to.offset == from.offset) return true;
  const int64_t count = elements_of(kernel.frame->buffers[0]);
  return move({kernel.pointers[0], kernel.pointers[1], width, count, count, {0}, {0}});
}

// Computes the address of the part in kRcx, but for the offset of the array. Returns jumps for a part that does not lie
// within, unless parts are moved to where they do.
std::vector<size_t> SmallProgram::Instructions::place_of_part(std::span<const Component> components, size_t index,
                                                              bool is_wide, bool clamps, Register base) {
  std::vector<size_t> outside;
  to_.move(kRcx, base);
  for (const Component& component : components) {
    const Address at = address_of(index, component.index * (is_wide ? 8 : 4));
    to_.memory(true, is_wide ? 0x8B : 0x63, kRax, at);  // MOV or MOVSXD
    const auto if_negative = [&](const auto& body) {
      to_.bytes({0x48, 0x85, 0xC0, 0x0F, 0x89});  // test rax, rax; jns
      const size_t jump = to_.hole();
      body();
      to_.land(jump);
    };
    if (component.wrap != 0) if_negative([&] { to_.with_rax(0x05, component.wrap); });  // add
    if (clamps) {
      if_negative([&] { to_.bytes({0x31, 0xC0}); });  // xor eax, eax
      to_.with_rax(0x3D, component.last);             // cmp
      to_.bytes({0x0F, 0x8E});                        // jle
      const size_t jump = to_.hole();
      to_.set(kRax, static_cast<uint64_t>(component.last));
      to_.land(jump);
    } else {
      to_.with_rax(0x3D, component.last);
      to_.bytes({0x0F, 0x87});  // ja: negative ones are large, too
      outside.push_back(to_.hole());
    }
    to_.multiply_rax(component.stride);
    to_.bytes({0x48, 0x01, 0xC1});  // add rcx, rax
  }
  return outside;
}

}  // namespace mydev::kernels
