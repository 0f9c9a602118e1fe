// Kernel group fft: Fourier transforms by the library that fourier_transform.h describes. The group has no records if
// that library is not installed.
//
// Any strides. Computed in the precision of the operands.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/fft/fourier_transform.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/base/installed_library.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

using Kind = FourierTransform::Kind;

constexpr const char* name_of(Kind kind) {
  return kind == Kind::kComplex ? "mydev.fft_c2c" : kind == Kind::kFromReal ? "mydev.fft_r2c" : "mydev.fft_c2r";
}

// nullptr: it is not installed. It is compiled for baseline and for AVX2, which are all that it gains by.
TransformFn load_transform() {
  const bool has_avx2 = instruction_set() != InstructionSet::kBaseline;
  const std::string file = installed_library(has_avx2 ? "libmydev_fft_avx2.so" : "libmydev_fft_baseline.so");
  if (!std::filesystem::exists(file)) return nullptr;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library != nullptr ? ::dlsym(library, kTransformSymbol) : nullptr;
  MYDEV_CHECK(function != nullptr, MYDEV_FAILED_PRECONDITION, file, " cannot be loaded: ", ::dlerror(),
              "; build this project anew");
  return reinterpret_cast<TransformFn>(function);
}
TransformFn transform_function() {
  static const TransformFn function = load_transform();
  return function;
}

[[noreturn]] void refuse(Kind kind, mydev_code code, const std::string& why) {
  throw Error(code, std::string(name_of(kind)) + ": " + why);
}

void check_dtypes(Kind kind, mydev_dtype in, mydev_dtype out) {
  const bool is_double = in == MYDEV_F64 || in == MYDEV_C128;
  const mydev_dtype real = is_double ? MYDEV_F64 : MYDEV_F32, complex = is_double ? MYDEV_C128 : MYDEV_C64;
  if (in != (kind == Kind::kFromReal ? real : complex) || out != (kind == Kind::kToReal ? real : complex)) {
    refuse(kind, MYDEV_UNIMPLEMENTED,
           "transforms numbers of f32 and c64, or of f64 and c128, got " + std::string(dtype_name(in)) + " and " +
               dtype_name(out));
  }
}

void check_sizes(Kind kind, const mydev_buffer& in, const mydev_buffer& out) {
  if (in.rank != out.rank || in.rank < 2 || in.rank > 4) {
    refuse(kind, MYDEV_INVALID_ARGUMENT,
           "takes a batch of 1 to 3 dimensions, got ranks " + std::to_string(in.rank) + " and " +
               std::to_string(out.rank));
  }
  const mydev_buffer& whole = kind == Kind::kToReal ? out : in;
  const mydev_buffer& other = kind == Kind::kToReal ? in : out;
  for (int32_t d = 0; d < in.rank; ++d) {
    const bool is_half = kind != Kind::kComplex && d == in.rank - 1;
    const int64_t expected = is_half ? whole.sizes[d] / 2 + 1 : whole.sizes[d];
    if (other.sizes[d] != expected) {
      refuse(kind, MYDEV_INVALID_ARGUMENT,
             "dimension " + std::to_string(d) + " has " + std::to_string(other.sizes[d]) + " for " +
                 std::to_string(whole.sizes[d]) + ", expected " + std::to_string(expected));
    }
  }
}

bool is_empty(const mydev_buffer& buffer) {
  return std::find(buffer.sizes, buffer.sizes + buffer.rank, 0) != buffer.sizes + buffer.rank;
}

struct FftPlan {
  bool is_double;
  uint64_t scratch_bytes = 0;
};

template <Kind kind>
FftPlan plan_fft(const mydev_frame& frame) {
  if (frame.num_outputs != 1 || frame.num_inputs != 1 || frame.num_attributes != 2) {
    refuse(kind, MYDEV_INVALID_ARGUMENT, "takes one operand, one result, and the attributes 'forward' and 'scale'");
  }
  const mydev_buffer &out = frame.buffers[0], &in = frame.buffers[1];
  check_dtypes(kind, static_cast<mydev_dtype>(in.dtype), static_cast<mydev_dtype>(out.dtype));
  check_sizes(kind, in, out);
  return {in.dtype == MYDEV_F64 || in.dtype == MYDEV_C128};
}

template <Kind kind>
mydev_code fft_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] {
    const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
    if (is_empty(out)) return;
    if (is_empty(in)) refuse(kind, MYDEV_INVALID_ARGUMENT, "the operand has no elements, and the result has some");
    transform_function()({.kind = kind,
                          .is_double = planned<FftPlan>(*frame).is_double,
                          .forward = frame->attributes[0].value.i != 0,
                          .scale = frame->attributes[1].value.f,
                          .rank = static_cast<uint32_t>(in.rank),
                          .in = in.data,
                          .in_sizes = in.sizes,
                          .in_strides = in.strides,
                          .out = out.data,
                          .out_sizes = out.sizes,
                          .out_strides = out.strides});
  });
}

template <Kind kind>
constexpr mydev_kernel record() {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name_of(kind);
  kernel.entry = fft_entry<kind>;
  kernel.plan = plan_entry<FftPlan, plan_fft<kind>>;
  return kernel;
}

constexpr mydev_kernel kFftRecords[] = {record<Kind::kComplex>(), record<Kind::kFromReal>(), record<Kind::kToReal>()};

}  // namespace

std::span<const mydev_kernel> fft() {
  if (transform_function() == nullptr) return {};
  return kFftRecords;
}

}  // namespace mydev::kernels
