#include "lowering/operators/order.h"

#include "runtime/frame/dtype.h"

namespace mydev::lowering {

namespace {

int bits_of(mydev_dtype dtype) noexcept {
  return static_cast<int>(dtype_size(dtype)) * 8;
}

mydev_dtype integers_of_size(int64_t bytes) noexcept {
  return bytes == 2 ? MYDEV_S16 : bytes == 4 ? MYDEV_S32 : MYDEV_S64;
}

Tensor with_highest_bit_inverted(Emitter& emit, const Tensor& tensor) {
  const mydev_dtype dtype = tensor.view.dtype;
  const int unused = 64 - bits_of(dtype);
  const int64_t lowest = INT64_MIN >> unused;
  if (tensor.splat) {
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(tensor.splat->i) << unused) >> unused;
    return emit.integer_splat(dtype, tensor.sizes(), value ^ lowest);
  }
  return emit.pointwise("mydev.bitwise_xor", dtype, {tensor, emit.integer_splat(dtype, tensor.sizes(), lowest)});
}

}  // namespace

Tensor in_signed_order(Emitter& emit, const Tensor& tensor) {
  const mydev_dtype dtype = signed_dtype(tensor.view.dtype);
  if (dtype == tensor.view.dtype) return tensor;
  return with_highest_bit_inverted(emit, {with_dtype(tensor.view, dtype), tensor.splat});
}

Tensor from_signed_order(Emitter& emit, Tensor tensor, mydev_dtype dtype) {
  if (dtype == tensor.view.dtype) return tensor;
  tensor = with_highest_bit_inverted(emit, tensor);
  tensor.view.dtype = dtype;
  return tensor;
}

// The bits of negative floats, as integers, are greater for smaller floats: all but the sign are inverted.
Tensor in_total_order(Emitter& emit, const program::Operand& floats) {
  const mydev_dtype dtype = integers_of_size(dtype_size(floats.dtype));
  const int bits = bits_of(dtype);
  const Tensor x{with_dtype(floats, dtype)};
  const auto compute = [&](const char* kernel, const Tensor& a, int64_t number) {
    return emit.pointwise(kernel, dtype, {a, emit.integer_splat(dtype, x.sizes(), number)});
  };
  const Tensor signs = compute("mydev.rshift", x, bits - 1);
  const Tensor inverted = compute("mydev.bitwise_and", signs, INT64_MAX >> (64 - bits));
  return emit.pointwise("mydev.bitwise_xor", dtype, {x, inverted});
}

}  // namespace mydev::lowering
